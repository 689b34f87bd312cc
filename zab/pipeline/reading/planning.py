"""Plans which spans of which files a job reads, and cuts them into tasks.

Everything is looked up once, before the first row is read, so one DataFrame shows one moment of a log that is being
written. Files outside of the range of zxids are skipped by their names and headers; inside a file, its index does the
same (`native_log`).

Invariants: the spans of a task belong to one member, in the order of the history. A task is one file, or as many small
ones as have TASK_BYTES together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import pyarrow as pa
from attrs import evolve, frozen

from datatree.history import LOG_DIRECTORY
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.transactions import TIME_MS_MAX, Transactions, record_batches
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Inventory
from zab.pipeline.member_files import LogFile, MemberFiles
from zab.pipeline.reading import covering
from zab.pipeline.reading.covering import Cover
from zab.pipeline.reading.missing import joined_ends, proofs
from zab.pipeline.reading.spans import Span, transactions
from zab.pipeline.reading.visible import (
    Survey,
    check_given,
    committed_epochs,
    counted,
    epoch_ends,
    logged_ends,
    mark,
    survey,
)
from zab.pipeline.times import ms_since_1970

__all__ = ["Members", "Range", "Task", "plan", "read_task", "task_batches"]

Members: TypeAlias = Literal["all", "one"]

TASK_BYTES: Final = 64 << 20


@frozen
class Task:
    """The input of one Spark task: spans one after the other, or a range of zxids from several members."""

    spans: tuple[Span, ...] = ()
    cover: Cover | None = None


def _ms(time: datetime | int | None, *, upwards: bool) -> int | None:
    """A time in ms since 1970. A time between two ms becomes the one within the bound. Raises PipelineError."""
    return ms_since_1970(time, upwards=upwards) if isinstance(time, datetime) else time


ZXID_MAX: Final = (1 << 63) - 1
"""A bound that excludes nothing, for callers that check for themselves whether the end is known."""


@frozen
class Range:
    """A range of transactions: bounds are inclusive, None means no bound; times in ms."""

    zxid_min: int | None = None
    zxid_max: int | None = None
    time_min: int | None = None
    time_max: int | None = None

    @classmethod
    def of(
        cls,
        zxid_min: int | None,
        zxid_max: int | None,
        time_min: datetime | int | None,
        time_max: datetime | int | None,
    ) -> "Range":
        """Check the bounds. Raises PipelineError if nothing can lie within them."""
        for bound in (zxid_min, zxid_max):
            if bound is not None and not 0 <= bound <= ZXID_MAX:
                raise PipelineError(f"{bound:#x} is no zxid")
        result = cls(zxid_min, zxid_max, _ms(time_min, upwards=True), _ms(time_max, upwards=False))
        if zxid_min is not None and zxid_max is not None and zxid_min > zxid_max:
            raise PipelineError(f"the range of zxids from {zxid_min:#x} to {zxid_max:#x} is empty")
        for ms in (result.time_min, result.time_max):
            if ms is not None and abs(ms) > TIME_MS_MAX:
                raise PipelineError(f"{ms} ms is no time that a transaction can have")
        if result.time_min is not None and result.time_max is not None and result.time_min > result.time_max:
            raise PipelineError(f"the range of times from {time_min} to {time_max} is empty")
        return result

    @property
    def after(self) -> int:
        return 0 if self.zxid_min is None else self.zxid_min - 1


def plan(
    found: Inventory, wanted: Range, *, members: Members = "all", uncommitted: bool = False, whole_files: bool = False
) -> list[Task]:
    """The tasks that read this range from all logs. With `whole_files`, files are read to their physical end, as a
    search for damage needs it. Raises PipelineError."""
    if members not in ("all", "one"):
        raise PipelineError(f'members is "all" or "one", not {members!r}')
    tasks: list[Task] = []
    for group in found.ensembles.values():
        if not any(member.logs for member in group):
            shown = ", ".join(str(member.directory) for member in group)
            raise PipelineError(f"{shown}: there are snapshots, but no logs; {LOG_DIRECTORY}")
        surveys = [survey(member) for member in group]
        limits = _Limits(wanted.after, wanted.zxid_max, wanted.time_min, wanted.time_max)
        # A search for damage also looks at what is not committed.
        if not uncommitted and not whole_files:
            # If the caller names a zxid, the end does not have to be known.
            if limits.until is None:
                check_given(group, surveys)
            limits = _visible(group, surveys, limits)
        spans = [
            list(_spans(member, limits, Survey() if whole_files else known))
            for member, known in zip(group, surveys, strict=True)
        ]
        if members == "one":
            tasks += _covers(group, spans, surveys, limits)
        else:
            tasks += (Task(part) for listed in spans for part in _cut(listed))
    return tasks


@frozen
class _Limits:
    """The limits that all spans of an ensemble share (`Span`)."""

    after: int
    until: int | None
    time_min: int | None
    time_max: int | None
    visible: tuple[tuple[int, int], ...] | None = None


def _visible(group: list[MemberFiles], surveys: list[Survey], limits: _Limits) -> _Limits:
    if group[0].kind == "native":
        known = mark(surveys)
        until = known if limits.until is None else min(limits.until, known)
        return evolve(limits, until=until, visible=tuple(epoch_ends(surveys).items()))
    if counted(group) == 1:
        alone = next(member for member in group if member.logs).directory
        raise PipelineError(
            f"{alone} is one member of ZooKeeper alone, whose log does not say what is committed: "
            f"give the directories of a majority (as {group[0].ensemble}=DIR where they are not side by side), or ask "
            "for uncommitted transactions too"
        )
    return evolve(limits, visible=tuple(committed_epochs(group, surveys).items()))


def _lowest(log: LogFile) -> int:
    """The zxid after which the file begins: it holds nothing at or below it."""
    return log.previous[0] if log.previous is not None else log.first - 1


def _spans(member: MemberFiles, limits: _Limits, known: Survey) -> Iterator[Span]:
    """The spans of a member's files that overlap with the range."""
    for log in member.logs:
        is_below = log.cutoff is not None and log.cutoff <= limits.after
        is_above = limits.until is not None and _lowest(log) >= limits.until
        if is_below or is_above:
            continue
        yield Span(
            member.ensemble,
            member.member,
            log,
            end=known.ends.get(log.name),
            after=limits.after,
            until=limits.until,
            time_min=limits.time_min,
            time_max=limits.time_max,
            mark=known.mark,
            visible=limits.visible,
        )


