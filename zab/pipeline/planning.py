"""Which spans of which files make up what a job asked for, cut into tasks.

Everything is looked up once, before the first row is read: so what one DataFrame shows is one moment of a log that is
being written. Files that lie outside of the range of zxids are left out by their names and headers; inside a file, its
index does the same (`native_log`).

Invariants: the spans of a task are of one member, in the order of the history. A task is one file, or as many small
ones as are TASK_BYTES together.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from attrs import define, evolve, frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Inventory, LogFile, Member
from zab.pipeline.spans import Span
from zab.pipeline.visible import Survey, mark, survey, visible_epochs

__all__ = ["Members", "Range", "Task", "plan"]

Members: TypeAlias = Literal["all", "one"]

TASK_BYTES: Final = 64 << 20


@frozen
class Task:
    """What one of Spark's tasks reads."""

    spans: tuple[Span, ...]


def _ms(time: datetime | int | None) -> int | None:
    """A time in ms since 1970; one without a zone is UTC."""
    if not isinstance(time, datetime):
        return time
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


@frozen
class Range:
    """Which transactions: bounds are inclusive, None is none; times in ms."""

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
        """Raises PipelineError when nothing can be in it."""
        result = cls(zxid_min, zxid_max, _ms(time_min), _ms(time_max))
        if zxid_min is not None and zxid_max is not None and zxid_min > zxid_max:
            raise PipelineError(f"the range of zxids from {zxid_min:#x} to {zxid_max:#x} is empty")
        if result.time_min is not None and result.time_max is not None and result.time_min > result.time_max:
            raise PipelineError(f"the range of times from {time_min} to {time_max} is empty")
        return result

    @property
    def after(self) -> int:
        return 0 if self.zxid_min is None else self.zxid_min - 1


def plan(
    found: Inventory, wanted: Range, *, members: Members = "all", uncommitted: bool = False, whole_files: bool = False
) -> list[Task]:
    """The tasks that read this range of all logs. With `whole_files`, files are read to their physical end, as a search
    for damage does. Raises PipelineError."""
    if members not in ("all", "one"):
        raise PipelineError(f'members is "all" or "one", not {members!r}')
    if not any(member.logs for member in found.members):
        raise PipelineError(f"{', '.join(found.dirs)}: there are snapshots, but no logs")
    tasks: list[Task] = []
    for group in found.ensembles.values():
        limits = _limits(group, wanted, uncommitted, whole_files)
        for member, base in zip(group, limits, strict=True):
            tasks += _cut(_spans(member, base))
    return tasks


@define
class _Limits:
    """What holds for all spans of a member."""

    base: "_Base"
    ends: dict[str, int]


@frozen
class _Base:
    after: int
    until: int | None
    time_min: int | None
    time_max: int | None
    visible: tuple[tuple[int, int], ...] | None


def _limits(group: list[Member], wanted: Range, uncommitted: bool, whole_files: bool) -> list[_Limits]:
    base = _Base(wanted.after, wanted.zxid_max, wanted.time_min, wanted.time_max, None)
    if whole_files:
        return [_Limits(base, {}) for _ in group]
    surveys = [survey(member) for member in group]
    if not uncommitted:
        base = _visible(group, surveys, base)
    return [_Limits(base, found.ends) for found in surveys]


def _visible(group: list[Member], surveys: list[Survey], base: _Base) -> _Base:
    if group[0].kind == "native":
        known = mark(surveys)
        return evolve(base, until=known if base.until is None else min(base.until, known))
    if len(group) == 1:
        raise PipelineError(
            f"{group[0].directory} is one member of ZooKeeper alone, whose log does not say what is committed: give "
            f"the directories of a majority (as {group[0].ensemble}=DIR where they are not side by side), or ask for "
            "uncommitted transactions too"
        )
    return evolve(base, visible=tuple(visible_epochs(surveys).items()))


def _lowest(log: LogFile) -> int:
    """Below or at which zxid nothing is in the file."""
    return log.previous[0] if log.previous is not None else log.first - 1


def _spans(member: Member, limits: _Limits) -> Iterator[Span]:
    base = limits.base
    for log in member.logs:
        is_below = log.cutoff is not None and log.cutoff <= base.after
        is_above = base.until is not None and _lowest(log) >= base.until
        if is_below or is_above:
            continue
        yield Span(
            member.ensemble,
            member.member,
            log,
            end=limits.ends.get(log.name),
            after=base.after,
            until=base.until,
            time_min=base.time_min,
            time_max=base.time_max,
            visible=base.visible,
        )


def _cut(spans: Iterable[Span]) -> Iterator[Task]:
    gathered: list[Span] = []
    size = 0
    for span in spans:
        if gathered and size + span.file.size > TASK_BYTES:
            yield Task(tuple(gathered))
            gathered, size = [], 0
        gathered.append(span)
        size += span.file.size
    if gathered:
        yield Task(tuple(gathered))
