"""`zab fsck`: what is wrong with the files of a member, and what will happen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from datatree.recovery.recover import recover
from datatree.recovery.restoring import RESTORED, stage, take_staged
from datatree.snapshot import SnapshotError, snapshot_path
from tests.cli.commands import Result, call
from tests.cli.files.damaged_files import below, cut_short, damaged, lived
from tests.datatree.histories import LINEAGE, snapshot
from tests.tidy.sources import ROOT
from zab.host.storage.disk import RealDisk

Zab = Callable[..., Result]


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str]) -> Zab:
    return lambda *words: call(capsys, "fsck", *words)


def older_log_damaged(directory: Path) -> None:
    """Below a snapshot."""
    author = lived(directory)
    disk = RealDisk(str(directory))
    snapshot(disk, author.tree, author.last[1])  # type: ignore[arg-type]
    disk.close()
    flip(directory / "version-1" / f"log.{author.batches[0].first:x}", 200)


def snapshot_damaged(directory: Path) -> None:
    author = lived(directory)
    disk = RealDisk(str(directory))
    path = snapshot(disk, author.tree, author.last[1])  # type: ignore[arg-type]
    disk.close()
    flip(directory / path, 100)


def record_damaged(directory: Path) -> None:
    lived(directory)
    flip(directory / "version-1" / "currentEpoch", 0)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_what_is_whole_is_called_that(zab: Zab, tmp_path: Path) -> None:
    author = lived(tmp_path)
    before = below(tmp_path)
    done = zab(tmp_path)
    assert done.code == 0
    assert f"history up to zxid {author.last[0]:#x}, " in done.out
    assert done.out.splitlines()[-1] == "whole"
    assert below(tmp_path) == before


def test_what_it_was_given_and_has_not_begun_with_is_said(zab: Zab, tmp_path: Path) -> None:
    author = lived(tmp_path)
    disk = RealDisk(str(tmp_path))
    staged = stage(disk, snapshot(disk, author.tree, author.last[1]), LINEAGE)  # type: ignore[arg-type]
    disk.close()
    path = snapshot_path(staged.zxid, RESTORED)
    done = zab(tmp_path)
    assert done.out.splitlines()[-1] == (
        f"at its next start it sets all of this aside, and goes on with {path}, which was restored"
    )
    for spoil in (lambda: flip(tmp_path / path, 100), lambda: (tmp_path / path).write_bytes(b"")):
        spoil()
        done = zab(tmp_path)
        assert done.code == 1
        assert f"damage: {path} at offset " in done.out
        assert f"history up to zxid {author.last[0]:#x}, " in done.out
        assert done.out.splitlines()[-1] == (
            "its next start ends with exit code 3: what was restored cannot be read; remove it, and give it again"
        )
        disk = RealDisk(str(tmp_path))
        with pytest.raises(SnapshotError):
            take_staged(disk, 3)
        disk.close()
    (tmp_path / path).unlink()
    assert zab(tmp_path).out.splitlines()[-1] == "whole"


class _CutOffError(Exception):
    """The power is gone."""


class _CutOffDisk(RealDisk):
    """Loses its power at a change of names."""

    left = 0

    def rename(self, old: str, new: str) -> None:
        self._spend()
        super().rename(old, new)

    def replace(self, path: str, data: bytes) -> None:
        self._spend()
        super().replace(path, data)

    def remove(self, path: str) -> None:
        self._spend()
        super().remove(path)

    def _spend(self) -> None:
        if not self.left:
            raise _CutOffError
        self.left -= 1


def test_a_restore_that_is_cut_off_at_any_step_is_told_as_the_next_start_ends_it(zab: Zab, tmp_path: Path) -> None:
    verdicts = []
    for number in count():
        directory = tmp_path / str(number)
        directory.mkdir()
        author = lived(directory)
        disk = _CutOffDisk(str(directory))
        disk.left = 1000
        staged = stage(disk, snapshot(disk, author.tree, author.last[1]), LINEAGE)  # type: ignore[arg-type]
        disk.left = number
        with suppress(_CutOffError):
            take_staged(disk, 3)
        is_done = bool(disk.left)
        disk.close()
        before = below(directory)
        done = zab(directory)
        assert (done.code, done.err) == (0, ""), done.err
        assert below(directory) == before
        lineage, until, verdict = done.out.splitlines()
        verdicts.append(re.sub("before-[0-9a-f]+", "before-…", verdict))
        [member] = map(json.loads, zab("--json", directory).out.splitlines())
        assert (member["is_whole"], member["verdict"]) == (True, verdict)
        disk = RealDisk(str(directory))
        take_staged(disk, 3)
        found = recover(disk, 3)
        disk.close()
        if "sets all of this aside" in verdict:
            assert lineage == f"ensemble {LINEAGE.hex()}"
            assert f"history up to zxid {author.last[0]:#x}, " in until
        else:
            assert lineage == f"ensemble {found.lineage.hex()}"
            assert until == f"history up to zxid {found.last[0]:#x}, {found.tree.znode_count} znodes at {found.mark:#x}"
        assert found.last[0] == staged.zxid
        assert (found.lineage, found.damage) == (staged.lineage, [])
        if is_done:
            break
    path = snapshot_path(staged.zxid, RESTORED)
    goes_on = f"goes on with {path}, which was restored"
    assert list(dict.fromkeys(verdicts)) == [
        f"at its next start it sets all of this aside, and {goes_on}",
        f"at its next start it sets aside what is left here, beside version-1.before-…, and {goes_on}",
        "whole",
    ]


def test_what_a_cut_off_restore_is_to_go_on_with_may_be_damaged(zab: Zab, tmp_path: Path) -> None:
    author = lived(tmp_path)
    disk = _CutOffDisk(str(tmp_path))
    disk.left = 1000
    staged = stage(disk, snapshot(disk, author.tree, author.last[1]), LINEAGE)  # type: ignore[arg-type]
    disk.left = 3
    with pytest.raises(_CutOffError):
        take_staged(disk, 3)
    disk.close()
    flip(tmp_path / snapshot_path(staged.zxid, RESTORED), 100)
    done = zab(tmp_path)
    assert done.code == 1
    [finding] = done.out.splitlines()[2:-1]
    assert finding.startswith(f"damage: {snapshot_path(staged.zxid, RESTORED)} at offset ")
    assert done.out.splitlines()[-1].endswith(
        "; that is damaged, so it counts for nothing until the others have synchronized it"
    )
    disk = RealDisk(str(tmp_path))
    take_staged(disk, 3)
    found = recover(disk, 3)
    disk.close()
    assert found.amnesiac
    assert found.damage


@pytest.mark.parametrize(
    ("prepare", "kind", "path", "verdict"),
    [
        (
            damaged,
            "damage",
            "version-1/log.200000001",
            "or, without a quorum of others, until any of them has filled the hole after 0x0, and what is there",
        ),
        (
            cut_short,
            "damage",
            "version-1/committed",
            "it counts for nothing until the others have synchronized it, and",
        ),
        (older_log_damaged, "problem", "version-1/log.200000001", "it goes on: nothing depends on what is named here"),
        (snapshot_damaged, "problem", "version-1/snapshot.", "it goes on: nothing depends on what is named here"),
        (record_damaged, "record", "version-1/currentEpoch", "a record is missing"),
    ],
)
def test_what_is_wrong_is_named_with_what_will_happen_and_nothing_is_changed(
    zab: Zab, tmp_path: Path, prepare: Callable[[Path], None], kind: str, path: str, verdict: str
) -> None:
    prepare(tmp_path)
    before = below(tmp_path)
    done = zab(tmp_path)
    assert done.code == 1
    findings, last = done.out.splitlines()[2:-1], done.out.splitlines()[-1]
    assert len(findings) == 1
    assert findings[0].startswith(f"{kind}: {path}")
    assert verdict in last
    assert below(tmp_path) == before
    *objects, member = map(json.loads, zab("--json", tmp_path).out.splitlines())
    assert [each["type"] for each in objects] == [kind]
    assert member["verdict"] == last
    assert member["is_damaged"] is (kind == "damage")


def test_the_example_of_the_page_is_what_is_printed(zab: Zab, tmp_path: Path) -> None:
    damaged(tmp_path)
    page = (ROOT / "docs" / "how-to" / "recover.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^\$ zab fsck /var/lib/zab\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown, said = (re.sub(r"[0-9a-f]{8,32}|\d+", "#", text) for text in (example, zab(tmp_path).out))
    *shown_lines, shown_last = shown.splitlines()
    *lines, last = said.splitlines()
    assert lines == shown_lines
    assert last.startswith(shown_last.removesuffix("…"))


def test_a_directory_without_a_history_and_a_running_member_are_refused(zab: Zab, tmp_path: Path) -> None:
    assert "holds no history" in zab(tmp_path).err
    assert "there is no such directory" in zab(tmp_path / "typo").err
    lived(tmp_path)
    disk = RealDisk(str(tmp_path))
    try:
        done = zab(tmp_path)
    finally:
        disk.close()
    assert done.code == 1
    assert "a member runs on" in done.err


def test_the_logs_of_a_member_alone_say_nothing_of_it(zab: Zab, tmp_path: Path) -> None:
    """A separate dataLogDir: its member is whole, and has its records elsewhere."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    disk = RealDisk(str(data), str(logs))
    disk.close()
    lived(data)
    for file in (data / "version-1").glob("log.*"):
        file.rename(logs / "version-1" / file.name)
    done = zab(logs)
    assert done.code == 1
    assert done.err == f"zab: {logs} has logs alone: name its dataDir, too, and this directory with --log-dir\n"
    assert zab(data, "--log-dir", logs).out.endswith("whole\n")


def test_records_that_are_lost_beside_a_snapshot_or_an_id_are_damage(zab: Zab, tmp_path: Path) -> None:
    lived(tmp_path)
    for name in ("acceptedEpoch", "currentEpoch", "member", "committed"):
        (tmp_path / "version-1" / name).unlink(missing_ok=True)
    (tmp_path / "myid").write_text("1\n")
    assert "a record is missing" in zab(tmp_path).out
