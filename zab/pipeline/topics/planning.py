"""Plans which offsets of which replicas a read covers, and cuts them into tasks.

What is committed lies below the high watermark: the highest one that a directory of the partition says. A broker writes
its own down every five seconds, so the last records of a running one may be missing. Where no directory says it, the
read is refused unless it names its end, or asks for what is uncommitted.

With replicas "one", each partition is read from the replica that reaches from the start to the end, or furthest; the
others replace what is damaged. A piece is cut where the offset index knows a batch, so that it has some TASK_BYTES
of one log file; a task is one piece, or as many small ones as have TASK_BYTES together.

Everything is looked up once, before the first row is read. Where an index is wrong, pieces are larger or smaller than
they should be, and no row is lost or doubled: a piece is a range of offsets.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from attrs import evolve, frozen

from zab.partition.log.offset_index import IndexDamagedError
from zab.partition.log.paths import TIME_INDEX
from zab.partition.log.time_index import TimeIndex
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import shown_dirs
from zab.pipeline.schema import TOPIC
from zab.pipeline.topics.batches import end_of, offset_index
from zab.pipeline.topics.options import EARLIEST, LATEST, TopicOptions
from zab.pipeline.topics.replicas import Replica, Segment, find_replicas
from zab.pipeline.topics.rows import Piece, piece_rows
from zab.pipeline.topics.transactions import Outcomes, outcomes

__all__ = ["TASK_BYTES", "Task", "plan_topics"]

TASK_BYTES: Final = 64 << 20
_OUTCOME_COLUMNS: Final = frozenset({"aborted"})
_SEARCHED: Final = ("offset", "timestamp")
assert {*_SEARCHED} <= {column.name for column in TOPIC}


@frozen
class Task:
    """The input of one Spark task: pieces one after the other."""

    pieces: tuple[Piece, ...]


@frozen
class _Reach:
    """A replica and the offset after its last whole batch."""

    replica: Replica
    end: int


def plan_topics(options: TopicOptions, columns: Iterable[str], *, task_bytes: int = TASK_BYTES) -> list[Task]:
    """The tasks of a read of these columns of `schema.TOPIC`. Raises PipelineError."""
    groups: dict[tuple[str, int], list[Replica]] = {}
    found = find_replicas(options.dirs)
    for replica in found:
        if options.wanted.has(*replica.key):
            groups.setdefault(replica.key, []).append(replica)
    _check_named(options, found, groups)
    needs_outcomes = options.is_committed or bool(_OUTCOME_COLUMNS & {*columns})
    pieces: list[tuple[int, Piece]] = []
    for group in groups.values():
        for piece in _pieces(options, group, needs_outcomes=needs_outcomes):
            pieces += _cut(piece, task_bytes)
    return list(_gather(pieces, task_bytes))


def _check_named(options: TopicOptions, found: Sequence[Replica], groups: dict[tuple[str, int], list[Replica]]) -> None:
    """Raise PipelineError where a topic or partition that is named is not there, or one that is read has no offset."""
    there = {replica.topic for replica in found}
    named = options.wanted.named
    shown = ", ".join(sorted(there)[:20]) or "none"
    missing = sorted(named - there)
    if missing:
        raise PipelineError(f"{shown_dirs(options.dirs)}: no topic {', '.join(missing)}; the topics are {shown}")
    for topic, numbers in (options.wanted.partitions or {}).items():
        absent = sorted(number for number in numbers if (topic, number) not in groups)
        if absent:
            raise PipelineError(f"{shown_dirs(options.dirs)}: {topic} has no partition {', '.join(map(str, absent))}")
    if not groups:
        raise PipelineError(f"{shown_dirs(options.dirs)}: no topic is chosen; the topics are {shown}")
    for side, bound in (("starting", options.starting), ("ending", options.ending)):
        lacking = [key for key in groups if bound.of(*key) == (None, None)]
        if bound.is_named and lacking:
            topic, number = lacking[0]
            raise PipelineError(f"the {side} offsets do not name partition {number} of {topic}")


def _pieces(options: TopicOptions, group: list[Replica], *, needs_outcomes: bool) -> Iterator[Piece]:
    """One piece of the partition, or one of each replica. Raises PipelineError."""
    usable = [_Reach(one, end_of(one)) for one in group if not one.problem]
    if not usable:
        raise PipelineError(f"{group[0].shown}: {group[0].problem}: read it again, or the replica of another broker")
    reached = max(one.end for one in usable)
    end = _end(options, usable, reached)
    start = _start(options, usable, end)
    if start >= end:
        return
    order = sorted(usable, key=lambda one: (one.replica.start > start, -min(one.end, end)))
    if options.replicas == "one":
        replicas = tuple(one.replica for one in order if one.end >= end or one is order[0])
        yield from _with_outcomes(
            Piece(replicas, start, min(end, order[0].end), Outcomes(end)), options, needs_outcomes
        )
        return
    for one in usable:
        piece = Piece((one.replica,), max(start, one.replica.start), min(end, one.end), Outcomes(end))
        if piece.start < piece.until:
            yield from _with_outcomes(piece, options, needs_outcomes)


def _with_outcomes(piece: Piece, options: TopicOptions, needs_outcomes: bool) -> Iterator[Piece]:
    piece = evolve(piece, skips_damage=options.skips_damage, is_committed=options.is_committed)
    if not needs_outcomes:
        yield piece
        return
    known = outcomes(piece.replicas[0], piece.until)
    until = min(piece.until, known.stable) if options.is_committed else piece.until
    if piece.start < until:
        yield evolve(piece, until=until, outcomes=known)


def _end(options: TopicOptions, usable: list[_Reach], reached: int) -> int:
    first = usable[0].replica
    named, time = options.ending.of(*first.key)
    marks = [one.replica.mark for one in usable if one.replica.mark is not None]
    if options.uncommitted:
        mark = reached
    elif marks:
        mark = max(marks)
    elif named is not None and named >= 0:
        mark = named
    else:
        raise PipelineError(
            f"{first.directory.parent} has no high watermark in replication-offset-checkpoint, so it does "
            "not say what is committed: give the whole log directory of the "
            "broker, or endingOffsets, or the option uncommitted"
        )
    if named is not None and named >= 0:
        if options.fails_on_loss and named > mark:
            raise PipelineError(
                f"{first.topic}, partition {first.partition}: offset {named} is not there, the directories have what "
                f"is below {min(mark, reached)}; failOnDataLoss=false ends there"
            )
        return min(named, mark)
    if options.fails_on_loss and mark > reached:
        raise PipelineError(
            f"{first.shown} ends at offset {reached}, and {mark} is the high watermark: records are lost; give the log "
            "directory of another broker, too, or failOnDataLoss=false"
        )
    mark = min(mark, reached)
    if time is None:
        return mark
    sought = _offset_at(usable, time, min(one.replica.start for one in usable), mark)
    return mark if sought is None else sought


def _start(options: TopicOptions, usable: list[_Reach], end: int) -> int:
    first = usable[0].replica
    starts = [one.replica.start for one in usable]
    # The leader's is the highest; others may be late with what was deleted.
    oldest = max(starts) if options.replicas == "one" else min(starts)
    named, time = options.starting.of(*first.key)
    if time is not None:
        mark = max([end, *(one.replica.mark or 0 for one in usable)])
        sought = _offset_at(usable, time, oldest, max(end, min(mark, max(one.end for one in usable))))
        if sought is None and options.strategy == "error":
            raise PipelineError(
                f"{first.topic}, partition {first.partition}: no record has a timestamp of {time} ms or later; "
                "startingOffsetsByTimestampStrategy=latest begins at the end then"
            )
        return end if sought is None else sought
    if named is None or named == EARLIEST:
        return oldest
    if named == LATEST:
        return end
    if named < oldest or named > max(one.end for one in usable):
        if options.fails_on_loss:
            raise PipelineError(
                f"{first.topic}, partition {first.partition}: offset {named} is not there, the directories "
                f"have {oldest} to {max(one.end for one in usable)}; failOnDataLoss=false begins with what is there"
            )
        return max(named, oldest)
    return named


# Times.


def _offset_at(usable: list[_Reach], time_ms: int, start: int, end: int) -> int | None:
    """The first offset in [start, end) whose record has this timestamp or a later one."""
    order = sorted(usable, key=lambda one: (one.replica.start > start, -one.end))
    replicas = tuple(one.replica for one in order)
    replica = replicas[0]
    for segment in replica.segments:
        until = end if segment.following is None else min(end, segment.following)
        begin = max(start, segment.base)
        if begin >= until:
            continue
        floor = _time_floor(replica, segment, time_ms)
        if floor is None:
            continue
        begin = max(begin, floor)
        for batch in piece_rows(Piece(replicas, begin, until, Outcomes(end)), _SEARCHED):
            times = np.asarray(batch.column("timestamp").cast("int64")) // 1000
            young = np.flatnonzero(times >= time_ms)
            if len(young):
                return int(batch.column("offset")[int(young[0])].as_py())
    return None


def _time_floor(replica: Replica, segment: Segment, time_ms: int) -> int | None:
    """An offset below which the segment has no record of this time or a later one; None: it has none at all."""
    place = segment.beside(TIME_INDEX)
    if place.name not in replica.others:
        return segment.base
    try:
        index = TimeIndex.parse(place.read())
    except (OSError, IndexDamagedError):
        return segment.base
    entries = index.entries
    if segment.following is not None and entries and entries[-1][0] < time_ms:
        return None
    return segment.base + index.floor(time_ms - 1) + 1


# Cutting.


def _cut(piece: Piece, task_bytes: int) -> Iterator[tuple[int, Piece]]:
    """(bytes to read, piece) of a piece cut at the ends of log files, and where one has more than `task_bytes`."""
    replica = piece.replicas[0]
    for segment in replica.segments:
        start = max(piece.start, segment.base)
        end = piece.until if segment.following is None else min(piece.until, segment.following)
        if start >= end:
            continue
        at = 0
        for cut, position in [*_cuts(replica, segment, start, end, task_bytes), (end, segment.size)]:
            replicas = tuple(one.within(start, cut) for one in piece.replicas)
            part = evolve(piece, replicas=replicas, start=start, until=cut, outcomes=piece.outcomes.within(start, cut))
            yield position - at, part
            start, at = cut, position


def _cuts(replica: Replica, segment: Segment, start: int, end: int, task_bytes: int) -> Iterator[tuple[int, int]]:
    """(offset, position) at which the part of a log file between two offsets is cut."""
    if segment.size <= task_bytes:
        return
    index = offset_index(replica, segment)
    entries = [] if index is None else index.entries
    at = 0 if index is None or start <= segment.base else index.floor(start - segment.base)
    for relative, position in entries:
        offset = segment.base + relative + 1
        if start < offset < end and position - at >= task_bytes:
            yield offset, position
            at = position


def _gather(pieces: Iterable[tuple[int, Piece]], task_bytes: int) -> Iterator[Task]:
    gathered: list[Piece] = []
    total = 0
    for size, piece in pieces:
        if gathered and total + size > task_bytes:
            yield Task(tuple(gathered))
            gathered, total = [], 0
        gathered.append(piece)
        total += size
    if gathered:
        yield Task(tuple(gathered))
