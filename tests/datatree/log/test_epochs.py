from random import Random
from zlib import crc32

import pytest

from datatree.log.epochs import (
    MemberRecord,
    forget_member,
    load_epochs,
    load_mark,
    load_member,
    save_epochs,
    save_mark,
    save_member,
)
from zab.simulator.world.disk import FaultyDisk, PowerLossError

LINEAGE = bytes(range(16))


def test_nothing_saved_is_nothing():
    disk = FaultyDisk()
    assert load_epochs(disk) is None
    assert load_member(disk) is None
    assert load_mark(disk) is None


def test_records_read_back():
    disk = FaultyDisk()
    save_epochs(disk, 7, 5)
    save_member(disk, MemberRecord(LINEAGE, 3))
    save_mark(disk, LINEAGE, 99)
    disk.sync_directory("version-1")
    assert load_epochs(disk) == (7, 5)
    assert load_member(disk) == MemberRecord(LINEAGE, 3)
    assert load_mark(disk) == (LINEAGE, 99)


def test_a_founder_says_so_in_its_record():
    disk = FaultyDisk()
    save_member(disk, MemberRecord(LINEAGE, 3, founder=True))
    assert disk.read("version-1/member").startswith(b"000102030405060708090a0b0c0d0e0f 3 founder\n")
    assert load_member(disk) == MemberRecord(LINEAGE, 3, founder=True)
    save_member(disk, MemberRecord(LINEAGE, 3))
    assert load_member(disk) == MemberRecord(LINEAGE, 3, founder=False)


def test_files_are_as_documented():
    disk = FaultyDisk()
    save_epochs(disk, 12, 11)
    save_member(disk, MemberRecord(LINEAGE, 3))
    save_mark(disk, LINEAGE, 1 << 32)
    assert disk.read("version-1/acceptedEpoch") == b"12\n%08x\n" % crc32(b"acceptedEpoch 12")
    assert disk.read("version-1/currentEpoch").startswith(b"11\n")
    assert disk.read("version-1/member").startswith(b"000102030405060708090a0b0c0d0e0f 3\n")
    assert disk.read("version-1/committed")[:32] == b"ZMRK\0\0\0\1" + LINEAGE + (1 << 32).to_bytes(8)


@pytest.mark.parametrize("name", ["acceptedEpoch", "currentEpoch", "member", "committed"])
def test_every_flipped_bit_and_every_cut_is_noticed(name):
    disk = FaultyDisk()
    save_epochs(disk, 12, 11)
    save_member(disk, MemberRecord(LINEAGE, 3))
    save_mark(disk, LINEAGE, 77)
    path = f"version-1/{name}"
    load = {"member": load_member, "committed": load_mark}.get(name, load_epochs)
    data = disk.read(path)
    assert load(disk) is not None
    for bit in range(8 * len(data)):
        disk.flip(path, bit)
        assert load(disk) is None, bit
        disk.flip(path, bit)
    for length in range(len(data)):
        disk.replace(path, data[:length])
        assert load(disk) is None, length


def test_checksum_belongs_to_the_file():
    disk = FaultyDisk()
    save_epochs(disk, 12, 11)
    disk.rename("version-1/currentEpoch", "version-1/acceptedEpoch")
    save_epochs(disk, 20, 11)
    disk.replace("version-1/currentEpoch", disk.read("version-1/acceptedEpoch"))
    assert load_epochs(disk) is None


def test_saved_epochs_are_durable_and_never_out_of_order():
    """ZOOKEEPER-2307: acceptedEpoch is written first."""
    for point in range(1, 20):
        disk = FaultyDisk()
        save_epochs(disk, 4, 4)
        disk.crash_after(point)
        done = True
        try:
            save_epochs(disk, 6, 5)
        except PowerLossError:
            done = False
        disk.crash(Random(point))
        found = load_epochs(disk)
        assert found in ((4, 4), (6, 4), (6, 5))
        if done:
            assert found == (6, 5)
            return
    raise AssertionError("never done")


def test_unchanged_epoch_is_not_written_again():
    disk = FaultyDisk()
    save_epochs(disk, 6, 5)
    before = disk.operations
    save_epochs(disk, 6, 6)
    assert disk.operations == before + 4
    save_epochs(disk, 6, 6)
    assert disk.operations == before + 4


def test_forgotten_member_stays_forgotten():
    for seed in range(5):
        disk = FaultyDisk()
        save_member(disk, MemberRecord(LINEAGE, 3))
        forget_member(disk)
        forget_member(disk)
        disk.crash(Random(seed))
        assert load_member(disk) is None


def test_failed_save_is_raised():
    disk = FaultyDisk()
    save_epochs(disk, 1, 1)
    for point in range(1, 5):
        disk.fail_after(point)
        with pytest.raises(OSError, match="Input/output"):
            save_epochs(disk, point + 1, 1)
