"""`zab tree` and `zab du`: what a subtree looks like, and what takes up space in it.

    /app
    ├── config  5 bytes
    └── workers  2 below
        ├── w-0000000000  ephemeral of 0x100012ab34c0000
        └── w-0000000001  ephemeral of 0x100012ab34c0000

`du` prints a line for each directory, a znode with children, after those below it: the bytes of data and the number of
znodes of the whole subtree, including itself. `--top` prints the directories with the most in their own children, since
the root always has the most in its subtree: the bytes of the children, and their number.

Both print while they read, and keep no more of the tree than `walking.py` says; `du` also the sums on the way from the
root.
"""

import heapq
from collections.abc import AsyncGenerator
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer
from attrs import define

from zab.cli.json_form import JsonOption, hexadecimal, json_line, time_text
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.options import PathArgument
from zab.cli.znodes.walking import LeftOut, Seen, patient, walk_znodes
from zab.client import Client, Stat

__all__ = ["Measure", "du_command", "sums", "tree_command"]


def tree_command(
    context: typer.Context,
    path: PathArgument = "/",
    depth: Annotated[int | None, typer.Option("--depth", "-d", min=0, help="At most N levels below PATH.")] = None,
    sizes: Annotated[bool, typer.Option("--sizes", help="Show the size of the data.")] = False,
    stat: Annotated[bool, typer.Option("-s", "--stat", help="Show size, version and time of the data.")] = False,
    json: JsonOption = False,
) -> None:
    """Ephemeral znodes are followed by their session."""

    async def work(zk: Client, _caller: Caller) -> None:
        left_out = LeftOut()
        # For each level, what is drawn below an ancestor at that level.
        bars: list[str] = []
        async with aclosing(walk_znodes(patient(zk), path, left_out, depth)) as found:
            async for seen in found:
                if json:
                    say(json_line({"path": seen.path, "depth": seen.depth, "stat": stat_value(seen.stat)}))
                    continue
                branch = "" if seen.depth == 0 else "└── " if seen.is_last else "├── "
                name = seen.path if seen.depth == 0 else seen.name
                notes = _notes(seen.stat, sizes=sizes, all_of_it=stat, is_cut=seen.depth == depth)
                say("".join((*bars[: seen.depth - 1], branch, name, *(f"  {note}" for note in notes))))
                bars[max(seen.depth - 1, 0) :] = [] if seen.depth == 0 else ["    " if seen.is_last else "│   "]
        left_out.end()

    perform(context, work)


def _notes(stat: Stat, *, sizes: bool, all_of_it: bool, is_cut: bool) -> list[str]:
    notes = []
    if sizes or all_of_it:
        notes.append(count_of(stat.data_length, "byte"))
    if all_of_it:
        notes += [f"version {stat.version}", time_text(stat.mtime) or f"{stat.mtime} ms"]
    if is_cut and stat.num_children:
        notes.append(f"{stat.num_children} below")
    if stat.ephemeral_owner:
        notes.append(f"ephemeral of {hexadecimal(stat.ephemeral_owner)}")
    return notes


class Measure(StrEnum):
    """How directories are ordered."""

    BYTES = "bytes"
    ZNODES = "znodes"


class Sum(NamedTuple):
    """The bytes of data and the number of znodes of one directory."""

    bytes: int
    znodes: int
    path: str
    depth: int


@define
class _Open:
    """A znode whose descendants are not all counted yet."""

    path: str
    depth: int
    bytes: int
    own_bytes: int
    """The sums of its children only."""
    znodes: int = 1
    children: int = 0

    def of_all(self) -> Sum:
        return Sum(self.bytes, self.znodes, self.path, self.depth)

    def of_own(self) -> Sum:
        return Sum(self.own_bytes, self.children, self.path, self.depth)


def du_command(
    context: typer.Context,
    path: PathArgument = "/",
    depth: Annotated[int | None, typer.Option("--depth", "-d", min=0, help="Print lines for at most N levels.")] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help="The N znodes with the most directly below them."),
    ] = None,
    by: Annotated[Measure, typer.Option("--by", help="What --top sorts by.")] = Measure.BYTES,
    json: JsonOption = False,
) -> None:
    """A line has bytes of data, number of znodes, and path, separated by tabs."""
    if top is not None and depth is not None:
        raise typer.BadParameter("--top looks at all levels; give either it or --depth")

    def show(found: Sum) -> None:
        fields = {"path": found.path, "bytes": found.bytes, "count": found.znodes}
        say(json_line(fields) if json else f"{found.bytes}\t{found.znodes}\t{found.path}")

    async def work(zk: Client, _caller: Caller) -> None:
        left_out = LeftOut()
        largest: list[tuple[tuple[int, int], str, Sum]] = []
        with progress("counted", prints_lines=top is None) as told:
            walked = _told(walk_znodes(patient(zk), path, left_out), told)
            async with aclosing(sums(walked)) as directories:
                async for directory in directories:
                    if top is None:
                        if depth is None or directory.depth <= depth:
                            show(directory.of_all())
                        continue
                    own = directory.of_own()
                    rank = (own.bytes, own.znodes) if by is Measure.BYTES else (own.znodes, own.bytes)
                    heapq.heappush(largest, (rank, own.path, own))
                    if len(largest) > top:
                        heapq.heappop(largest)
        for _, _, own in sorted(largest, reverse=True):
            show(own)
        left_out.end()

    perform(context, work)


async def _told(znodes: AsyncGenerator[Seen, None], told: Told) -> AsyncGenerator[Seen, None]:
    """Counts the znodes of a walk."""
    async with aclosing(znodes):
        async for seen in znodes:
            told.add()
            yield seen


async def sums(znodes: AsyncGenerator[Seen, None]) -> AsyncGenerator[_Open, None]:
    """The directories of a walk, each after those below it; always with the root."""
    above: list[_Open] = []
    async with aclosing(znodes):
        async for seen in znodes:
            while above and above[-1].depth >= seen.depth:
                done = _close(above)
                if done.children:
                    yield done
            size = seen.stat.data_length
            if above:
                above[-1].own_bytes += size
                above[-1].children += 1
            above.append(_Open(seen.path, seen.depth, bytes=size, own_bytes=0))
    while above:
        done = _close(above)
        if done.children or not above:
            yield done


def _close(above: list[_Open]) -> _Open:
    """Takes the last of them, and adds it to the one above."""
    done = above.pop()
    if above:
        above[-1].bytes += done.bytes
        above[-1].znodes += done.znodes
    return done
