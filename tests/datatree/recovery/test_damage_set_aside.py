"""What cannot be read goes into a directory beside when its history is given up, and none of it is ever removed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from datatree.log.batch import genesis
from datatree.log.epochs import load_member
from datatree.log.segment import log_path
from datatree.log.session_keys import NamedKey, save_session_keys
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import BEFORE_ALL
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from tests.datatree.histories import LINEAGE, Author, fresh_log, synchronized
from tests.datatree.recovery.damaged_log import damaged
from zab.host.storage.disk import RealDisk
from zab.member.storage.storage import Storage
from zab.protocol.effects import ResetLog
from zab.simulator.world.disk import FaultyDisk, PowerLossError

BESIDE = "version-1.damaged"


def storage_of(disk: FaultyDisk) -> tuple[Recovered, Storage]:
    recovered = recover(disk, 1)
    return recovered, Storage(disk, TransactionLog(disk, recovered.log), 1, lambda _sentence, _reason: None)


def begin_anew(storage: Storage) -> None:
    """As a leader has it done that synchronizes an amnesiac."""
    storage._reset(BEFORE_ALL, genesis(LINEAGE), LINEAGE)


def test_who_has_a_damaged_history_is_an_amnesiac_and_changes_nothing() -> None:
    disk = damaged()
    before = disk.image()
    recovered, _ = storage_of(disk)
    assert recovered.damage
    assert recovered.amnesiac
    assert not recovered.empty
    assert disk.image() == before


def test_all_of_it_goes_beside_as_it_is_when_the_history_is_begun_anew() -> None:
    disk = damaged()
    before = {path: data for path, data in disk.image().items() if "log." in path and not path.endswith(".index")}
    _, storage = storage_of(disk)
    begin_anew(storage)
    image = disk.image()
    assert {path: image[path.replace("version-1", BESIDE)] for path in before} == before
    assert not [path for path in image if path.startswith("version-1/log.")]
    again = recover(disk, 1)
    assert again.amnesiac
    assert not again.damage


def test_a_second_damage_takes_the_place_of_nothing() -> None:
    disk = damaged()
    first = disk.read(log_path(0x100000001))
    begin_anew(storage_of(disk)[1])
    for path, data in damaged().image().items():
        disk.replace(path, data)
    begin_anew(storage_of(disk)[1])
    name = f"{BESIDE}/log.100000001"
    assert disk.read(name) == first
    assert disk.exists(f"{name}.2")


def test_the_word_that_there_was_never_data_counts_for_nothing_after_that() -> None:
    disk = damaged()
    begin_anew(storage_of(disk)[1])
    disk.replace("initialize", b"")
    assert not recover(disk, 1).marked


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_operation_leaves_damage_or_an_amnesiac_and_every_byte(seed: int) -> None:
    """Never a member that counts and has less than it acknowledged."""
    logs = sorted(data for path, data in damaged(seed).image().items() if path.startswith("version-1/log.1"))
    logs = [data for data in logs if data.startswith(b"ZLOG")]
    for operation in range(1, 1000):
        disk = damaged(seed)
        _, storage = storage_of(disk)
        disk.crash_after(operation)
        try:
            begin_anew(storage)
        except PowerLossError:
            disk.crash(Random(operation))
        else:
            assert operation > 10
            return
        assert sorted(data for data in disk.image().values() if data.startswith(b"ZLOG")) == logs
        recovered = recover(disk, 1)
        assert recovered.amnesiac
        assert recovered.damage or load_member(disk) is None
    raise AssertionError("it never ends")


RECORDS = ("acceptedEpoch", "currentEpoch", "member", "sessionKeys")


def whole() -> FaultyDisk:
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    save_session_keys(disk, LINEAGE, [NamedKey(bytes(8), bytes(32))])
    log = fresh_log(disk)
    log.append(author.write(3))
    log.close()
    return disk


@pytest.mark.parametrize("name", RECORDS)
def test_a_damaged_record_is_said_and_set_aside_and_its_member_is_an_amnesiac(name: str) -> None:
    disk = whole()
    disk.flip(f"version-1/{name}", 1)
    before = disk.read(f"version-1/{name}")
    recovered = recover(disk, 1)
    assert recovered.amnesiac
    assert [problem.path for problem in recovered.problems] == [f"version-1/{name}"]
    assert not recovered.damage
    assert disk.read(f"{BESIDE}/{name}") == before
    again = recover(disk, 1)
    assert again.amnesiac
    assert not again.problems


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", RECORDS)
def test_a_power_cut_while_a_record_is_set_aside_leaves_an_amnesiac(name: str, seed: int) -> None:
    for operation in range(1, 100):
        disk = whole()
        disk.flip(f"version-1/{name}", 1)
        disk.crash_after(operation)
        try:
            recover(disk, 1)
        except PowerLossError:
            disk.crash(Random(100 * seed + operation))
        else:
            assert operation > 3
            return
        assert recover(disk, 1).amnesiac
    raise AssertionError("it never ends")


def test_on_a_real_disk_each_file_stays_in_the_root_that_it_came_from(tmp_path: Path) -> None:
    for root in ("data", "log"):
        (tmp_path / root).mkdir()
    disk = RealDisk(str(tmp_path / "data"), str(tmp_path / "log"))
    for path, data in damaged().image().items():
        disk.replace(path, data)
    disk.replace("version-1/snapshot.5", b"no snapshot")
    recovered = recover(disk, 1)
    assert recovered.damage
    Storage(disk, TransactionLog(disk, recovered.log), 1, lambda _sentence, _reason: None).perform(
        [ResetLog(1, LINEAGE)]
    )
    disk.close()
    assert (tmp_path / "data" / BESIDE / "snapshot.5").read_bytes() == b"no snapshot"
    assert [path.name for path in (tmp_path / "data" / BESIDE).iterdir()] == ["snapshot.5"]
    assert all(path.name.startswith("log.") for path in (tmp_path / "log" / BESIDE).iterdir())
    assert len(list((tmp_path / "log" / BESIDE).iterdir())) > 1
    assert (tmp_path / "log" / BESIDE).stat().st_mode & 0o777 == 0o700
