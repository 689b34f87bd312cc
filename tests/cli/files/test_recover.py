"""`zab recover`: what it keeps, what it refuses, and that the old files stay."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.log.epochs import (
    MemberRecord,
    forget_member,
    load_epochs,
    load_member,
    save_epochs,
)
from datatree.recovery.recover import recover
from tests.cli.commands import Result, call
from tests.cli.files.damaged_files import below, cut_short, damaged, lived
from tests.datatree.histories import LINEAGE
from zab.cli.files import recover as command
from zab.cli.main import main
from zab.host.storage.disk import RealDisk


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    # Rich breaks the lines of errors at the terminal's width.
    monkeypatch.setenv("COLUMNS", "400")

    return lambda *words: call(capsys, "recover", *words)


def test_without_force_it_says_what_would_be_and_changes_nothing(zab: Callable[..., Result], tmp_path: Path) -> None:
    author = lived(tmp_path, clean=False)
    before = below(tmp_path)
    done = zab(tmp_path)
    assert done.code == 0
    assert done.err == f"nothing was changed: zab recover --force {tmp_path} does it\n"
    lines = done.out.splitlines()
    tail = author.batches[-1].count
    assert lines[0] == f"member 3 of ensemble {LINEAGE.hex()}, epoch 2"
    assert lines[1].startswith(f"kept: everything up to zxid {author.last[0]:#x}, 1970-")
    assert lines[2] == f"      {author.tree.znode_count} znodes, 0 sessions"
    assert lines[3].startswith(f"      of that, {tail} transaction")
    assert f"after {author.batches[-2].zxid:#x} may not have been committed" in lines[3]
    assert lines[4].startswith(f"lost: whatever others had after {author.last[0]:#x}")
    assert below(tmp_path) == before


@pytest.mark.parametrize("clean", [True, False])
def test_the_whole_history_begins_a_new_one_and_the_old_files_stay(
    zab: Callable[..., Result], tmp_path: Path, clean: bool
) -> None:
    author = lived(tmp_path, clean=clean)
    before = below(tmp_path)
    done = zab("--force", tmp_path)
    assert (done.code, done.err) == (0, "")
    zxid = 5 << 32 | 1
    old = tmp_path / f"version-1.before-{zxid:x}"
    assert f"old files: {old}" in done.out.splitlines()
    assert {f"version-1/{name}": data for name, data in below(old).items()} | {"myid": b"3\n"} == before
    assert sorted(os.listdir(tmp_path)) == ["myid", "version-1", old.name]
    disk = RealDisk(str(tmp_path))
    recovered = recover(disk, 3)
    assert (recovered.damage, recovered.problems, recovered.amnesiac) == ([], [], False)
    assert recovered.lineage != LINEAGE
    assert f"begun: ensemble {recovered.lineage.hex()} at zxid {zxid:#x}" in done.out
    assert (recovered.last[0], recovered.mark, recovered.beginning) == (zxid, zxid, zxid)
    assert load_epochs(disk) == (5, 5)
    assert recovered.tree.digest == author.tree.digest
    disk.close()
    again = zab("--force", tmp_path, "--log-dir", tmp_path)
    assert again.code == 0
    assert f"version-1.before-{6 << 32 | 1:x}" in again.out


def test_the_old_files_can_be_restored_from(zab: Callable[..., Result], tmp_path: Path) -> None:
    """Recovery as on the operations page: also without what may not have been committed."""
    member = tmp_path / "member"
    member.mkdir()
    author = lived(member, clean=False)
    assert zab("--force", member).code == 0
    old = member / f"version-1.before-{5 << 32 | 1:x}"
    for words, zxid in (([], author.batches[-2].zxid), (["--uncommitted"], author.last[0])):
        new = tmp_path / f"new{len(words)}"
        with pytest.raises(SystemExit) as ending:
            main(["restore", str(old), "--to", str(new), *words])
        assert not ending.value.code
        disk = RealDisk(str(new), lock=False)
        assert recover(disk).tree.digest == author.states[zxid][0]


def test_a_log_of_its_own_is_set_aside_too(zab: Callable[..., Result], tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    data.mkdir()
    log.mkdir()
    author = lived(data, log)
    missing = zab("--force", data)
    assert missing.code == 1
    assert "holds no history" in missing.err
    done = zab("--force", data, "--log-dir", log)
    assert done.code == 0
    old = f"version-1.before-{5 << 32 | 1:x}"
    assert any(path.name.startswith("log.") for path in (log / old).iterdir())
    disk = RealDisk(str(data), str(log))
    recovered = recover(disk, 3)
    assert (recovered.problems, recovered.tree.digest) == ([], author.tree.digest)
    disk.close()
    # Now there is a snapshot and no log: where the log is has to be said.
    unsaid = zab("--force", data)
    assert unsaid.code == 1
    assert f"say where it is with --log-dir, or --log-dir {data}" in unsaid.err
    assert zab("--force", data, "--log-dir", data).code == 0


def nothing_at_all(directory: Path) -> None:
    directory.rmdir()


def nothing(directory: Path) -> None:
    """An empty directory."""


def only_records(directory: Path) -> None:
    disk = RealDisk(str(directory))
    save_epochs(disk, 4, 2)
    disk.close()


def of_zookeeper(directory: Path) -> None:
    (directory / "version-2").mkdir()
    (directory / "version-2" / "log.100000001").touch()


def of_another_member(directory: Path) -> None:
    lived(directory)
    (directory / "myid").write_text("2\n")


def without_a_record(directory: Path) -> None:
    lived(directory)
    disk = RealDisk(str(directory))
    forget_member(disk)
    disk.close()


def without_epochs(directory: Path) -> None:
    lived(directory)
    (directory / "version-1" / "currentEpoch").write_text("2\n")


def after_an_attempt(directory: Path) -> None:
    lived(directory)
    (directory / ".restore").mkdir()


def between_two_names(directory: Path) -> None:
    lived(directory)
    (directory / "version-1").rename(directory / "version-1.before-500000001")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (nothing_at_all, "is no directory"),
        (nothing, "holds no history; a member without one is synchronized by the others"),
        (only_records, "holds no history"),
        (of_zookeeper, "is a directory of ZooKeeper; zab restore"),
        (of_another_member, "myid says 2, but the directory belongs to member 3"),
        (without_a_record, "its record or its epochs are missing. zab restore"),
        (without_epochs, "its record or its epochs are missing. zab restore"),
        (damaged, "the history is damaged: version-1/log.200000001 at offset"),
        (cut_short, "the history is damaged: version-1/committed"),
        (after_an_attempt, "an attempt left that was cut off; remove it"),
        (between_two_names, "a recovery was cut off: rename"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_changes_nothing(
    zab: Callable[..., Result], tmp_path: Path, prepare: Callable[[Path], None], reason: str
) -> None:
    member = tmp_path / "member"
    member.mkdir()
    prepare(member)
    before = below(tmp_path)
    done = zab("--force", member)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("zab: ")
    *problems, last = done.err.splitlines()
    assert reason in last
    assert all(": its checksum does not match; " in problem for problem in problems)
    assert below(tmp_path) == before


def test_the_directory_of_a_running_member_is_refused(zab: Callable[..., Result], tmp_path: Path) -> None:
    lived(tmp_path)
    disk = RealDisk(str(tmp_path))
    done = zab("--force", tmp_path)
    disk.close()
    assert (done.code, done.out) == (1, "")
    assert done.err == f"zab: a member runs on {tmp_path}; stop it first\n"
    assert zab("--force", tmp_path).code == 0


def test_the_directory_inside_is_not_the_data_directory(zab: Callable[..., Result], tmp_path: Path) -> None:
    lived(tmp_path)
    assert zab(tmp_path / "version-1").err == f"zab: name the data directory, {tmp_path}\n"


@pytest.mark.parametrize("failing", ["write", "name"])
def test_a_failure_on_the_way_leaves_the_old_history_in_its_place(
    zab: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    lived(tmp_path)
    before = below(tmp_path)
    rename = os.rename

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x"))

    def fail_from_aside(old: Path, new: Path) -> None:
        if str(new) == str(tmp_path / "version-1") and ".restore" in str(old):
            full()
        rename(old, new)

    if failing == "write":
        monkeypatch.setattr(command, "begin_history", full)
    else:
        monkeypatch.setattr(os, "rename", fail_from_aside)
    done = zab("--force", tmp_path)
    assert done.code == 1
    assert done.err == f"zab: {tmp_path}/x: No space left on device\n"
    assert below(tmp_path) == before
    assert load_member(RealDisk(str(tmp_path), lock=False)) == MemberRecord(LINEAGE, 3)
