"""`zab snapshot --summary`, and `zab snapshot A B`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.record import Txn
from datatree.tree import DataTree
from tests.cli.commands import Result, call
from tests.cli.files.member_files import _made
from tests.cli.json_page import table
from tests.datatree.histories import snapshot
from tests.datatree.zookeeper.histories import history
from tests.rigs.zookeeper_directory import from_cursor, write_directory
from tests.rigs.zookeeper_server import run_tool
from tests.tidy.sources import ROOT
from zab.host.storage.disk import RealDisk

Zab = Callable[..., Result]
PATHS = (b"/app", b"/app/jobs", b"/app/jobs/1", b"/app/jobs/2", b"/app/config", b"/empty")


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str]) -> Zab:
    return lambda *words: call(capsys, "snapshot", *words)


def tree_of(*txns: tuple[int, bytes, bytes | None]) -> DataTree:
    """A tree of creates (1), deletes (2) and sets (5): type, path, data."""
    tree, children = DataTree(), 0
    for zxid, (kind, path, data) in enumerate([*((1, path, path[1:]) for path in PATHS), *txns], 1):
        children += kind == 1
        rest = (None, 0) if kind == 1 else None
        number = {1: children, 2: 0, 5: 1}[kind]
        tree.apply(Txn(zxid, 1000 + zxid, 5, zxid, kind, number, path, data, rest))
    return tree


def native(directory: Path, tree: DataTree) -> Path:
    directory.mkdir()
    return directory / snapshot(RealDisk(str(directory)), tree, bytes(16))  # type: ignore[arg-type]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two states; the second has another job, another config, and no empty one."""
    after = tree_of((1, b"/new", b"xx"), (1, b"/new/below", b"yyy"), (5, b"/app/config", b"z"), (2, b"/empty", None))
    return native(tmp_path / "a", tree_of()), native(tmp_path / "b", after)


def test_a_summary_has_a_line_for_each_znode_with_children(zab: Zab, pair: tuple[Path, Path]) -> None:
    done = zab("--summary", pair[0])
    assert (done.code, done.err) == (0, "")
    blocks = done.out.split("\n")
    assert blocks[:3] == [" /", "   children: 9", f"   data: {sum(len(path) - 1 for path in PATHS)}"]
    assert blocks[3:9] == [
        "-- /app",
        "--   children: 4",
        "--   data: 41",
        "---- /app/jobs",
        "----   children: 2",
        "----   data: 28",
    ]
    assert "/empty" not in done.out


def test_it_begins_where_it_is_told_and_goes_so_far_down(zab: Zab, pair: tuple[Path, Path]) -> None:
    assert "/app/jobs" not in zab("--summary", "--depth", "1", pair[0]).out
    assert zab("--summary", "--path", "/app/jobs", pair[0]).out == " /app/jobs\n   children: 2\n   data: 28\n"
    done = zab("--summary", "--path", "/none", pair[0])
    assert (done.code, "there is no such znode" in done.err) == (1, True)


def test_two_snapshots_are_compared_whatever_their_formats(zab: Zab, pair: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = pair
    expected = [
        "~ /: cversion, pzxid",
        "~ /app/config: data, version, mzxid, mtime",
        "- /empty: 1 znode, 5 bytes",
        "+ /new: 2 znodes, 5 bytes",
    ]
    done = zab(first, second)
    assert (done.code, done.out.splitlines()) == (1, expected)
    assert [line[0] for line in zab(second, first).out.splitlines()] == ["~", "~", "+", "-"]
    twin = tmp_path / write_directory(_made(tmp_path / "version-2"), from_cursor(tree_of().begin_snapshot()))
    assert zab(first, twin) == Result(0, "", "")
    assert zab(twin, second).out.splitlines() == expected


def test_the_example_of_the_page_has_the_lines_that_are_printed(zab: Zab, pair: tuple[Path, Path]) -> None:
    page = (ROOT / "docs" / "how-to" / "read-logs.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^\$ zab snapshot old/\S+ new/\S+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    line = re.compile(r"([-+] /\S*: (1 znode|\d+ znodes), \d+ bytes|~ /\S*: \w+(, \w+)*)")
    for each in [*example.splitlines(), *zab(*pair).out.splitlines()]:
        assert line.fullmatch(each), each


def test_lines_as_json(zab: Zab, pair: tuple[Path, Path]) -> None:
    fields = table("Lines of `zab snapshot --summary` and of two snapshots")
    lines = [json.loads(line) for line in zab("--json", *pair).out.splitlines()]
    lines += [json.loads(line) for line in zab("--json", "--summary", pair[0]).out.splitlines()]
    assert {line["type"] for line in lines} == fields.keys()
    for line in lines:
        assert list(line) == fields[line["type"]]


@pytest.mark.parametrize(
    "words", [["--summary", "--data"], ["--path", "/"], ["--depth", "1"], ["--summary", "--ncdu"], ["--summary", "B"]]
)
def test_wrong_usage_is_2(zab: Zab, pair: tuple[Path, Path], words: list[str]) -> None:
    assert zab(pair[0], *(str(pair[1]) if word == "B" else word for word in words)).code == 2


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("depth", ["0", "1", "2"])
def test_a_summary_is_that_of_zookeepers_own_tool(zab: Zab, tmp_path: Path, depth: str) -> None:
    _, tree = history(4, 400)
    path = tmp_path / write_directory(_made(tmp_path / "version-2"), from_cursor(tree.begin_snapshot()))
    theirs = run_tool("org.apache.zookeeper.server.SnapshotRecursiveSummary", str(path), "/", depth).stdout.decode()
    ours = zab("--summary", "--depth", depth, path).out
    assert sorted(ours.split("\n")) == sorted([*theirs.rstrip("\n").split("\n"), ""])
    assert ours.count("children") > 3
