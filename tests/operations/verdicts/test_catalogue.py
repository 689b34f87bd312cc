"""The catalogue of backups, and what retention lets go: no file that a kept backup needs, never the newest backup."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.operations.verdicts.catalogue import Backup, BackupFile, Catalogue, CatalogueError, kept, needed, pruned

HOUR_MS = 3_600_000


def snapshot(zxid: int) -> BackupFile:
    return BackupFile(f"version-1/snapshot.{zxid:x}", 1, "a", None, zxid)


def log(before: int, last: int) -> BackupFile:
    return BackupFile(f"version-1/log.{before + 1:x}", 1, "b", before, last)


def backup(zxid: int, base: int, hours: int) -> Backup:
    return Backup(zxid, hours * HOUR_MS, base, 1, 2, 3, "m")


CATALOGUE = Catalogue(
    "00" * 16,
    50,
    "11" * 16,
    (backup(10, 10, 0), backup(20, 10, 1), backup(30, 10, 2), backup(40, 35, 3), backup(50, 35, 4)),
    (snapshot(10), log(10, 20), log(20, 30), snapshot(35), log(30, 40), log(40, 50)),
)


def names(catalogue: Catalogue, at: int) -> list[str]:
    return [each.name.removeprefix("version-1/") for each in needed(catalogue, catalogue.backups[at])]


def test_what_a_backup_is_made_of() -> None:
    assert names(CATALOGUE, 0) == ["snapshot.a"]
    assert names(CATALOGUE, 2) == ["snapshot.a", "log.b", "log.15"]
    assert names(CATALOGUE, 3) == ["snapshot.23", "log.1f"], "it begins below the snapshot, and goes on after it"


def test_it_is_read_as_it_was_written_and_no_other_way() -> None:
    data = CATALOGUE.dump()
    assert Catalogue.load(data) == CATALOGUE
    for at in range(0, len(data) - 2, 7):
        with pytest.raises(CatalogueError):
            Catalogue.load(data[:at])
    changed = json.loads(data)
    changed["files"][0]["size"] = 2
    with pytest.raises(CatalogueError, match="checksum"):
        Catalogue.load(json.dumps(changed).encode())
    with pytest.raises(CatalogueError, match="format 2"):
        Catalogue.load(json.dumps({**json.loads(data), "format": 2}).encode())
    for wrong in (b"[]", b"{}", b"\xff", b"1"):
        with pytest.raises(CatalogueError):
            Catalogue.load(wrong)


def test_retention_by_number_and_by_age() -> None:
    def zxids(now_hours: int, count: int | None, hours: int | None) -> list[int]:
        for_ms = None if hours is None else hours * HOUR_MS
        return [each.zxid for each in kept(CATALOGUE, now_hours * HOUR_MS, count=count, for_ms=for_ms)]

    assert zxids(4, None, None) == [10, 20, 30, 40, 50]
    assert zxids(4, 2, None) == [40, 50]
    assert zxids(4, None, 2) == [30, 40, 50]
    assert zxids(4, 1, 2) == [30, 40, 50]
    assert zxids(4, 4, 1) == [20, 30, 40, 50]
    assert zxids(400, None, 1) == [50], "the newest stays however old it is"


def test_files_go_with_the_last_backup_that_needs_them() -> None:
    left = pruned(CATALOGUE, CATALOGUE.backups[3:])
    assert [each.name for each in left.files] == [each.name for each in (snapshot(35), log(30, 40), log(40, 50))]
    # The middle one alone: what is between it and its snapshot stays, too.
    assert len(pruned(CATALOGUE, CATALOGUE.backups[2:3]).files) == 3
    with pytest.raises(AssertionError):
        pruned(CATALOGUE, ())


@given(st.data(), st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=12))
def test_no_kept_backup_lacks_a_file(data: st.DataObject, steps: list[tuple[int, bool]]) -> None:
    """Any history of backups, each with a snapshot or without, pruned again and again."""
    catalogue = Catalogue("00" * 16, 0, "", (), (snapshot(0),))
    for number, (grown, full) in enumerate(steps):
        end = catalogue.end + grown
        files = (*catalogue.files, log(catalogue.end, end), *((snapshot(end - 1),) if full else ()))
        catalogue = attrs.evolve(catalogue, end=end, files=files)
        base = catalogue.snapshot_of(end)
        assert base is not None
        catalogue = attrs.evolve(catalogue, backups=(*catalogue.backups, backup(end, base.last, number)))
        before = catalogue
        count = data.draw(st.integers(1, 4))
        catalogue = pruned(catalogue, kept(catalogue, number * HOUR_MS, count=count, for_ms=None))
        assert catalogue.backups == before.backups[-count:]
        for each in catalogue.backups:
            assert needed(catalogue, each) == needed(before, each)
            place = each.snapshot
            for file in sorted(
                (one for one in needed(catalogue, each) if not one.is_snapshot), key=lambda one: one.last
            ):
                assert file.before is not None
                assert file.before <= place
                place = file.last
            assert place >= each.zxid
