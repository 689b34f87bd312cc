"""`zab pipeline state` and `zab pipeline diff` on the directories of running ensembles."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from datatree.recovery.recover import recover
from datatree.znode import CONTAINER_OWNER
from tests.cli.commands import Result, call
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.trees import local_state
from tests.rigs.zookeeper_directory import load_directory, to_tree
from zab.host.storage.disk import RealDisk
from zab.pipeline.schema import ZNODES
from zab.pipeline.state.local_state import local_moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


Zab = Callable[..., Result]


@pytest.fixture
def zab(spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zab:
    monkeypatch.setenv("COLUMNS", "300")

    return lambda *words: call(capfd, *words)


def dirs_of(directories: Directories) -> list[str]:
    return [f"e={member}" for member in directories.members]


def test_state_as_rows_at_a_zxid(zab: Zab, zab_directories: Directories, tmp_path: Path) -> None:
    at, out = zab_directories.killed_zxid, tmp_path / "state.json"
    done = zab("pipeline", "state", *dirs_of(zab_directories), "--at", hex(at), "--out", out)
    assert done.code == 0
    assert f"zab: ensemble e at zxid {at:#x}, 2" in done.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    state = local_state(local_moment(dirs_of(zab_directories), at))
    assert [row["path"].encode() for row in rows] == sorted(state.znodes)
    assert [list(row) for row in rows[:1]] == [[column.name for column in ZNODES]]
    for row in rows:
        data = state.znodes[row["path"].encode()].data
        assert row["data"] == (None if data is None else base64.b64encode(data).decode())


def test_sessions_of_a_moment_on_the_terminal(zab: Zab, zab_directories: Directories) -> None:
    done = zab("pipeline", "state", *dirs_of(zab_directories), "--as", "sessions")
    state = local_state(local_moment(dirs_of(zab_directories)))
    lines = done.out.splitlines()
    assert lines[0].split() == ["session", "timeout"]
    assert sorted(line.split()[0] for line in lines[1:]) == sorted(f"{session:#x}" for session in state.sessions)


@pytest.mark.parametrize(("shape", "version"), [("snapshot", "version-1"), ("version-2", "version-2")])
def test_state_as_a_snapshot_is_that_of_restore(
    zab: Zab, zookeeper_directories: Directories, tmp_path: Path, shape: str, version: str
) -> None:
    words = [*dirs_of(zookeeper_directories), "--at", hex(zookeeper_directories.killed_zxid)]
    kind = "native" if shape == "snapshot" else shape
    restored = zab("restore", *words, "--as", kind, "--to", tmp_path / "restored")
    done = zab("pipeline", "state", *words, "--as", shape, "--to", tmp_path / "new", "--to", f"9={tmp_path / 'more'}")
    assert (restored.code, done.code) == (0, 0)
    assert done.out.splitlines()[0] == restored.out.splitlines()[2]
    trees = []
    for name in ("restored", "new", "more"):
        disk = RealDisk(str(tmp_path / name), lock=False)
        trees.append(recover(disk).tree if version == "version-1" else to_tree(load_directory(disk).state))
        assert {path.name for path in (tmp_path / name).iterdir()} == {"myid", version}
    assert len({tree.digest for tree in trees}) == 1
    assert trees[0].znode_count > 500
    assert (tmp_path / "more" / "myid").read_text() == "9\n"


def test_diff_as_rows_and_as_commands(zab: Zab, zab_directories: Directories, tmp_path: Path) -> None:
    after = zab_directories.killed_zxid
    before, out = after - 60, tmp_path / "diff.json"
    words = ["pipeline", "diff", *dirs_of(zab_directories), "--from", hex(before), "--to", hex(after)]
    assert zab(*words, "--out", out).code == 0
    rows = {row["path"]: row for row in map(json.loads, out.read_text().splitlines())}
    old, new = (local_state(local_moment(dirs_of(zab_directories), at)).znodes for at in (before, after))
    paths = {path.decode() for path in old.keys() ^ new.keys()}
    for path in old.keys() & new.keys():
        one, other = old[path], new[path]
        if (one.data, one.acl, one.owner, one.czxid) != (other.data, other.acl, other.owner, other.czxid):
            paths.add(path.decode())
    assert rows.keys() == paths
    assert paths
    done = zab(*words, "--commands")
    assert done.code == 0
    lines = done.out.splitlines()
    gone = [path for path, row in rows.items() if row["change"] == "deleted"]
    ending = [path for path in gone if rows[path]["owner_before"] not in (0, CONTAINER_OWNER)]
    assert all(f"zab delete -- {quote(path)}" in lines for path in gone if path not in ending)
    # Unless its parent goes, too.
    assert all(
        f"zab delete -- {quote(path)}" in lines or any(line.startswith(f"# {path}: gone then") for line in lines)
        for path in ending
    )
    assert all(line.startswith(("zab ", "# ", "printf ")) for line in lines)


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["state", "--at", "never"], 2, "'never' is no time"),
        (["state", "--as", "snapshot"], 2, "--to and --as snapshot"),
        (["state", "--to", "{tmp}/new"], 2, "--to and --as snapshot"),
        (["state", "--as", "snapshot", "--to", "{tmp}/new", "--out", "{tmp}/x"], 2, "it cannot be used with --to"),
        (["diff"], 2, "--from"),
        (["diff", "--from", "x"], 2, "'x' is no time"),
        (["state", "--at", "0x7000000000000000"], 1, "beyond the end"),
        (["diff", "--from", "1990-01-01"], 1, "no transaction of ensemble e at or before"),
    ],
)
def test_bad_input_is_a_sentence(
    zab: Zab, zab_directories: Directories, tmp_path: Path, words: list[str], code: int, reason: str
) -> None:
    name, *rest = (word.replace("{tmp}", str(tmp_path)) for word in words)
    done = zab("pipeline", name, *dirs_of(zab_directories), *rest)
    assert (done.code, done.out) == (code, "")
    assert reason in done.err
    assert not list(tmp_path.iterdir())


def test_a_snapshot_is_of_one_ensemble(
    zab: Zab, zab_directories: Directories, zookeeper_directories: Directories, tmp_path: Path
) -> None:
    dirs = [*dirs_of(zab_directories), *(f"other={member}" for member in zookeeper_directories.members)]
    done = zab("pipeline", "state", *dirs, "--as", "snapshot", "--to", tmp_path / "new")
    assert done.code == 1
    assert "the directories hold 2" in done.err
    assert not (tmp_path / "new").exists()
