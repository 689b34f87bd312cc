"""Subtrees are walked in order, many znodes at a time, in bounded memory, while they change."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest
import trio
import typer

from zab.cli.znodes import walking
from zab.cli.znodes.subtree import child_path
from zab.cli.znodes.walking import LeftOut, Seen, read_along, together, walk_znodes
from zab.client import ConnectionLossError, NoAuthError, NoNodeError, Stat


class Tree:
    """Znodes without a server: `children` by path. Counts what is under way at once; every read takes a turn."""

    def __init__(self, *paths: str) -> None:
        self.children: dict[str, list[str]] = {"/": []}
        for path in paths:
            parent, _, name = path.rpartition("/")
            self.children[parent or "/"].append(name)
            self.children[path] = []
        self.closed: set[str] = set()
        self.hidden: set[str] = set()
        self.failing: set[str] = set()
        self.reads: list[str] = []
        self.size = 0
        self.under_way = self.most_under_way = 0

    async def _read(self, path: str) -> Stat:
        self.reads.append(path)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await trio.lowlevel.checkpoint()
        self.under_way -= 1
        if path in self.failing:
            raise ConnectionLossError(path)
        if path not in self.children:
            raise NoNodeError(path)
        if path in self.hidden:
            raise NoAuthError(path)
        return Stat(1, 1, 0, 0, 0, 0, 0, 0, self.size, len(self.children[path]), 1)

    async def get_children2(self, path: str) -> tuple[list[str], Stat]:
        stat = await self._read(path)
        if path in self.closed:
            raise NoAuthError(path)
        return sorted(self.children[path]), stat

    async def exists(self, path: str) -> Stat | None:
        try:
            return await self._read(path)
        except NoNodeError:
            return None

    def in_order(self, path: str = "/") -> list[str]:
        found = [path]
        for name in sorted(self.children[path]):
            found += self.in_order(child_path(path, name))
        return found


async def walked(tree: Tree, path: str = "/", depth: int | None = None) -> list[Seen]:
    async with aclosing(walk_znodes(tree, path, LeftOut(), depth)) as found:  # type: ignore[arg-type]
        return [seen async for seen in found]


def wide(directories: int, each: int) -> Tree:
    above = [f"/{number}" for number in range(directories)]
    return Tree(*above, *(f"{parent}/{number}" for parent in above for number in range(each)))


async def test_every_znode_comes_before_what_is_below_it_in_the_order_of_names() -> None:
    tree = wide(30, 7)
    found = await walked(tree)
    assert [seen.path for seen in found] == tree.in_order()
    assert [seen.depth for seen in found[:3]] == [0, 1, 2]
    assert [seen.path for seen in found if seen.is_last and seen.depth == 1] == ["/9"]
    assert sorted(tree.reads) == sorted(tree.children), "each is asked for once"


async def test_reads_of_many_directories_are_under_way_at_once() -> None:
    tree = wide(walking.WINDOW_COUNT, 5)
    await walked(tree)
    assert tree.most_under_way == walking.WINDOW_COUNT


@pytest.mark.parametrize("name", ["HELD_COUNT_MAX", "HELD_NAMES_MAX"])
async def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The first znode of each level is a directory: its siblings wait while it is walked, with answers or as names."""
    monkeypatch.setattr(walking, "WINDOW_COUNT", 4)
    monkeypatch.setattr(walking, name, 10)
    paths, parent = [], ""
    for _ in range(30):
        paths += [f"{parent}/{number}" for number in range(8)]
        parent += "/0"
    tree = Tree(*paths)
    read_ahead = 0
    async with aclosing(walk_znodes(tree, "/", LeftOut())) as found:  # type: ignore[arg-type]
        order = []
        async for seen in found:
            order.append(seen.path)
            read_ahead = max(read_ahead, len(tree.reads) - len(order))
    assert order == tree.in_order()
    assert 4 < read_ahead <= 10 + 4


async def test_what_has_vanished_is_passed_over_but_not_the_root() -> None:
    tree = Tree("/a", "/a/x", "/b", "/c")
    del tree.children["/b"]
    assert [seen.path for seen in await walked(tree)] == ["/", "/a", "/a/x", "/c"]
    with pytest.raises(NoNodeError):
        await walked(tree, "/none")


async def test_what_may_not_be_listed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree("/a", "/a/x", "/b")
    tree.closed = {"/a"}
    assert [seen.path for seen in await walked(tree)] == ["/", "/a", "/b"]
    assert capsys.readouterr().err.startswith("zab: what is below is left out: NOAUTH /a")
    tree.hidden = {"/b"}
    assert [seen.path for seen in await walked(tree)] == ["/", "/a"]
    assert "zab: left out: NOAUTH /b" in capsys.readouterr().err
    tree.closed = {"/"}
    with pytest.raises(NoAuthError):
        await walked(tree)


async def test_no_deeper_than_asked_for() -> None:
    tree = Tree("/a", "/a/x", "/a/x/y")
    assert [seen.path for seen in await walked(tree, depth=1)] == ["/", "/a"]
    assert tree.reads == ["/", "/a"]


async def test_a_lost_connection_ends_the_walk() -> None:
    tree = wide(3, 3)
    tree.failing = {"/1/1"}
    with pytest.raises(ConnectionLossError):
        await walked(tree)


async def test_calls_are_answered_in_their_order() -> None:
    async def call(number: int) -> int:
        for _ in range(10 - number):
            await trio.lowlevel.checkpoint()
        if number == 3:
            raise NoNodeError("/3")
        return number

    def bound(number: int) -> Callable[[], Awaitable[int]]:
        return lambda: call(number)

    found = await together([bound(number) for number in range(10)])
    assert [None if isinstance(each, NoNodeError) else each for each in found] == [0, 1, 2, None, *range(4, 10)]


async def test_data_is_read_along_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = wide(10, 3)
    tree.size = 100
    monkeypatch.setattr(walking, "READ_BYTES_MAX", 700)
    under_way = most = 0

    async def read(path: str) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.lowlevel.checkpoint()
        under_way -= 1
        if path == "/3":
            raise NoNodeError(path)
        if path == "/4":
            raise NoAuthError(path)
        return path

    left_out = LeftOut()
    async with aclosing(read_along(walk_znodes(tree, "/", left_out), read, left_out)) as found:  # type: ignore[arg-type]
        read_paths = [path async for _, path in found]
    assert read_paths == [path for path in tree.in_order() if path not in ("/3", "/4")]
    assert most == 7
    with pytest.raises(typer.Exit):
        left_out.end()
