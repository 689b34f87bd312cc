"""`zab restore`: which directories it makes, what it refuses, and that a failure leaves nothing.

That members start from what it makes is in `tests/pipeline/state/test_restored.py`.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from datatree.log.epochs import load_epochs, load_member
from datatree.recovery.recover import recover
from datatree.snapshot import load_snapshot
from tests.cli.commands import Result, call
from tests.cli.operations.restorable import RESTORED, STATE, TREE, ZXID, backup
from tests.rigs.zookeeper_directory import load_directory
from tests.tidy.sources import ROOT
from zab.cli import new_members
from zab.host.storage.disk import RealDisk

__all__ = ["backup"]


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    # Rich breaks the lines of errors at the terminal's width.
    monkeypatch.setenv("COLUMNS", "400")

    return lambda *words: call(capsys, "restore", *words)


def below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def put(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_directories_of_three_members(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    to = [tmp_path / "new" / name for name in "abc"]
    done = zab(backup, "--to", to[0], "--to", f"7={to[1]}", "--to", to[2])
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == f"ensemble {bytes(range(16)).hex()} at zxid {ZXID:#x}"
    assert lines[1] == f"from snapshot.{ZXID:x} of member 1 and 0 transactions"
    assert lines[2].startswith(f"{TREE.znode_count} znodes, {len(TREE.sessions)} sessions, digest ")
    lineages = set()
    for directory, server_id in zip(to, (1, 7, 3), strict=True):
        assert f"member {server_id}: {directory}/version-1/snapshot.{RESTORED:x}" in lines
        files = ["acceptedEpoch", "committed", "currentEpoch", "member", "sessionKeys", f"snapshot.{RESTORED:x}"]
        assert below(directory) == ["myid", "version-1", *(f"version-1/{name}" for name in files)]
        assert not [path for path in directory.rglob("*") if path.stat().st_mode & 0o077], "for its owner alone"
        assert (directory / "myid").read_text() == f"{server_id}\n"
        disk = RealDisk(str(directory), lock=False)
        recovered = recover(disk, server_id)
        assert (recovered.amnesiac, recovered.damage, recovered.problems) == (False, [], [])
        assert (recovered.mark, load_epochs(disk)) == (RESTORED, (7, 7))
        assert recovered.tree.digest == TREE.digest
        assert load_member(disk).server_id == server_id
        lineages.add(recovered.lineage)
    assert len(lineages) == 1
    assert lineages != {bytes(range(16))}
    assert f"lineage {lineages.pop().hex()}" in lines


def test_an_interrupt_says_how_much_was_read(
    zab: Callable[..., Result], backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zab.pipeline.state.snapshot_output.found_native", interrupted)
    assert zab(backup, "--to", tmp_path / "new") == (130, "", f"zab: not finished: {len(STATE.znodes)} znodes read\n")
    assert not (tmp_path / "new").exists()


def test_each_call_makes_another_ensemble(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    found = [zab(backup, "--to", tmp_path / name).out.splitlines()[3] for name in "ab"]
    assert all(line.startswith("lineage ") for line in found)
    assert found[0] != found[1]


def test_directory_for_zookeeper(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    done = zab(backup, "--to", tmp_path / "new", "--as", "version-2", "--at", hex(ZXID))
    assert done.code == 0
    assert "lineage" not in done.out
    files = ["acceptedEpoch", "currentEpoch", f"snapshot.{RESTORED:x}"]
    assert below(tmp_path / "new") == ["myid", "version-2", *(f"version-2/{name}" for name in files)]
    assert (tmp_path / "new" / "version-2" / "currentEpoch").read_bytes() == b"7"
    loaded = load_directory(RealDisk(str(tmp_path / "new"), lock=False))
    assert loaded.problems == []
    assert (loaded.state.zxid, loaded.state.sessions) == (RESTORED, STATE.sessions)
    assert loaded.state.znodes.keys() == STATE.znodes.keys()


def test_what_stands_in_the_directory_stays(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "new"
    (target / "version-1").mkdir(parents=True)
    (target / "myid").write_text("42\n")
    (target / "zoo.cfg").write_text("dataDir=here\n")
    assert zab(backup, "--to", target).code == 0
    assert (target / "myid").read_text() == "42\n"
    assert (target / "zoo.cfg").exists()
    assert load_member(RealDisk(str(target), lock=False)).server_id == 42


@pytest.mark.parametrize(
    ("prepare", "words", "reason"),
    [
        (lambda new: None, ["--at", "yesterday"], "'yesterday' is no time"),
        (lambda new: None, ["--to", "{new}"], "is named twice"),
        (lambda new: None, ["--to", "1={new}x"], "would both be member 1; say ID=DIR"),
        (lambda new: new.write_text(""), [], "is a file"),
        (
            lambda new: ((new / "version-1").mkdir(parents=True), (new / "version-1" / "lock").touch()),
            [],
            "data already",
        ),
        (
            lambda new: ((new / "version-2").mkdir(parents=True), (new / "version-2" / "log.1").touch()),
            [],
            "data already",
        ),
        (lambda new: (new / ".restore").mkdir(parents=True), [], "remove it"),
        (lambda new: put(new / "myid", "x\n"), [], "holds no number"),
        (lambda new: put(new / "myid", "5\n"), ["--to", "5={new}x"], "would both be member 5"),
        (lambda new: None, ["--as", "tape"], "--as"),
    ],
)
def test_wrong_usage_is_2(
    zab: Callable[..., Result],
    backup: Path,
    tmp_path: Path,
    prepare: Callable[[Path], object],
    words: list[str],
    reason: str,
) -> None:
    new = tmp_path / "new"
    prepare(new)
    before = below(tmp_path)
    done = zab(backup, "--to", new, *(word.replace("{new}", str(new)) for word in words))
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert below(tmp_path) == before


def test_a_myid_that_says_otherwise_is_wrong_usage(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    (tmp_path / "myid").write_text("5\n")
    done = zab(backup, "--to", f"6={tmp_path}")
    assert done.code == 2
    assert "myid says 5, not 6" in done.err


def test_what_cannot_be_is_a_sentence(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for words, reason in (
        ([tmp_path / "nowhere"], "does not exist"),
        ([backup, "--at", hex(ZXID + 1)], f"zxid {ZXID + 1:#x} is beyond the end"),
        ([backup, "--at", "0x500000001"], "cannot be put together: no snapshot to begin with"),
        ([backup, "--at", "2001-01-01"], "no transaction of ensemble"),
    ):
        done = zab(*words, "--to", new)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("zab: ")
        assert reason in done.err
        assert done.err.count("\n") == 1
        assert not new.exists()


def test_a_damaged_snapshot_is_named(zab: Callable[..., Result], backup: Path, tmp_path: Path) -> None:
    newer = backup / "version-1" / f"snapshot.{ZXID + 1:x}"
    newer.write_bytes((backup / "version-1" / f"snapshot.{ZXID:x}").read_bytes())
    done = zab(backup, "--at", hex(ZXID), "--to", tmp_path / "new")
    assert (done.code, done.err) == (0, "")
    done = zab(backup, "--to", tmp_path / "newer")
    assert done.code == 1
    assert f"{newer}: offset 0: the name does not say zxid {ZXID:x}" in done.err


def test_ephemerals_without_a_session_are_named(zab: Callable[..., Result], tmp_path: Path) -> None:
    lost = sorted(path for path, znode in STATE.znodes.items() if znode.owner > 0)
    assert lost
    backup = tmp_path / "backup" / "version-2"
    backup.mkdir(parents=True)
    (backup / f"snapshot.{STATE.zxid:x}").write_bytes(
        b"".join(type(STATE).build((STATE.znodes[path] for path in sorted(STATE.znodes)), {}, STATE.zxid).snapshot())
    )
    done = zab(backup.parent, "--to", tmp_path / "new")
    assert done.code == 0
    assert done.err == f"zab: left out, because their sessions do not exist: {', '.join(p.decode() for p in lost)}\n"
    _, tree = load_snapshot(RealDisk(str(tmp_path / "new"), lock=False), "version-1/snapshot.100000001")
    assert tree.ephemerals == {}


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_full_disk_leaves_nothing_behind(
    zab: Callable[..., Result], backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_args: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "deep" / "er" / "b"))

    if failing == "write":
        monkeypatch.setattr(new_members, "_copy", full)
    else:
        monkeypatch.setattr(new_members.os, "rename", full)
    before = below(tmp_path)
    done = zab(backup, "--to", tmp_path / "a", "--to", tmp_path / "deep" / "er" / "b")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"zab: {tmp_path}/deep/er/b: No space left on device\n"
    assert below(tmp_path) == before


def test_a_directory_that_cannot_be_made(zab: Callable[..., Result], backup: Path) -> None:
    done = zab(backup, "--to", "/proc/new")
    assert done.code == 1
    assert done.err.startswith("zab: /proc/new")


@pytest.mark.slow
def test_it_needs_neither_java_nor_a_spark_session(backup: Path, tmp_path: Path) -> None:
    environment = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    command = [sys.executable, "-m", "zab.cli.main", "restore", str(backup), "--to", str(tmp_path / "new")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def without(missing: Iterable[str], *words: object) -> subprocess.CompletedProcess[str]:
    """The command, where these packages are not installed."""
    code = f"from zab.cli.main import main\nmain({list(map(str, words))!r})"
    return run_without(missing, code)


def run_without(missing: Iterable[str], code: str) -> subprocess.CompletedProcess[str]:
    hiding = HIDING.format(missing=set(missing))
    return subprocess.run([sys.executable, "-c", hiding + code], capture_output=True, text=True, check=False)


HIDING = """
import sys
from importlib.machinery import PathFinder
real = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in {missing!r} else real(name, *more)
"""


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install(backup: Path, tmp_path: Path) -> None:
    done = without(["pyarrow"], "restore", backup, "--to", tmp_path / "new")
    assert done.returncode == 1, done.stderr
    assert done.stderr == "zab: zab restore needs pyarrow: pip install 'zab[backup]'\n"


def installed_by(extra: str) -> set[str]:
    """The packages by the names of pyproject.toml, those of the extras in it included."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    found: set[str] = set()
    for line in lines:
        inner = re.fullmatch(r"zab\[([\w,]+)\]", line)
        if inner is None:
            found.add(re.split(r"[^\w-]", line)[0])
        else:
            found.update(*map(installed_by, inner[1].split(",")))
    return found


LARGE = installed_by("pipeline") - installed_by("backup")
"""What the extra `pipeline` installs, and the extra `backup` does not."""


@pytest.mark.slow
def test_the_extra_backup_is_enough(backup: Path, tmp_path: Path) -> None:
    assert {"pyspark", "pandas"} <= LARGE
    done = without({*LARGE, "py4j"}, "restore", backup, "--to", tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "")
    done = without({*LARGE, "py4j"}, "restore", backup, "--to", tmp_path / "zoo", "--as", "version-2")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["pandas", "pyspark"])
def test_what_runs_on_spark_says_that_the_extra_pipeline_is_needed(backup: Path, missing: str) -> None:
    done = without([missing], "pipeline", "state", backup)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"needs {missing}: pip install 'zab[pipeline]'\n"), done.stderr
    for line in ("from zab.pipeline import read_log", "import zab.pipeline.jobs.audit"):
        failed = run_without([missing], line)
        assert f"zab.pipeline needs {missing}: pip install 'zab[pipeline]'" in failed.stderr
