"""`zab fsck`: what is wrong with the files of a member, and what will happen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.recovery.restoring import RESTORED, stage
from datatree.snapshot import snapshot_path
from tests.cli.commands import Result, call
from tests.cli.files.test_recover import below, cut_short, damaged, lived
from tests.datatree.histories import LINEAGE, snapshot
from tests.tidy.sources import ROOT
from zab.host.disk import RealDisk

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
    (tmp_path / "version-1" / "stagedOf").unlink()
    assert zab(tmp_path).out.splitlines()[-1] == "whole"


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
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
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
