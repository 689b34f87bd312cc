"""The log as a stream: `spark.readStream.format("zab.log")` follows running members, or directories of shipped logs.

    option              value
    dirs                as for reading
    startingZxid        earliest (default), latest, or the zxid of the first transaction wanted, hexadecimal with 0x
    maxRowsPerTrigger   how many transactions a batch has at most (a multi counts once); 1,000,000
    uncommitted         true: also what a change of leader could still take away

Each transaction of an ensemble comes once, whichever members' directories are given, and never before it is committed.
An offset is a zxid for each ensemble, so that a checkpoint stays good while files roll and members come and go:

    {"version": 1, "ensembles": {"<name>": {"zxid": 4294967396, "lineage": "<32 hex digits>"}}}

ZooKeeper's ensembles have no lineage, but `segment` and `begins`: a log file that was read, and its first bytes.
Directories that do not match are refused: the checkpoint belongs to another history.

Batch 0 is always empty: it writes the zxid at which the stream starts into the checkpoint. (Spark keeps only the end of
a batch. A start such as `latest` would be another zxid if it were looked up again after a crash.)

Invariants: a batch has exactly the transactions between its two offsets, whenever and however often it is read. If one
member's file turns out to be damaged, the rest comes from another member; without one the batch fails.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from zab.pipeline.decoding.arrays import Integers
from zab.pipeline.decoding.damage import GAP, Damage
from zab.pipeline.decoding.transactions import record_batches
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import shown_dirs, split_dirs
from zab.pipeline.member_files import LogFile
from zab.pipeline.places import open_place
from zab.pipeline.reading.options import Options
from zab.pipeline.reading.planning import Range
from zab.pipeline.reading.spans import transactions
from zab.pipeline.streaming.following import Ensemble, Following, Leg

__all__ = ["LogStreamReader", "Position", "read_leg"]

STARTING, MAX_ROWS = "startingZxid", "maxRowsPerTrigger"
_NO_LIMIT: Final = 1 << 63
MAX_ROWS_DEFAULT: Final = 1_000_000
TASK_TRANSACTIONS: Final = 250_000
OBSTACLE_SECONDS: Final = 10.0
"""How long the stream waits for transactions that should be there: shipped files arrive late."""

Offset = dict[str, Any]


@frozen
class Position:
    """How far an ensemble is read, and what identifies it: `lineage`, or `segment` and `begins`."""

    zxid: int
    lineage: str = ""
    segment: str = ""
    begins: str = ""

    def pack(self) -> dict[str, Any]:
        identity = {"lineage": self.lineage, "segment": self.segment, "begins": self.begins}
        return {"zxid": self.zxid} | {name: value for name, value in identity.items() if value}

    @classmethod
    def of(cls, ensemble: Ensemble, zxid: int, log: LogFile | None = None) -> "Position":
        """`log`: a file that is being read."""
        if ensemble.kind == "native":
            return cls(zxid, ensemble.lineage)
        log = log if log is not None else ensemble.logs[0]
        return cls(zxid, "", log.name, log.first_record.hex())

    def check(self, ensemble: Ensemble) -> None:
        """Raise PipelineError if the ensemble is another one with the same name."""
        if self.lineage != ensemble.lineage:
            raise PipelineError(
                f"the checkpoint follows {ensemble.name} of lineage {self.lineage or 'unknown'}, "
                f"and the directories hold lineage {ensemble.lineage or 'unknown'}: it belongs to another ensemble"
            )
        for log in ensemble.logs:
            if log.name == self.segment and log.first_record.hex() != self.begins:
                raise PipelineError(
                    f"the checkpoint follows another ensemble of the name {ensemble.name}: {log.place} does not begin "
                    "as the file that it read"
                )


def pack_offset(positions: Mapping[str, Position]) -> Offset:
    return {"version": 1, "ensembles": {name: positions[name].pack() for name in sorted(positions)}}


def parse_offset(offset: Offset) -> dict[str, Position]:
    """Raises PipelineError."""
    try:
        if offset["version"] != 1:
            raise PipelineError(f"the checkpoint has version {offset['version']}, which this version does not know")
        return {
            name: Position(int(one["zxid"]), *(str(one.get(key, "")) for key in ("lineage", "segment", "begins")))
            for name, one in offset["ensembles"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PipelineError(f"the checkpoint is not one of a stream of zab.log: {offset!r}") from None


@frozen
class Part:
    """The input of one Spark task. `dirs`: where to look for its transactions if a file is damaged."""

    legs: tuple[Leg, ...]
    dirs: tuple[str, ...]


def _absolute(named: tuple[str | None, str]) -> str:
    """NAME=DIR, or DIR, with an absolute path."""
    name, text = named
    place = open_place(text)
    text = text if place.root else place.path
    return text if name is None else f"{name}={text}"


def parse_starting(text: str) -> str | int:
    """earliest, latest, or a zxid. Raises PipelineError."""
    if text in ("earliest", "latest"):
        return text
    try:
        zxid = int(text, 0)
    except ValueError:
        raise PipelineError(
            f"option {STARTING}: {text!r} is neither earliest, latest nor a zxid as 0x100000001"
        ) from None
    if not 0 < zxid < 1 << 63:
        raise PipelineError(f"option {STARTING}: {text} is no zxid")
    return zxid


def parse_max_rows(text: str) -> int:
    """Raises PipelineError."""
    if not text.isdecimal() or int(text) < 1:
        raise PipelineError(f"option {MAX_ROWS}: {text!r} is no number of rows")
    return int(text)


@define(eq=False)
class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader that Spark drives. `options`: of the source. `columns`: the requested ones of `schema.LOG`."""

    options: Mapping[str, str]
    columns: tuple[str, ...]
    starting: str | int = field(init=False)
    rows_max: int = field(init=False)
    dirs: tuple[str, ...] = field(init=False)
    following: Following = field(init=False)
    _targets: dict[str, int] | None = None
    """With the trigger availableNow, how far each ensemble is read."""
    _is_checked: bool = False
    _obstacles_since: dict[str, float] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        given = {name.lower(): value for name, value in self.options.items()}
        parsed = Options.parse(self.options, also=(STARTING, MAX_ROWS))
        if parsed.wanted != Range():
            raise PipelineError(f"a stream has no end and no range; give it {STARTING}, and filter what it yields")
        if given.get("members", "one") != "one":
            raise PipelineError(
                "a stream has each transaction once; read the logs of all members without following them"
            )
        self.starting = parse_starting(given.get(STARTING.lower(), "earliest"))
        self.rows_max = parse_max_rows(given.get(MAX_ROWS.lower(), str(MAX_ROWS_DEFAULT)))
        # Workers may run elsewhere.
        self.dirs = tuple(map(_absolute, split_dirs(parsed.dirs)))
        self.following = Following(self.dirs, parsed.uncommitted)

    # Offsets.

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"version": 1, "starting": self.starting}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.following.poll()
        self._targets = {name: ensemble.latest() for name, ensemble in self.following.ensembles.items()}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        found = {name: Position.of(one, one.latest()) for name, one in self.following.ensembles.items() if one.logs}
        return pack_offset(found) if found else None

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        self.following.poll()
        if "starting" in start:
            return self._begin()
        positions = self._checked(start)
        left = limit.max_rows if isinstance(limit, ReadMaxRows) else _NO_LIMIT
        reached = dict(positions)
        # First each ensemble gets its share; the others may use what is left of it.
        for share in (max(1, left // max(1, len(positions))), left):
            for name in sorted(positions):
                left -= self._go_on(reached, name, min(share, left))
        for name, position in positions.items():
            if reached[name] == position and left:
                self._look_for_obstacle(self.following.ensembles[name], position.zxid)
        if self._targets is None:
            # Ensembles whose logs have come since: this batch notes where they begin, the next one reads.
            for name in self.following.ensembles.keys() - positions.keys():
                self._note_beginning(self.following.ensembles[name], reached)
        return start if reached == positions else pack_offset(reached)

    def _go_on(self, reached: dict[str, Position], name: str, count_max: int) -> int:
        """Move one ensemble's position by at most `count_max` transactions; return by how many."""
        ensemble, position = self.following.ensembles[name], reached[name]
        until = _NO_LIMIT if self._targets is None else self._targets.get(name, position.zxid)
        route = ensemble.route(position.zxid, until=until, count_max=count_max)
        if route.legs:
            reached[name] = Position.of(ensemble, route.end, route.legs[-1].span.file)
            self._obstacles_since.pop(name, None)
        return route.count

    def _begin(self) -> Offset:
        """The offset at which the stream starts. Raises PipelineError if that is no longer kept."""
        positions: dict[str, Position] = {}
        for ensemble in self.following.ensembles.values():
            self._note_beginning(ensemble, positions)
        return pack_offset(positions)

    def _note_beginning(self, ensemble: Ensemble, positions: dict[str, Position]) -> None:
        if not ensemble.logs:
            return
        if isinstance(self.starting, int):
            zxid = self.starting - 1
            oldest, latest = ensemble.kept_from(zxid), ensemble.latest()
            if oldest is not None:
                raise PipelineError(
                    f"zxid {self.starting:#x} of {ensemble.name} is older than what is kept: "
                    f"the oldest log goes on from {oldest:#x}"
                )
            if zxid > latest:
                raise PipelineError(
                    f"zxid {self.starting:#x} of {ensemble.name} is not there: the logs end at {latest:#x}"
                )
        else:
            zxid = ensemble.latest() if self.starting == "latest" else ensemble.earliest()
        positions[ensemble.name] = Position.of(ensemble, zxid)

    def _checked(self, offset: Offset) -> dict[str, Position]:
        """The positions in an offset. Raises PipelineError if the directories are not those of the checkpoint."""
        positions = parse_offset(offset)
        for name, position in positions.items():
            ensemble = self.following.ensembles.get(name)
            if ensemble is None:
                there = ", ".join(sorted(self.following.ensembles))
                raise PipelineError(
                    f"the checkpoint follows the ensemble {name}, which is not in {shown_dirs(self.dirs)}, only {there}"
                )
            if not self._is_checked:
                position.check(ensemble)
        self._is_checked = True
        return positions

    def _look_for_obstacle(self, ensemble: Ensemble, zxid: int) -> None:
        """Raise PipelineError if what comes next is lost; shipped files may arrive a little later."""
        obstacle = ensemble.obstacle(zxid, is_end=self._targets is not None)
        if obstacle is None:
            self._obstacles_since.pop(ensemble.name, None)
            return
        since = self._obstacles_since.setdefault(ensemble.name, time.monotonic())
        is_over = self._targets is not None or ensemble.kept_from(zxid) is not None
        if is_over or time.monotonic() - since > OBSTACLE_SECONDS:
            raise PipelineError(f"{ensemble.name}: {obstacle}")

    # Reading.

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if "starting" in start:
            return []
        before, after = parse_offset(start), parse_offset(end)
        if not self.following.ensembles:
            self.following.poll()
        self._checked(end)
        parts: list[InputPartition] = []
        for name in sorted(before):
            legs = self._legs(self.following.ensembles[name], before[name].zxid, after[name].zxid)
            parts += [InputPartition(Part(gathered, self.dirs)) for gathered in _gather(legs)]
        return parts

    def _legs(self, ensemble: Ensemble, after: int, until: int) -> Sequence[Leg]:
        """The legs between two positions. Raises PipelineError if they are no longer there."""
        route = ensemble.route(after, until=until)
        if route.end < until:
            self.following.poll()
            route = self.following.ensembles[ensemble.name].route(after, until=until)
        if route.end < until:
            obstacle = ensemble.obstacle(route.end) or f"the logs end at {route.end:#x}, the checkpoint says {until:#x}"
            raise PipelineError(f"{ensemble.name}: {obstacle}")
        return route.legs

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: Part | None = partition.value
        if part is not None:
            for leg in part.legs:
                yield from read_leg(leg, part.dirs, self.columns)


def _gather(legs: Sequence[Leg]) -> Iterator[tuple[Leg, ...]]:
    """Group legs, in order, into tasks."""
    gathered: list[Leg] = []
    for leg in legs:
        if gathered and sum(one.count for one in gathered) + leg.count > TASK_TRANSACTIONS:
            yield tuple(gathered)
            gathered = []
        gathered.append(leg)
    if gathered:
        yield tuple(gathered)


def read_leg(
    leg: Leg,
    dirs: Sequence[str],
    columns: Sequence[str],
    avoid: frozenset[str] = frozenset(),
    *,
    is_second: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a leg: from its file, or else from where they are now. Raises PipelineError.

    A member that was restarted may have rewritten its file since the leg was planned, so the first look elsewhere may
    find the same member. `avoid`: members that are certainly damaged."""
    expected = np.concatenate([np.arange(first, last + 1) for first, last in leg.runs])
    done = 0
    wrong: list[Damage] = []
    for found in transactions(leg.span):
        if isinstance(found, Damage):
            wrong.append(found)
            continue
        right = _matching(found.zxid, expected[done:])
        yield from record_batches(found.only(np.arange(len(found)) < right), leg.span.source, columns)
        done += right
        if right < len(found):
            wrong = [one for one in wrong if one.offset <= found.position[right]]
            break
    if done == len(expected):
        return
    # A gap is only a consequence of the damage before it.
    wrong.sort(key=lambda one: (one.kind != GAP, one.offset))
    problem = (
        f"damaged at offset {wrong[-1].offset}: {wrong[-1].reason}" if wrong else f"without zxid {expected[done]:#x}"
    )
    after = int(expected[done - 1]) if done else leg.span.after
    avoid |= {leg.span.member} if is_second else set()
    problem = f"{leg.span.file.place} is {problem}"
    for other in _legs_elsewhere(leg.span.ensemble, expected[done:], after, problem, dirs, avoid):
        yield from read_leg(other, dirs, columns, avoid, is_second=True)


def _matching(zxids: Integers, expected: Integers) -> int:
    """How many of the first zxids are the expected ones."""
    count = min(len(zxids), len(expected))
    differs = np.flatnonzero(zxids[:count] != expected[:count])
    return int(differs[0]) if len(differs) else count


def _legs_elsewhere(
    name: str, expected: Integers, after: int, problem: str, dirs: Sequence[str], avoid: frozenset[str]
) -> Sequence[Leg]:
    """The legs of other members with these transactions, which are known to be committed. `avoid`: not these."""
    following = Following(dirs, uncommitted=True)
    following.poll()
    ensemble = following.ensembles.get(name)
    legs = () if ensemble is None else ensemble.route(after, until=int(expected[-1]), avoid=avoid).legs
    if sum(leg.count for leg in legs) != len(expected) or legs[-1].until != expected[-1]:
        raise PipelineError(f"{problem}; no other member has what follows zxid {after:#x}")
    return legs
