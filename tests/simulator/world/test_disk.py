"""The disk that loses what was not promised, and nothing else."""

import errno
from random import Random

import pytest

from zab.simulator.world.disk import SECTOR_BYTES, FaultyDisk, PowerLossError

DIRECTORY = "d"
FILE = "d/file"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def made(disk: FaultyDisk, data: bytes) -> None:
    """A file that is there for good, with this content."""
    disk.replace(FILE, data)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_durable_survives_the_power(disk: FaultyDisk, seed: int) -> None:
    file = disk.open_append(FILE, create=True)
    disk.sync_directory(DIRECTORY)
    file.write_durable(b"one")
    file.write(b"two")
    file.sync()
    file.write(b"three")
    disk.crash(Random(seed))
    assert disk.read(FILE).startswith(b"onetwo")


def test_what_is_not_synced_may_be_lost_torn_or_kept(disk: FaultyDisk) -> None:
    found = set()
    for seed in range(60):
        disk = FaultyDisk()
        made(disk, b"")
        disk.open_append(FILE, create=False).write(b"x" * 3 * SECTOR_BYTES)
        disk.crash(Random(seed))
        found.add(disk.read(FILE))
    assert b"" in found
    assert b"x" * 3 * SECTOR_BYTES in found
    assert any(b"\0" in data and b"x" in data for data in found), "sectors are lost one by one"


def test_a_name_survives_only_with_its_directory(disk: FaultyDisk) -> None:
    survived = set()
    for seed in range(30):
        disk = FaultyDisk()
        file = disk.open_append(FILE, create=True)
        file.write_durable(b"data")
        disk.crash(Random(seed))
        survived.add(disk.exists(FILE))
    assert survived == {True, False}


@pytest.mark.parametrize("seed", range(20))
def test_replace_is_all_or_nothing_at_every_operation(seed: int) -> None:
    for count in range(1, 5):
        disk = FaultyDisk()
        made(disk, b"before")
        disk.crash_after(count)
        with pytest.raises(PowerLossError):
            made(disk, b"after")
        disk.crash(Random(seed))
        assert disk.read(FILE) in (b"before", b"after")


@pytest.mark.parametrize("seed", range(10))
def test_after_a_sync_that_failed_a_second_one_proves_nothing(disk: FaultyDisk, seed: int) -> None:
    made(disk, b"")
    file = disk.open_append(FILE, create=False)
    file.write(b"x" * SECTOR_BYTES)
    disk.fail_after(1)
    with pytest.raises(OSError, match="d/file"):
        file.sync()
    file.sync()
    assert disk.read(FILE) == b"x" * SECTOR_BYTES, "it reads fine"
    disk.crash(Random(seed))
    assert b"x" not in disk.read(FILE)


def test_the_end_of_the_process_alone_loses_nothing_that_was_written(disk: FaultyDisk) -> None:
    made(disk, b"")
    disk.open_append(FILE, create=False).write(b"written")
    disk.kill()
    assert disk.read(FILE) == b"written"


def test_a_file_of_an_earlier_life_cannot_be_written(disk: FaultyDisk) -> None:
    made(disk, b"")
    file = disk.open_append(FILE, create=False)
    disk.kill()
    with pytest.raises(AssertionError, match="before the crash"):
        file.write(b"late")


def test_a_full_disk_takes_what_fits(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file = disk.open_append(FILE, create=True)
    with pytest.raises(OSError) as failed:
        file.write(b"x" * 15)
    assert failed.value.errno == errno.ENOSPC
    assert disk.size(FILE) == 10
    assert disk.free_bytes() == 0


def test_a_wiped_disk_is_empty_whatever_was_on_its_way(disk: FaultyDisk) -> None:
    made(disk, b"data")
    disk.open_append("d/other", create=True).write(b"x")
    disk.rename(FILE, "d/renamed")
    disk.lose_everything()
    assert disk.list(DIRECTORY) == []


def test_the_sync_of_one_directory_is_none_of_another() -> None:
    found = set()
    for seed in range(20):
        disk = FaultyDisk()
        disk.open_append("above", create=True)
        disk.open_append(FILE, create=True)
        disk.sync_directory("")
        disk.crash(Random(seed))
        assert disk.list("") == ["above"]
        found.add(disk.exists(FILE))
    assert found == {True, False}


def test_what_an_operator_puts_back_is_there_for_good_and_nothing_else_is(disk: FaultyDisk) -> None:
    made(disk, b"before")
    image = disk.image()
    made(disk, b"after")
    disk.open_append("d/other", create=True).write(b"x")
    disk.restore(image)
    disk.crash(Random(0))
    assert disk.image() == {FILE: b"before"}