def _cut(spans: Iterable[Span]) -> Iterator[tuple[Span, ...]]:
    """Group the spans into tasks: small ones share a task."""
    gathered: list[Span] = []
    size = 0
    for span in spans:
        if gathered and size + span.file.size > TASK_BYTES:
            yield tuple(gathered)
            gathered, size = [], 0
        gathered.append(span)
        size += span.file.size
    if gathered:
        yield tuple(gathered)


@frozen
class _Reach:
    """The zxids that a file holds: (low, high]."""

    span: Span
    low: int
    high: int


def read_task(task: Task, *, use_index: bool = True) -> Iterator[tuple[Span, Transactions | Damage]]:
    """Yield what a task finds, with the span that it was found in."""
    for span in task.spans:
        for found in transactions(span, use_index=use_index):
            yield span, found
    if task.cover is not None:
        yield from covering.cover(task.cover, use_index=use_index)


def task_batches(
    task: Task, columns: Sequence[str], *, on_damage: Callable[[Span, Damage], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with these columns of `schema.LOG`, in the order of the history."""
    for span, found in read_task(task):
        if not isinstance(found, Damage):
            yield from record_batches(found, span.source, columns)
        elif on_damage is not None:
            on_damage(span, found)


def _covers(
    group: list[MemberFiles], spans: list[list[Span]], surveys: list[Survey], limits: _Limits
) -> Iterator[Task]:
    """Plan tasks that give each transaction once. One member is read as long as it has what comes next."""
    reaches = [
        [_reach(span, known) for span in listed if span.file.is_usable]
        for listed, known in zip(spans, surveys, strict=True)
    ]
    of_any = [reach for listed in reaches for reach in listed]
    if not of_any:
        return
    proven = proofs(group, logged_ends(surveys))
    ends = joined_ends(epoch_ends(surveys) if limits.visible is None else dict(limits.visible), proven)
    top = max(reach.high for reach in of_any)
    end = max(top, *proven.values(), 0)
    end = end if limits.until is None else min(end, limits.until)
    at = max(limits.after, min(reach.low for reach in of_any))
    current = 0
    while at < end:
        begin = min((max(reach.low, at) for reach in of_any if reach.high > at), default=end)
        able = [number for number, listed in enumerate(reaches) if _holding(listed, begin) is not None]
        if able and current not in able:
            current = max(able, key=lambda number: reaches[number][-1].high)
        # What no member has is part of the task before or after it.
        upto = _upto(reaches[current], begin, end)
        upto = end if upto >= top else upto
        cover = _cover(reaches, current, min(at, top - 1), upto)
        yield Task(cover=evolve(cover, after=at, ends=tuple(ends.items())))
        at = upto


def _reach(span: Span, known: Survey) -> _Reach:
    log = span.file
    ends = [zxid for zxid in (log.cutoff, log.following) if zxid is not None]
    return _Reach(span, _lowest(log), min(ends) if ends else known.last)


def _holding(reaches: list[_Reach], zxid: int) -> _Reach | None:
    """The file in which the transaction after this zxid is."""
    return next((reach for reach in reaches if reach.low <= zxid < reach.high), None)


def _upto(reaches: list[_Reach], at: int, end: int) -> int:
    """The end of a task that begins after `at`: the end of a file, or of several small ones."""
    size = 0
    while at < end:
        reach = _holding(reaches, at)
        if reach is None or (size and size + reach.span.file.size > TASK_BYTES):
            break
        size += reach.span.file.size
        at = reach.high
    return min(at, end)


def _cover(reaches: list[list[_Reach]], first: int, after: int, until: int) -> Cover:
    """The spans of all members that overlap with this range; the logs of member `first` are read first."""
    order = [first, *(number for number in range(len(reaches)) if number != first)]
    members = (
        tuple(reach.span for reach in reaches[number] if reach.low < until and reach.high > after) for number in order
    )
    return Cover(tuple(member for member in members if member), after, until)
