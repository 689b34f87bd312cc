"""Walks a subtree with the stat of every znode, every znode before what is below it, siblings in the order of names.

    async with aclosing(walk_znodes(zk, "/app", left_out)) as found:
        async for seen in found: ...

Reading ahead: the next znodes in the order are requested together, up to WINDOW_COUNT at a time, across directories.
Answers that come early are kept. When HELD_COUNT_MAX answers are kept, or HELD_NAMES_MAX names are not requested yet,
only the first znode in the order is requested. So memory is bounded by these, by one more window, and by the lists of
children on the way from the root to the position of the walk.

    ahead:  Seen /app | Seen /app/a | children of /app/a: x, y | children of /app: b, c, …
            └ is yielded            └ are requested next, with as many of those after them as there is room for

This is no snapshot of the tree. A znode that is deleted before it is read is skipped, except for the root: then it is
NONODE. One that may not be listed is reported to `LeftOut`; it is yielded if at least its stat may be read, for which
ZooKeeper requires the same permission.

`read_along` reads more of each (its data, its ACL), again many at a time and in order.

Reads are repeated when their connection is lost (`patient`).

Not here: names alone, without stats, many directories in one request (`subtree.py`).
"""

import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

import trio
import typer

from zab.cli.exits import REFUSED
from zab.cli.terminal import say
from zab.cli.znodes.subtree import child_path
from zab.client import Client, NoAuthError, NoNodeError, Stat, ZabError
from zab.client.znodes import Znodes

__all__ = ["LeftOut", "Seen", "patient", "read_along", "together", "walk_znodes"]

T = TypeVar("T")

