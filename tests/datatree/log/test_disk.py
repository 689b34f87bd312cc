"""The two disks: what both have to do, what the simulated one loses, and what the real one holds on to."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from datatree.log.disk import Disk
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.recovery.recover import recover
from tests.datatree.histories import LINEAGE, START, Author, held, raws, snapshot, synchronized
from zab.host.storage.disk import DirectoryInUseError, RealDisk
from zab.simulator.world.disk import FaultyDisk, PowerLossError

D = "version-1/"
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["simulated", "real", "real, two directories"])
def disk(request, tmp_path):
    if request.param == "simulated":
        yield FaultyDisk()
        return
    log_directory = str(tmp_path / "logs") if "two" in request.param else None
    real = RealDisk(str(tmp_path / "data"), log_directory)
    yield real
    real.close()


def names(disk: Disk) -> list[str]:
    return [name for name in disk.list("version-1") if name != "lock"]


# Both.


def test_what_is_written_reads_back(disk):
    file = disk.open_append(D + "log.1", create=True)
    file.write(b"one")
    file.write_durable(b"two")
    file.sync()
    assert file.size == disk.size(D + "log.1") == 6
    file.close()
    assert disk.read(D + "log.1") == b"onetwo"
    assert disk.read(D + "log.1", 2) == b"etwo"
    assert disk.read(D + "log.1", 2, 2) == b"et"
    assert disk.read(D + "log.1", 5, 100) == b"o"
    assert disk.read(D + "log.1", 50, 100) == b""


def test_create_is_exclusive_and_open_needs_the_file(disk):
    disk.open_append(D + "log.1", create=True).close()
    with pytest.raises(FileExistsError):
        disk.open_append(D + "log.1", create=True)
    with pytest.raises(FileNotFoundError):
        disk.open_append(D + "log.2", create=False)


def test_writing_begins_at_the_offset(disk):
    disk.replace(D + "log.1", b"0123456789")
    file = disk.open_append(D + "log.1", create=False, offset=4)
    file.write_durable(b"xx")
    assert disk.read(D + "log.1") == b"0123xx6789"
    file.close()
    assert disk.read(D + "log.1") == b"0123xx"


def test_preallocated_space_reads_as_zeros_and_is_given_back(disk):
    disk.replace(D + "log.spare", b"what was there")
    disk.preallocate(D + "log.spare", 5000)
    assert disk.read(D + "log.spare") == bytes(5000)
    disk.rename(D + "log.spare", D + "log.1")
    file = disk.open_append(D + "log.1", create=False)
    file.write_durable(b"frame")
    assert disk.size(D + "log.1") == 5000
    file.close()
    assert disk.read(D + "log.1") == b"frame"


def test_replace_rename_remove_truncate_list(disk):
    assert names(disk) == []
    disk.replace(D + "snapshot.a", b"old")
    disk.replace(D + "snapshot.a", b"new")
    disk.replace(D + "log.b", b"12345")
    assert names(disk) == ["log.b", "snapshot.a"]
    assert disk.read(D + "snapshot.a") == b"new"
    disk.truncate(D + "log.b", 2)
    assert disk.read(D + "log.b") == b"12"
    disk.replace(D + "log.c", b"c")
    disk.rename(D + "log.b", D + "log.c")
    assert disk.read(D + "log.c") == b"12"
    assert not disk.exists(D + "log.b")
    disk.remove(D + "snapshot.a")
    disk.sync_directory("version-1")
    assert names(disk) == ["log.c"]
    for use in (
        lambda: disk.read(D + "x"),
        lambda: disk.remove(D + "x"),
        lambda: disk.rename(D + "x", D + "y"),
        lambda: disk.truncate(D + "x", 1),
        lambda: disk.size(D + "x"),
    ):
        with pytest.raises(FileNotFoundError):
            use()


def test_directories_come_with_their_files_are_renamed_and_go(disk):
    assert [name for name in disk.directories() if name != "version-1"] == []
    disk.open_append("a-0/0", create=True).write_durable(b"a")
    disk.replace("b-0/0", b"b")
    assert [name for name in disk.directories() if name != "version-1"] == ["a-0", "b-0"]
    disk.rename_directory("a-0", "a-0.x-delete")
    assert disk.read("a-0.x-delete/0") == b"a"
    assert disk.list("a-0") == []
    with pytest.raises(FileNotFoundError):
        disk.read("a-0/0")
    disk.open_append("a-0/0", create=True).close()
    with pytest.raises(OSError):
        disk.rename_directory("a-0", "b-0")
    disk.remove_directory("a-0.x-delete")
    disk.remove_directory("a-0.x-delete")
    assert [name for name in disk.directories() if name != "version-1"] == ["a-0", "b-0"]


def test_overwrite_stays_in_place_until_the_file_is_another(disk):
    disk.overwrite(D + "committed", b"aaaa")
    disk.overwrite(D + "committed", b"bb")
    assert disk.read(D + "committed") == b"bbaa"
    disk.replace(D + "committed", b"other")
    disk.overwrite(D + "committed", b"X")
    assert disk.read(D + "committed") == b"Xther"
    disk.remove(D + "committed")
    disk.overwrite(D + "committed", b"new")
    assert disk.read(D + "committed") == b"new"
    assert disk.free_bytes() > 0


def test_a_log_and_a_snapshot_live_on_it(disk):
    author = Author()
    synchronized(disk)
    log = TransactionLog(disk, LogContents(LINEAGE, [], START, 0), segment_bytes=2000)
    log.preallocate()
    for _ in range(20):
        log.append(author.write(2))
    log.set_mark(author.last[0])
    snapshot(disk, author.tree, author.last[1])
    log.append(author.write(1))
    log.close()
    recovered = recover(disk)
    assert recovered.last == author.last
    assert recovered.snapshot_zxid == author.batches[-2].zxid
    assert not recovered.problems
    assert held(TransactionLog(disk, recovered.log)) == raws(author.batches)


# The simulated one.


def test_only_what_was_synced_survives_when_nothing_else_does():
    outcomes = set()
    for seed in range(60):
        disk = FaultyDisk()
        file = disk.open_append(D + "f", create=True)
        file.write_durable(b"a" * 700)
        disk.sync_directory("version-1")
        file.write(b"b" * 1500)
        disk.crash(Random(seed))
        data = disk.read(D + "f")
        assert data[:700] == b"a" * 700
        assert set(data[700:]) <= {0, ord("b")}
        outcomes.add((len(data), data.count(b"b")))
    assert (700, 0) in outcomes
    assert (2200, 1500) in outcomes
    assert any(size == 2200 and 0 < count < 1500 for size, count in outcomes), "a lost sector in the middle"
    assert any(700 < size < 2200 for size, _ in outcomes), "a torn end"


def test_names_that_were_not_synced_may_vanish_or_come_back():
    seen = set()
    for seed in range(60):
        disk = FaultyDisk()
        disk.replace(D + "old", b"1")
        disk.replace(D + "gone", b"2")
        disk.open_append(D + "new", create=True).write_durable(b"3")
        disk.remove(D + "gone")
        disk.rename(D + "old", D + "renamed")
        disk.crash(Random(seed))
        left = names(disk)
        assert ("old" in left) != ("renamed" in left)
        seen.add(tuple(left))
    assert len(seen) == 8


def test_renamed_directory_keeps_its_name_and_what_was_not_synced_in_it_may_vanish():
    seen = set()
    for seed in range(40):
        disk = FaultyDisk()
        disk.replace("a-0/old", b"1")
        disk.open_append("a-0/new", create=True).write_durable(b"2")
        disk.rename_directory("a-0", "b-0")
        disk.remove("b-0/old")
        disk.crash(Random(seed))
        assert disk.directories() in (["b-0"], [])
        seen.add(tuple(disk.list("b-0")))
    assert seen == {(), ("old",), ("new",), ("new", "old")}


def test_renaming_of_a_directory_is_all_or_nothing():
    seen = set()
    for seed in range(20):
        disk = FaultyDisk()
        for name in ("x", "y"):
            disk.replace(f"a-0/{name}", b"1")
        disk.crash_after(1)
        with pytest.raises(PowerLossError):
            disk.rename_directory("a-0", "b-0")
        disk.crash(Random(seed))
        seen.add((*disk.list("a-0"), *disk.directories()))
    assert seen == {("x", "y", "a-0"), ("b-0",)}


def test_failed_sync_loses_the_pages_for_good():
    """A second sync after a failed one proves nothing."""
    for seed in range(20):
        disk = FaultyDisk()
        file = disk.open_append(D + "f", create=True)
        disk.sync_directory("version-1")
        file.write(b"x" * 100)
        disk.fail_after(1)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.sync()
        assert disk.read(D + "f") == b"x" * 100
        disk.crash(Random(seed))
        assert disk.read(D + "f") == bytes(100)


def test_killed_process_loses_nothing_and_makes_nothing_durable():
    disk = FaultyDisk()
    file = disk.open_append(D + "f", create=True)
    file.write(b"x")
    disk.kill()
    assert disk.read(D + "f") == b"x"
    with pytest.raises(AssertionError, match="before the crash"):
        file.write(b"y")
    outcomes = set()
    for seed in range(20):
        again = FaultyDisk()
        again.open_append(D + "f", create=True).write(b"x")
        again.kill()
        again.crash(Random(seed))
        outcomes.add(again.exists(D + "f"))
    assert outcomes == {True, False}


def test_full_disk_takes_what_fits():
    disk = FaultyDisk(capacity_bytes=1000)
    file = disk.open_append(D + "f", create=True)
    file.write(b"x" * 600)
    with pytest.raises(OSError, match="No space") as raised:
        file.write(b"y" * 600)
    assert raised.value.errno == errno.ENOSPC
    assert disk.size(D + "f") == 1000
    assert disk.free_bytes() == 0
    disk.remove(D + "f")
    assert disk.free_bytes() == 1000


def test_same_seed_same_outcome():
    def run() -> dict[str, bytes]:
        disk, rng = FaultyDisk(), Random(42)
        for number in range(20):
            file = disk.open_append(f"{D}f{number}", create=True)
            file.write(rng.randbytes(2000))
            if rng.random() < 0.3:
                disk.sync_directory("version-1")
        disk.crash(rng)
        return {name: disk.read(D + name) for name in names(disk)}

    assert run() == run()


def test_power_stays_off_until_the_crash():
    disk = FaultyDisk()
    disk.crash_after(2)
    disk.overwrite(D + "a", b"1")
    for _ in range(2):
        with pytest.raises(PowerLossError):
            disk.overwrite(D + "a", b"2")
    disk.crash(Random(0))
    disk.overwrite(D + "a", b"3")
    assert disk.read(D + "a") == b"3"


def test_unreadable_file():
    disk = FaultyDisk()
    disk.replace(D + "f", b"x")
    disk.fail_reads(D + "f")
    with pytest.raises(OSError, match="Input/output"):
        disk.read(D + "f")
    disk.fail_reads(D + "f", None)
    assert disk.read(D + "f") == b"x"


# The real one.


def test_two_disks_on_one_directory_are_refused(tmp_path):
    first = RealDisk(str(tmp_path))
    with pytest.raises(DirectoryInUseError, match="another process uses this data directory"):
        RealDisk(str(tmp_path))
    first.replace(D + "member", b"x")
    reader = RealDisk(str(tmp_path), lock=False)
    assert reader.read(D + "member") == b"x"
    reader.close()
    first.close()
    RealDisk(str(tmp_path)).close()


def test_lock_file_of_another_layout(tmp_path):
    first = RealDisk(str(tmp_path / "data"), lock_file=".lock")
    with pytest.raises(DirectoryInUseError):
        RealDisk(str(tmp_path / "data"), lock_file=".lock")
    assert os.listdir(tmp_path / "data") == [".lock"]
    assert first.directories() == []
    first.close()


def test_lock_of_the_log_directory_is_taken_too(tmp_path):
    first = RealDisk(str(tmp_path / "one"), str(tmp_path / "logs"))
    with pytest.raises(DirectoryInUseError):
        RealDisk(str(tmp_path / "two"), str(tmp_path / "logs"))
    first.close()


def test_logs_go_to_the_log_directory(tmp_path):
    disk = RealDisk(str(tmp_path / "data"), str(tmp_path / "logs"))
    disk.replace(D + "log.1", b"x")
    disk.replace(D + "snapshot.1", b"x")
    disk.close()
    assert sorted(os.listdir(tmp_path / "data" / "version-1")) == ["lock", "snapshot.1"]
    assert sorted(os.listdir(tmp_path / "logs" / "version-1")) == ["lock", "log.1"]


def test_preallocated_blocks_are_real(tmp_path):
    disk = RealDisk(str(tmp_path))
    disk.preallocate(D + "log.spare", 1 << 20)
    disk.close()
    assert os.stat(tmp_path / D / "log.spare").st_blocks * 512 >= 1 << 20


def test_disk_that_only_reads_makes_nothing(tmp_path):
    disk = RealDisk(str(tmp_path / "absent"), lock=False)
    assert disk.list("version-1") == []
    assert not (tmp_path / "absent").exists()


@pytest.mark.slow
def test_killed_process_loses_no_append_that_returned(tmp_path):
    """A real process, killed with no warning; every zxid it printed had been made durable."""
    program = f"""
from datatree.log.transaction_log import LogContents, TransactionLog
from tests.datatree.histories import LINEAGE, START, Author, synchronized
from zab.host.storage.disk import RealDisk
disk = RealDisk({str(tmp_path)!r})
synchronized(disk)
author, log = Author(), TransactionLog(disk, LogContents(LINEAGE, [], START, 0), segment_bytes=4000)
while True:
    log.append(author.write(3))
    print(log.last[0], log.last[1].hex(), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(40)]
        process.kill()
        lines += process.stdout.readlines()
    zxid, chain = next(line for line in reversed(lines) if line.endswith("\n")).split()
    disk = RealDisk(str(tmp_path))
    recovered = recover(disk)
    assert not recovered.damage
    assert TransactionLog(disk, recovered.log).floor(int(zxid)) == (int(zxid), bytes.fromhex(chain))
    disk.close()
