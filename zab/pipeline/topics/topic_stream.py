"""Topics as a stream: `spark.readStream.format("zab.topic").option("kafka.bootstrap.servers", "host:9092")`.

`options` lists the options. The columns are the first eight of `schema.TOPIC`, those of Spark's own source.

An offset is a position in each partition, with the id of each topic:

    {"version": 1, "topics": {"<name>": {"id": "<id>", "partitions": {"0": 17, "1": 4}}}}

A topic that was deleted and created again has another id: the stream is refused, since its positions would mean other
records. A partition that comes later is read from its beginning. Positions that the brokers no longer have, because
the records were deleted or an unclean election took the end away, are an error; with failOnDataLoss=false the stream
goes on at the first one that is there, or at the end.

Batch 0 is always empty: it writes where the stream starts into the checkpoint. (Spark keeps only the end of a batch. A
start such as latest would be another one if it were looked up again after a crash.)

Invariants: a batch has the records between its two offsets, whenever and however often it is read, as long as the
brokers have them. So a sink that writes each batch once has each record once, across a killed driver.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from zab.pipeline.decoding.slices import timestamps
from zab.pipeline.decoding.transactions import ROWS_MAX
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import STREAMED
from zab.pipeline.topics.brokers import Brokers, KafkaBrokers, OutOfRangeError, Place, Topic
from zab.pipeline.topics.options import EARLIEST, LATEST, StreamOptions

__all__ = ["TopicStreamReader"]

TASK_OFFSETS: Final = 100_000
"""A partition with more offsets in a batch is read by several tasks."""
_NO_LIMIT: Final = 1 << 62
_ARROW: Final = {column.name: column.arrow for column in STREAMED}

Offset = dict[str, Any]


@frozen
class Part:
    """The input of one Spark task: offsets [start, until) of a partition."""

    place: Place
    ident: str
    start: int
    until: int


@frozen
class Positions:
    """The next offset of each partition, and the id of each topic."""

    next: Mapping[Place, int]
    ids: Mapping[str, str]

    def pack(self) -> Offset:
        topics: dict[str, Any] = {}
        for (name, number), offset in sorted(self.next.items()):
            one = topics.setdefault(name, {"id": self.ids.get(name, ""), "partitions": {}})
            one["partitions"][str(number)] = offset
        return {"version": 1, "topics": topics}

    @classmethod
    def parse(cls, offset: Offset) -> "Positions":
        """Raises PipelineError."""
        try:
            if offset["version"] != 1:
                raise PipelineError(f"the checkpoint has version {offset['version']}, which this version does not know")
            topics = offset["topics"]
            return cls(
                {
                    (name, int(number)): int(at)
                    for name, one in topics.items()
                    for number, at in one["partitions"].items()
                },
                {name: str(one["id"]) for name, one in topics.items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise PipelineError(f"the checkpoint is not one of a stream of zab.topic: {offset!r}") from None


def _connect(options: StreamOptions) -> Brokers:
    return KafkaBrokers(options.servers, options.is_committed)


@define(eq=False)
class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader that Spark drives. `columns`: the requested ones of STREAMED."""

    options: StreamOptions
    columns: tuple[str, ...]
    connect: Callable[[StreamOptions], Brokers] = _connect
    _brokers: Brokers | None = field(default=None, init=False)
    _targets: Mapping[Place, int] | None = field(default=None, init=False)
    """With the trigger availableNow, how far each partition is read."""
    _latest: Positions | None = field(default=None, init=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.options, self.columns, self.connect

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def brokers(self) -> Brokers:
        if self._brokers is None:
            self._brokers = self.connect(self.options)
        return self._brokers

    # Offsets.

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"version": 1, "starting": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.offsets_max is None else ReadMaxRows(self.options.offsets_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        _, bounds = self._there()
        self._targets = {place: end for place, (_, end) in bounds.items()}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None if self._latest is None else self._latest.pack()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        topics, bounds = self._there()
        ids = {name: topic.id for name, topic in topics.items()}
        self._latest = Positions({place: end for place, (_, end) in bounds.items()}, ids)
        if "starting" in start:
            return Positions(self._begin(bounds), ids).pack()
        positions = Positions.parse(start)
        self._check_ids(positions, topics)
        reached = self._reached(positions, bounds, limit.max_rows if isinstance(limit, ReadMaxRows) else _NO_LIMIT)
        # Partitions that have come since: this batch notes where they begin, the next one reads.
        for place, (begin, _) in bounds.items():
            if place not in positions.next and (self._targets is None or place in self._targets):
                reached[place] = begin
        return start if reached == positions.next else Positions(reached, {**positions.ids, **ids}).pack()

    def _there(self) -> tuple[dict[str, Topic], dict[Place, tuple[int, int]]]:
        """The topics that are read, and the bounds of their partitions. Raises PipelineError."""
        wanted = self.options.wanted
        found = self.brokers.topics()
        missing = sorted(wanted.named - found.keys())
        if missing and self.options.fails_on_loss:
            shown = ", ".join(sorted(found)[:20]) or "none"
            raise PipelineError(
                f"{self.options.servers}: no topic {', '.join(missing)}; the topics are {shown}; failOnDataLoss=false "
                "goes on without it"
            )
        places = [(name, part) for name, topic in found.items() for part in topic.partitions if wanted.has(name, part)]
        topics = {name: found[name] for name, _ in places}
        return topics, self.brokers.bounds(sorted(places))

    def _begin(self, bounds: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
        """Where the stream starts in each partition. Raises PipelineError."""
        named = {place: self.options.starting.of(*place) for place in bounds}
        found = self.brokers.offsets_at({place: time for place, (_, time) in named.items() if time is not None})
        result: dict[Place, int] = {}
        for place, (begin, end) in bounds.items():
            offset, time = named[place]
            if time is not None:
                sought = found[place]
                if sought is None and self.options.strategy == "error":
                    raise PipelineError(
                        f"{_shown(place)}: no record has a timestamp of {time} ms or later; "
                        "startingOffsetsByTimestampStrategy=latest starts at the end then"
                    )
                result[place] = end if sought is None else sought
            elif offset is None:
                raise PipelineError(f"the starting offsets do not name {_shown(place)}")
            elif offset in (EARLIEST, LATEST):
                result[place] = begin if offset == EARLIEST else end
            else:
                result[place] = self._clipped(place, offset, begin, end)
        return result

    def _check_ids(self, positions: Positions, topics: Mapping[str, Topic]) -> None:
        for name, ident in positions.ids.items():
            topic = topics.get(name)
            if topic is not None and ident and topic.id and topic.id != ident:
                raise PipelineError(
                    f"the topic {name} was deleted and created again: the checkpoint has positions of the one with id "
                    f"{ident}, the brokers have {topic.id}; begin with a new checkpoint"
                )

    def _reached(self, positions: Positions, bounds: Mapping[Place, tuple[int, int]], left: int) -> dict[Place, int]:
        """How far the batch goes, with at most `left` offsets."""
        reached: dict[Place, int] = {}
        ends: dict[Place, int] = {}
        for place, at in positions.next.items():
            if place not in bounds:
                self._lost(f"{_shown(place)} is gone")
                continue
            begin, end = bounds[place]
            reached[place] = self._clipped(place, at, begin, end)
            ends[place] = end if self._targets is None else min(end, self._targets.get(place, at))
        # First each partition gets its share; the others may use what is left of it.
        for share in (max(1, left // max(1, len(reached))), left):
            for place in sorted(reached):
                step = max(0, min(share, left, ends[place] - reached[place]))
                reached[place] += step
                left -= step
        return reached

    def _clipped(self, place: Place, offset: int, begin: int, end: int) -> int:
        if not begin <= offset <= end:
            self._lost(f"offset {offset} of {_shown(place)} is not there, the brokers have {begin} to {end}")
        return min(max(offset, begin), end)

    def _lost(self, sentence: str) -> None:
        if self.options.fails_on_loss:
            raise PipelineError(f"{sentence}; failOnDataLoss=false goes on with what is there")

    # Reading.

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if "starting" in start:
            return []
        before, after = Positions.parse(start), Positions.parse(end)
        # After a restart, Spark asks for a batch again before it asks what is new.
        self._check_ids(after, self._there()[0])
        parts: list[InputPartition] = []
        for place in sorted(after.next.keys() & before.next.keys()):
            at, until = before.next[place], after.next[place]
            parts += [
                InputPartition(Part(place, after.ids.get(place[0], ""), begin, min(until, begin + TASK_OFFSETS)))
                for begin in range(at, until, TASK_OFFSETS)
            ]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: Part | None = partition.value
        if part is None:
            return
        brokers = self.connect(self.options)
        try:
            # It may have been created again since the batch was planned.
            self._check_ids(Positions({}, {part.place[0]: part.ident}), brokers.topics())
            yield from self._rows(brokers, part)
        finally:
            brokers.close()

    def _rows(self, brokers: Brokers, part: Part) -> Iterator[pa.RecordBatch]:
        at = part.start
        while at < part.until:
            try:
                for fetched in brokers.fetch(part.place, at, part.until):
                    at = fetched.position
                    for begin in range(0, len(fetched.records), ROWS_MAX):
                        yield _batch(part.place, fetched.records[begin : begin + ROWS_MAX], self.columns)
            except OutOfRangeError:
                self._lost(f"offset {at} of {_shown(part.place)} is no longer there")
                ((begin, _),) = brokers.bounds([part.place]).values()
                # What lies below the beginning was deleted; what lies above the end was taken away.
                at = begin if begin > at else part.until

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()


def _shown(place: Place) -> str:
    return f"partition {place[1]} of {place[0]}"


def _batch(place: Place, records: Sequence[Any], columns: Sequence[str]) -> pa.RecordBatch:
    count = len(records)
    offsets, times, types, keys, values, headers = zip(*records, strict=True)
    made: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: pa.array(keys, pa.binary()),
        "value": lambda: pa.array(values, pa.binary()),
        "topic": lambda: pa.repeat(pa.scalar(place[0], pa.string()), count),
        "partition": lambda: pa.repeat(pa.scalar(place[1], pa.int32()), count),
        "offset": lambda: pa.array(offsets, pa.int64()),
        "timestamp": lambda: timestamps(np.array(times, np.int64)),
        "timestampType": lambda: pa.array(types, pa.int32()),
        "headers": lambda: pa.array(
            [[{"key": name, "value": value} for name, value in one] for one in headers], _ARROW["headers"]
        ),
    }
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    schema = pa.schema([pa.field(name, _ARROW[name]) for name in columns])
    return pa.RecordBatch.from_arrays([made[name]() for name in columns], schema=schema)