WINDOW_COUNT: Final = 128
HELD_COUNT_MAX: Final = 4_096
HELD_NAMES_MAX: Final = 100_000
READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of data that are requested together. A single znode may have more."""


class Seen(NamedTuple):
    """A znode of the walk. depth: 0 for the root. is_last: it is the last of its siblings, when they were listed."""

    path: str
    stat: Stat
    depth: int
    is_last: bool

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _Children:
    """The children of one znode that were not requested yet."""

    __slots__ = ("at", "depth", "names", "parent")

    def __init__(self, parent: str, names: Sequence[str], depth: int) -> None:
        self.parent = parent
        self.names = names
        self.at = 0
        self.depth = depth

    def __len__(self) -> int:
        return len(self.names) - self.at


class _Asked(NamedTuple):
    path: str
    depth: int
    is_last: bool


_Ahead: TypeAlias = deque[Seen | _Children]
_Answer: TypeAlias = tuple[Stat, list[str] | NoAuthError]
"""A stat, and the names of the children, or why they may not be read."""


class LeftOut:
    """Reports what may not be read of a subtree on standard error; then the command ends with 1."""

    def __init__(self) -> None:
        self.count = 0

    def tell(self, error: NoAuthError, what: str = "what is below is left out") -> None:
        self.count += 1
        sys.stdout.flush()
        say(f"zab: {what}: {error}", sys.stderr)

    def end(self) -> None:
        if self.count:
            raise typer.Exit(REFUSED)


def patient(zk: Client) -> Znodes:
    """Its operations, repeated after a lost connection, until its session is over."""
    return zk.retrying(zk.session_timeout_ms / 1000)


async def walk_znodes(
    zk: Znodes, path: str, left_out: LeftOut, depth_max: int | None = None, *, without: str | None = None
) -> AsyncGenerator[Seen, None]:
    """The subtree, at most `depth_max` deep. Raises NoNodeError if there is none, NoAuthError if the root may not be
    listed. without: a child of the root to leave out, with its descendants."""
    stat, names = await _look(zk, _Asked(path, 0, True), depth_max)
    if isinstance(names, NoAuthError):
        raise names
    names = [name for name in names if child_path(path, name) != without]
    ahead: _Ahead = deque([Seen(path, stat, 0, True), _Children(path, names, 1)])
    while ahead:
        first = ahead.popleft()
        if isinstance(first, Seen):
            yield first
        elif first:
            ahead.appendleft(first)
            await _read_ahead(zk, ahead, left_out, depth_max)


async def _read_ahead(zk: Znodes, ahead: _Ahead, left_out: LeftOut, depth_max: int | None) -> None:
    """Replaces the next children, at the start of `ahead`, by their answers."""
    passed, asked = _take(ahead)
    answers = iter(await together([partial(_look, zk, each, depth_max) for each in asked]))
    for item in _answered(passed, answers, left_out):
        ahead.appendleft(item)


def _take(ahead: _Ahead) -> tuple[list[Seen | _Children | _Asked], list[_Asked]]:
    """The first entries, with as many of the children as will be requested; and only these."""
    passed: list[Seen | _Children | _Asked] = []
    asked: list[_Asked] = []
    held = sum(isinstance(each, Seen) for each in ahead)
    held_names = sum(len(each) for each in ahead if isinstance(each, _Children))
    is_full = held >= HELD_COUNT_MAX or held_names >= HELD_NAMES_MAX
    window_count = 1 if is_full else WINDOW_COUNT
    while ahead and len(asked) < window_count:
        first = ahead[0]
        if isinstance(first, Seen):
            passed.append(first)
            ahead.popleft()
            continue
        while first and len(asked) < window_count:
            path = child_path(first.parent, first.names[first.at])
            first.at += 1
            asked.append(_Asked(path, first.depth, not first))
            passed.append(asked[-1])
        if not first:
            ahead.popleft()
    return passed, asked


def _answered(
    passed: list[Seen | _Children | _Asked], answers: Iterator[_Answer | ZabError], left_out: LeftOut
) -> list[Seen | _Children]:
    """The entries with their answers, in reverse order. Deleted znodes are left out."""
    found: list[Seen | _Children] = []
    for each in passed:
        if not isinstance(each, _Asked):
            found.append(each)
            continue
        answer = next(answers)
        if isinstance(answer, NoNodeError):
            continue
        if isinstance(answer, NoAuthError):
            left_out.tell(answer, "left out")
            continue
        if isinstance(answer, ZabError):
            raise answer
        stat, names = answer
        found.append(Seen(each.path, stat, each.depth, each.is_last))
        if isinstance(names, NoAuthError):
            left_out.tell(names)
        elif names:
            found.append(_Children(each.path, names, each.depth + 1))
    found.reverse()
    return found


async def _look(zk: Znodes, asked: _Asked, depth_max: int | None) -> _Answer:
    if depth_max is not None and asked.depth >= depth_max:
        return await _stat(zk, asked.path), []
    try:
        names, stat = await zk.get_children2(asked.path)
    except NoAuthError as error:
        return await _stat(zk, asked.path), error
    return stat, names


async def _stat(zk: Znodes, path: str) -> Stat:
    stat = await zk.exists(path)
    if stat is None:
        raise NoNodeError(path)
    return stat


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | ZabError]:
    """What each returns or raises, in order; all run at once."""
    found: dict[int, T | ZabError] = {}

    async def call(at: int) -> None:
        try:
            found[at] = await calls[at]()
        except ZabError as error:
            found[at] = error

    async with trio.open_nursery() as nursery:
        for at in range(len(calls)):
            nursery.start_soon(call, at)
    return [found[at] for at in range(len(calls))]


async def read_along(
    znodes: AsyncGenerator[Seen, None], read: Callable[[str], Awaitable[T]], left_out: LeftOut
) -> AsyncGenerator[tuple[Seen, T], None]:
    """Each znode with the result of `read` for its path. A deleted znode is skipped; one that may not be read is
    reported."""
    async with aclosing(_batches(znodes)) as batches:
        async for batch in batches:
            answers = await together([partial(read, seen.path) for seen in batch])
            for seen, answer in zip(batch, answers, strict=True):
                if isinstance(answer, NoAuthError):
                    left_out.tell(answer, "left out")
                elif not isinstance(answer, ZabError):
                    yield seen, answer
                elif not isinstance(answer, NoNodeError):
                    raise answer


async def _batches(znodes: AsyncGenerator[Seen, None]) -> AsyncGenerator[list[Seen], None]:
    batch: list[Seen] = []
    size = 0
    async with aclosing(znodes):
        async for seen in znodes:
            if batch and (len(batch) == WINDOW_COUNT or size + seen.stat.data_length > READ_BYTES_MAX):
                yield batch
                batch, size = [], 0
            batch.append(seen)
            size += seen.stat.data_length
    if batch:
        yield batch
