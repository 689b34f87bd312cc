"""A disk that is full at any step of a restore leaves the state before or the one that was given, and no leftovers (B8
restored members)."""

from __future__ import annotations

import errno
from itertools import count

import pytest

from datatree.log.epochs import load_epochs, load_member
from datatree.recovery.recover import recover
from datatree.recovery.restoring import BEFORE, RESTORED, drop_foreign, stage, take_staged
from tests.datatree.histories import LINEAGE, Author
from tests.datatree.recovery.restoring import given, is_old, lineage_of, start
from zab.simulator.world.disk import FaultyDisk


def members_files(disk: FaultyDisk) -> set[str]:
    """Its bytes, without what a start has removed."""
    recover(disk, 1)
    return {path for path in disk.image() if not path.startswith(BEFORE)}


def room(disk: FaultyDisk, count_bytes: int | None) -> None:
    """So many bytes are free from now on; None: as many as anybody wants."""
    free = 1 << 40 if count_bytes is None else count_bytes
    disk.capacity_bytes += free - disk.free_bytes()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_while_it_is_staged_leaves_what_was_there(error: int) -> None:
    for point in count(1):
        author = Author()
        disk, path = given(author)
        before = set(disk.image()) - {path}
        disk.fail_after(point, error)
        try:
            stage(disk, path, lineage_of(disk))
        except OSError:
            assert disk.exists(path)
            disk.fail_after(None)
        else:
            break
        assert start(disk) is None, point
        assert is_old(disk, author), point
        assert members_files(disk) == before, point
    assert point > 5


def test_a_disk_that_is_full_while_it_is_staged_leaves_what_was_there() -> None:
    refused = 0
    for free in count(0, 97):
        author = Author()
        disk, path = given(author)
        before = set(disk.image()) - {path}
        room(disk, free)
        try:
            stage(disk, path, lineage_of(disk))
        except OSError:
            assert disk.exists(path)
            refused += 1
        else:
            break
        assert start(disk) is None, free
        assert is_old(disk, author), free
        assert members_files(disk) == before, free
    assert refused


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_start_that_the_disk_fails_is_gone_on_with_by_the_next(error: int) -> None:
    for point in count(1):
        author = Author()
        disk, path = given(author, accepted=7)
        staged = stage(disk, path, lineage_of(disk))
        disk.fail_after(point, error)
        is_over = False
        try:
            start(disk)
            is_over = True
        except OSError:
            disk.fail_after(None)
            start(disk)
        disk.fail_after(None)
        goes_on_with_what_was_given(disk, author, staged.lineage)
        if is_over:
            break
    assert point > 10


def test_a_start_on_a_full_disk_is_gone_on_with_once_there_is_room() -> None:
    refused = 0
    for free in count(0, 7):
        author = Author()
        disk, path = given(author, accepted=7)
        staged = stage(disk, path, lineage_of(disk))
        room(disk, free)
        try:
            start(disk)
        except OSError:
            refused += 1
            # And again, as a supervisor does it.
            with pytest.raises(OSError, match="No space left"):
                start(disk)
            room(disk, None)
            start(disk)
            goes_on_with_what_was_given(disk, author, staged.lineage)
        else:
            goes_on_with_what_was_given(disk, author, staged.lineage)
            break
    assert refused


@pytest.mark.parametrize("is_removed", [True, False])
def test_where_what_was_promised_of_epochs_cannot_be_read_it_is_not_gone_on_with(is_removed: bool) -> None:
    """It ran, and so had no reason to read it. In the history that was restored it would count, and promise less."""
    disk, path = given(Author(), accepted=7)
    stage(disk, path, lineage_of(disk))
    if is_removed:
        disk.remove("version-1/acceptedEpoch")
    else:
        disk.flip("version-1/acceptedEpoch", 3)
    assert drop_foreign(disk)
    assert take_staged(disk, 1) is None
    recovered = recover(disk, 1)
    assert recovered.amnesiac
    assert recovered.lineage == LINEAGE


def goes_on_with_what_was_given(disk: FaultyDisk, author: Author, lineage: bytes) -> None:
    recovered = recover(disk, 1)
    assert (recovered.amnesiac, recovered.damage, recovered.problems) == (False, [], [])
    assert recovered.lineage == lineage
    assert load_epochs(disk)[0] == 7, "a promise is never lost"
    member = load_member(disk)
    assert member is not None
    assert member.lineage == lineage
    names = members_files(disk)
    assert not [name for name in names if name.startswith(RESTORED) or "stagedOf" in name or name.endswith(".tmp")]
    before = BEFORE + lineage.hex()
    old = FaultyDisk()
    for name in disk.list(before):
        old.replace(f"version-1/{name}", disk.read(f"{before}/{name}"))
    assert recover(old, 1).last == author.last
