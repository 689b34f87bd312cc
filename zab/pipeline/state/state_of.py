"""Computes the state of ensembles at one moment from their directories, with Spark.

    found = state_of(spark, dirs, at=…)
    found.znodes       DataFrame of ZNODES
    found.sessions     DataFrame of SESSIONS
    found.moments      what each ensemble's state is built from
    state_of_members(spark, members, at=…)       the state of one ensemble, given its members

`at` is a zxid, a time, or None for the end of what is kept (`zab.pipeline.state.moment` has the rules). Each of several
ensembles has its own moment; a zxid then applies to each of them.

    slice of the logs ── read, condensed ─┬─ the contents of each epoch       (moment)
    slice of the logs ── read, condensed ─┤
                                          └─ changes, dealt to places by path ─┐
    snapshot ─────────── read ─────────────────────────── dealt the same way ──┴─ replayed ── rows

Logs are read once. Spark keeps a condensed slice as packets of Arrow bytes, which it does not look into. A place is a
partition of the paths, handled by one Spark task: its memory holds the changes and the znodes of its paths, about
PLACE_BYTES of the files.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from attrs import field, frozen
from pyspark import StorageLevel

from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.inventory import Dirs, inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.planning import ZXID_MAX, Range, Task, read_task
from zab.pipeline.reading.snapshot_choice import Chosen
from zab.pipeline.schema import SESSIONS, ZNODES, ddl
from zab.pipeline.sql import DataFrame
from zab.pipeline.state.condense import condensed
from zab.pipeline.state.epochs import Epoch, joined
from zab.pipeline.state.local_state import LocalLogs, read_base, read_in_order
from zab.pipeline.state.moment import Moment, Stretch, ensembles_of, moment_of
from zab.pipeline.state.replay import replayed, split
from zab.pipeline.state.sessions import SessionChanges, session_batches, sessions_open
from zab.pipeline.workers import begin_task, map_batches

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

__all__ = ["StateAt", "state_of", "state_of_members"]

SLICE_TASKS: Final = 32
"""How many tasks a slice has, if there are enough tasks for every core."""
PLACE_BYTES: Final = 512 << 20
"""How many bytes of logs and snapshots there are for each place."""

Packet: TypeAlias = tuple[int, tuple[int, int, bytes]]
"""(place, (slice, number of the table, content)): in each place, tables sort by what is in front of their content."""
_EPOCHS, _SESSIONS = -1, -2
"""The places of packets that do not belong to paths."""
_BASE: Final = -1
"""The number of the slice with the snapshot: it precedes all others."""
_PACKETS_DDL: Final = "place int, slice int, number int, content binary"


@frozen
class StateAt:
    """The rows of all ensembles, and the moment of each."""

    znodes: DataFrame
    sessions: DataFrame
    moments: tuple[Moment, ...]


@frozen
class _SparkStretch(Stretch):
    """packets: the condensed slices. unlisted: by session, the zxid of a closeSession without a list."""

    packets: "RDD[Packet] | None" = None
    unlisted: Mapping[int, int] = field(factory=dict)


@frozen
class _SparkLogs:
    """The logs of one ensemble, whose long stretches Spark reads (`zab.pipeline.state.moment.Logs`)."""

    spark: "SparkSession"
    local: LocalLogs

    @property
    def is_native(self) -> bool:
        return self.local.members[0].kind == "native"

    @property
    def place_count(self) -> int:
        sizes = [sum(log.size for log in member.logs) for member in self.local.members]
        sizes += [max((file.size for file in member.snapshots), default=0) for member in self.local.members]
        return max(self.spark.sparkContext.defaultParallelism, 1 + sum(sorted(sizes)[-2:]) // PLACE_BYTES)

    def last_at(self, time_ms: int) -> int | None:
        tasks = self.local.tasks(Range(zxid_max=ZXID_MAX, time_max=time_ms))
        found = self.spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(_last_zxid).collect()
        return max((zxid for zxid in found if zxid is not None), default=None)

    def time_of(self, zxid: int) -> datetime | None:
        return self.local.time_of(zxid)

    def stretch(self, after: int, until: int, *, is_exact: bool) -> Stretch:
        slices = list(enumerate(self._slices(Range.of(after + 1, until, None, None))))
        read = partial(_read_slice, count=self.place_count, is_exact=is_exact, is_native=self.is_native)
        # Spark drops its blocks when nothing refers to it.
        packets = self.parallel(slices, read).persist(StorageLevel.DISK_ONLY)
        found = packets.filter(partial(_is_of, places=(_EPOCHS,))).values().collect()
        about = [pickle.loads(content) for _, _, content in sorted(found)]
        epochs = joined(epoch for of_slice, _ in about for epoch in of_slice)
        unlisted = {session: zxid for _, closed in about for session, zxid in closed.items()}
        return _SparkStretch(epochs, packets, unlisted)

    def parallel(self, items: Sequence[Any], read: Callable[[Any], Iterable[Packet]]) -> "RDD[Packet]":
        return self.spark.sparkContext.parallelize(items, max(1, len(items))).flatMap(read)

    def _slices(self, wanted: Range) -> list[list[Task]]:
        """Group consecutive tasks into slices, each of which one worker reads. The fewer slices there are, the more
        they are condensed."""
        tasks = self.local.tasks(wanted)
        count = max(self.spark.sparkContext.defaultParallelism, len(tasks) // SLICE_TASKS)
        bounds = [len(tasks) * number // count for number in range(count + 1)]
        return [tasks[begin:end] for begin, end in pairwise(bounds) if end > begin]


def _last_zxid(task: Task) -> int | None:
    begin_task()
    found = (rows.zxid for _, rows in read_task(task) if isinstance(rows, Transactions) and len(rows))
    return max((int(zxids.max()) for zxids in found), default=None)


def _is_of(packet: Packet, places: Sequence[int]) -> bool:
    return packet[0] in places


def _is_of_path(packet: Packet) -> bool:
    return packet[0] >= 0


def _read_slice(
    slice_of: tuple[int, Sequence[Task]], *, count: int, is_exact: bool, is_native: bool
) -> Iterator[Packet]:
    """Condense a slice in a worker: yield the changes table by table, then the epochs and the sessions."""
    begin_task()
    number, tasks = slice_of
    epochs: list[Epoch] = []
    sessions = SessionChanges(is_exact)
    transactions = read_in_order(tasks, epochs, sessions)
    for table_number, table in enumerate(condensed(transactions, is_exact=is_exact, is_native=is_native)):
        for place, rows in enumerate(split(table, count)):
            yield place, (number, table_number, _packed(rows))
    yield _EPOCHS, (number, 0, pickle.dumps((epochs, sessions.unlisted)))
    yield _SESSIONS, (number, 0, pickle.dumps(sessions.last))


def _read_base(base: Chosen | None, *, count: int, is_native: bool) -> Iterator[Packet]:
    """Read the snapshot that the state begins with, as a slice."""
    begin_task()
    znodes, sessions = read_base(base, is_native=is_native)
    for place, rows in enumerate(split(znodes, count)):
        yield place, (_BASE, 0, _packed(rows))
    yield _SESSIONS, (_BASE, 0, pickle.dumps(sessions))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _contents(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """By place, the contents of its packets in their order."""
    found: dict[int, list[tuple[int, int, bytes]]] = {}
    for batch in batches:
        for place, *content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.setdefault(place, []).append((content[0], content[1], content[2]))
    return {place: [content for _, _, content in sorted(packets)] for place, packets in sorted(found.items())}


def _znodes(
    batches: Iterable[pa.RecordBatch], *, label: Label, count: int, is_native: bool, closed: Mapping[int, int]
) -> Iterator[pa.RecordBatch]:
    for place, contents in _contents(batches).items():
        base, *changes = (pa.ipc.open_stream(content).read_all() for content in contents)
        yield from replayed(base, changes, label, is_native=is_native, closed=closed, place=(place, count))


def _sessions(batches: Iterable[pa.RecordBatch], *, label: Label) -> Iterator[pa.RecordBatch]:
    for contents in _contents(batches).values():
        last = reduce(dict.__or__, map(pickle.loads, contents))
        yield from session_batches(sessions_open(last), label)


def state_of(
    spark: "SparkSession", dirs: Dirs, at: int | datetime | None = None, *, uncommitted: bool = False
) -> StateAt:
    """The state of each ensemble in these directories. Raises PipelineError."""
    found = [state_of_members(spark, members, at, uncommitted=uncommitted) for members in ensembles_of(inventory(dirs))]
    return StateAt(
        reduce(DataFrame.unionByName, (one.znodes for one in found)),
        reduce(DataFrame.unionByName, (one.sessions for one in found)),
        tuple(moment for one in found for moment in one.moments),
    )


def state_of_members(
    spark: "SparkSession",
    members: Sequence[MemberFiles],
    at: int | datetime | None = None,
    *,
    uncommitted: bool = False,
) -> StateAt:
    """The state of the ensemble with these members; only files that they list count. Raises PipelineError."""
    logs = _SparkLogs(spark, LocalLogs(tuple(members), uncommitted))
    moment = moment_of(logs, members, at, uncommitted=uncommitted)
    count, is_native = logs.place_count, logs.is_native
    packets = logs.parallel([moment.base], partial(_read_base, count=count, is_native=is_native))
    unlisted: Mapping[int, int] = {}
    if isinstance(moment.stretch, _SparkStretch) and moment.stretch.packets is not None:
        packets, unlisted = packets.union(moment.stretch.packets), moment.stretch.unlisted
    of_paths = packets.filter(_is_of_path).partitionBy(count, int)
    of_sessions = packets.filter(partial(_is_of, places=(_SESSIONS,))).coalesce(1)
    make = partial(_znodes, label=moment.label, count=count, is_native=is_native, closed=unlisted)
    znodes = map_batches(_frame(spark, of_paths), make, ddl(ZNODES))
    sessions = map_batches(_frame(spark, of_sessions), partial(_sessions, label=moment.label), ddl(SESSIONS))
    return StateAt(znodes, sessions, (moment,))


def _frame(spark: "SparkSession", packets: "RDD[Packet]") -> DataFrame:
    return spark.createDataFrame(packets.map(_row), _PACKETS_DDL, verifySchema=False)


def _row(packet: Packet) -> tuple[int, int, int, bytes]:
    return packet[0], *packet[1]
