"""What a running member does about damage that is found in its files."""

from __future__ import annotations

from datatree.log.epochs import MemberRecord, load_epochs, load_member, save_epochs, save_member
from datatree.log.session_keys import NamedKey, load_session_keys, save_session_keys
from datatree.log.zxid import Epoch, Zxid
from datatree.recovery.scrub import Scrub
from tests.rigs.direct.members import Ensemble, Server
from zab.member.storage.events import DamageFound, RepairRecords
from zab.member.storage.records import Records
from zab.protocol.effects import ResetLog, SaveEpochs
from zab.simulator.world.disk import FaultyDisk

LINEAGE = bytes(range(16))
RECORDS = ("acceptedEpoch", "currentEpoch", "member")


def lived() -> tuple[Ensemble, Server]:
    ensemble = Ensemble(3)
    client = ensemble.session()
    ensemble.do(client, *(client.create(b"/%d" % number) for number in range(5)))
    return ensemble, ensemble.follower


def found(needs: int = 0, *, is_record: bool = False) -> DamageFound:
    return DamageFound("version-1/x at offset 1: why", Zxid(needs), is_record)


def test_a_snapshot_is_taken_where_one_is_needed_and_not_elsewhere() -> None:
    ensemble, server = lived()
    server.answers.append(found())
    ensemble.settle()
    assert server.snapshots == []
    assert any("a file is damaged, as reading through all of them shows" in text for text in server.traces)
    server.answers.append(found(server.member.applied))
    ensemble.settle()
    assert [taken.zxid for taken in server.snapshots] == [server.member.applied]
    assert server.member.metrics.damage_found == 2


def test_none_is_taken_below_what_it_has_to_take_the_place_of_nor_beside_another_one() -> None:
    ensemble, server = lived()
    server.answers.append(found(server.member.applied + 1))
    ensemble.settle()
    assert server.snapshots == []
    server.answers += [found(1), found(1)]
    ensemble.settle()
    assert len(server.snapshots) == 1


def test_damaged_records_are_written_again_as_they_were() -> None:
    ensemble, server = lived()
    before = {name: server.disk.read(f"version-1/{name}") for name in RECORDS}
    for name in RECORDS:
        server.disk.flip(f"version-1/{name}", 3)
    is_over, answers = False, list[DamageFound]()
    scrub = Scrub(server.disk, server.storage.log)
    while not is_over:
        is_over, more = server.storage.scrub_step(scrub)
        answers += more
    assert [answer.is_record for answer in answers] == [True] * 3
    server.answers += answers
    ensemble.settle()
    assert {name: server.disk.read(f"version-1/{name}") for name in RECORDS} == before
    assert server.member.serving


def test_a_record_that_can_be_read_is_never_put_back() -> None:
    _, server = lived()
    accepted = server.member.peer.accepted_epoch + 5
    server.storage.perform([SaveEpochs(1, Epoch(accepted), server.member.peer.current_epoch)])
    server.storage.perform([RepairRecords()])
    assert load_epochs(server.disk) == (accepted, server.member.peer.current_epoch)
    server.disk.flip("version-1/acceptedEpoch", 3)
    server.storage.perform([RepairRecords()])
    assert load_epochs(server.disk) == (accepted, server.member.peer.current_epoch)


def test_no_record_is_made_where_there_was_none() -> None:
    disk = FaultyDisk()
    Records.of(disk, b"").repair(disk)
    assert disk.list("version-1") == []


def test_a_member_that_was_given_up_does_not_come_back() -> None:
    _, server = lived()
    server.storage.perform([ResetLog(1, LINEAGE)])
    server.disk.replace("version-1/member", b"damaged")
    server.storage.perform([RepairRecords()])
    assert load_member(server.disk) is None


def test_keys_of_sessions_are_written_again_too() -> None:
    disk = FaultyDisk()
    keys = [NamedKey(bytes(8), bytes(32))]
    save_epochs(disk, 2, 1)
    save_member(disk, MemberRecord(LINEAGE, 1))
    save_session_keys(disk, LINEAGE, keys)
    records = Records.of(disk, LINEAGE)
    disk.flip("version-1/sessionKeys", 9)
    records.repair(disk)
    assert load_session_keys(disk, LINEAGE) == keys
