"""The installation of a snapshot, cut off at every operation of its disk: what the next start finds.

A member counts after it if, and only if, it still holds all that it ever acknowledged (B1 member record).
"""

from collections.abc import Iterator
from random import Random

import attrs
import pytest

from datatree.log.epochs import MemberRecord, forget_member, load_member, save_member
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from datatree.snapshot import fetch_path
from tests.datatree.histories import LINEAGE, Author, fresh_log, snapshot, synchronized
from zab.member.storage import storage as module
from zab.member.storage.events import InstallSnapshot
from zab.member.storage.storage import Storage
from zab.protocol.effects import AppendBatches, FetchSnapshot
from zab.protocol.events import SnapshotInstalled
from zab.simulator.world.disk import FaultyDisk, PowerLossError

BATCHES = 6
OTHER_LINEAGE = b"\1" * 16


@attrs.define
class Installation:
    """A member that holds the first half of a history, and the snapshot at its end that it has fetched."""

    keeps_record: bool
    conflict: bool = False
    author: Author = attrs.Factory(Author)
    disk: FaultyDisk = attrs.Factory(FaultyDisk)
    held: int = 0
    """The end of what it acknowledged."""

    def begin(self) -> Storage:
        log = fresh_log(self.disk, segment_bytes=300)
        synchronized(self.disk)
        storage = Storage(self.disk, log, 1, lambda sentence, reason: None)
        storage.perform([AppendBatches(1, self.author.write(BATCHES))])
        self.held = storage.mark = self.author.last[0]
        snapshot(self.disk, self.author.tree, self.author.last[1])
        storage.idle()
        self.author.write(BATCHES)
        leader = FaultyDisk()
        path = snapshot(leader, self.author.tree, self.author.last[1])
        self.disk.replace(fetch_path(self.author.last[0]), leader.read(path))
        return storage

    def go_on(self, storage: Storage) -> SnapshotInstalled:
        zxid, chain = self.author.last
        fetch = FetchSnapshot(4, 2, zxid, chain, LINEAGE, self.conflict, self.keeps_record)
        _, installed = storage.perform([InstallSnapshot(fetch)])
        assert isinstance(installed, SnapshotInstalled)
        return installed


def cut_off(*, conflict: bool = False, keeps_record: bool) -> Iterator[tuple[Installation, Recovered]]:
    """What the next start finds after the power, or the process, ended at each operation; at last after none."""
    point, is_finished = 0, False
    while not is_finished:
        point += 1
        for seed in range(6):
            installation = Installation(keeps_record, conflict)
            storage = installation.begin()
            installation.disk.crash_after(point)
            try:
                installation.go_on(storage)
                is_finished = True
            except PowerLossError:
                pass
            if seed % 3:
                installation.disk.crash(Random(seed))
            else:
                installation.disk.kill()
            yield installation, recover(installation.disk, 1)
    assert point > 8


def wrong_after(**options: bool) -> list[str]:
    """All that a start may not find."""
    wrong = []
    for installation, found in cut_off(**options):
        wrong += map(str, found.damage)
        if found.last[0] not in (installation.held, installation.author.last[0]):
            wrong.append(f"the history ends at {found.last[0]:#x}")
        if found.mark < installation.held:
            wrong.append(f"the mark is {found.mark:#x}")
        if found.tree.digest != installation.author.states[found.mark][0]:
            wrong.append(f"the tree is wrong at {found.mark:#x}")
        if options["keeps_record"] and found.amnesiac:
            wrong.append("it does not count, and holds all that it acknowledged")
        if not options["keeps_record"] and not found.amnesiac and found.last[0] != installation.held:
            wrong.append("it counts, and nobody has said that it holds all that it acknowledged")
    return wrong


@pytest.mark.parametrize(
    "options",
    [{"keeps_record": True}, {"keeps_record": False}, {"keeps_record": False, "conflict": True}],
    ids=["record stays", "record goes", "conflict"],
)
def test_installation_cut_off_anywhere_leaves_the_old_history_or_the_snapshot(options: dict[str, bool]) -> None:
    assert wrong_after(**options) == []


def test_a_record_that_stays_although_it_may_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "forget_member", lambda disk: None)
    assert wrong_after(keeps_record=False, conflict=True)


def test_a_record_that_goes_although_it_may_stay_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install_snapshot = module.install_snapshot

    def forgetful(disk: FaultyDisk, *arguments: object) -> str:
        forget_member(disk)
        return install_snapshot(disk, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "install_snapshot", forgetful)
    assert wrong_after(keeps_record=True)


@pytest.mark.parametrize(
    ("record", "recorded"),
    [
        (MemberRecord(LINEAGE, 1), True),
        (MemberRecord(LINEAGE, 2), False),
        (MemberRecord(OTHER_LINEAGE, 1), False),
        (None, False),
    ],
    ids=["its own", "of another server", "of another lineage", "none"],
)
def test_answer_says_whether_the_record_is_there(record: MemberRecord | None, recorded: bool) -> None:
    installation = Installation(keeps_record=True)
    storage = installation.begin()
    forget_member(installation.disk)
    if record is not None:
        save_member(installation.disk, record)
    assert installation.go_on(storage).recorded is recorded
    assert load_member(installation.disk) == record


def test_a_record_that_may_not_stay_is_gone_when_the_answer_comes() -> None:
    installation = Installation(keeps_record=False)
    assert not installation.go_on(installation.begin()).recorded
    assert load_member(installation.disk) is None
