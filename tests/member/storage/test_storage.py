"""Storage effects on a real directory: order, answers, and what a new start finds."""

from functools import partial

import pytest

from datatree.log.batch import build, genesis, imported
from datatree.log.epochs import MemberRecord, load_epochs, load_mark, load_member, save_member
from datatree.log.segment import log_path
from datatree.log.transaction_log import TransactionLog
from datatree.record import Txn, encode
from datatree.recovery.recover import recover
from datatree.snapshot import SnapshotWriter, fetch_path, snapshot_files, snapshot_path
from datatree.tree import DataTree
from datatree.txn_changes import WHOLE
from tests.member.storage.storage_setup import LINEAGE, batches_from, open_storage, say_nothing
from zab.jute.change_pages import PageStatus
from zab.member.storage.events import (
    ChooseSnapshot,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    SnapshotChosen,
    TreeInstalled,
)
from zab.member.storage.storage import InstallSnapshot, RollLog, SnapshotUnusable
from zab.protocol.effects import (
    AppendBatches,
    DrainLog,
    FetchSnapshot,
    OfferSnapshot,
    ReadLog,
    ResetLog,
    SaveEpochs,
    SaveMember,
    Send,
    TruncateLog,
)
from zab.protocol.events import (
    Durable,
    EpochsSaved,
    LogCut,
    LogDrained,
    LogRead,
    MemberSaved,
    NothingToOffer,
    SnapshotInstalled,
    SnapshotOffered,
    SnapshotWithdrawn,
)
from zab.protocol.message import Ack


@pytest.fixture
def storage(tmp_path):
    storage = open_storage(tmp_path)
    yield storage
    storage.disk.close()


class CountingDisk:
    """The disk of a storage, with its calls in order."""

    def __init__(self, disk):
        self._disk = disk
        self.calls = []

    def __getattr__(self, name):
        real = getattr(self._disk, name)

        def call(*arguments, **options):
            self.calls.append((name, *arguments[:1]))
            return real(*arguments, **options)

        return call


def snapshot_of(storage, tree, zxid, chain):
    """A snapshot file's bytes; the tree's own position is set to (zxid, chain) for it."""
    tree.applied = zxid
    writer = SnapshotWriter(storage.disk, tree.begin_snapshot(), LINEAGE, chain)
    writer.write()
    data = storage.disk.read(snapshot_path(zxid))
    storage.disk.remove(snapshot_path(zxid))
    return data


def put_fetched(storage, zxid, data):
    storage.disk.replace(fetch_path(zxid), data)


def test_append_is_durable_when_answered(storage, tmp_path):
    batches = batches_from(storage, 3)
    assert storage.perform([AppendBatches(7, batches)]) == [Durable(7, batches[-1].zxid)]
    found = recover(storage.disk, 1)
    assert found.last == (batches[-1].zxid, batches[-1].chain)


def test_appends_that_follow_each_other_are_one_write(storage, monkeypatch):
    batches = batches_from(storage, 6)
    appended = []
    monkeypatch.setattr(storage.log, "append", lambda group, then: appended.append(len(group)))
    effects = [AppendBatches(1, batches[:1]), AppendBatches(1, batches[1:3]), AppendBatches(1, batches[3:])]
    assert storage.perform(effects) == [Durable(1, batches[-1].zxid)]
    assert appended == [6]


def test_appends_of_two_generations_have_two_answers(storage):
    batches = batches_from(storage, 4)
    answers = storage.perform([AppendBatches(1, batches[:2]), AppendBatches(2, batches[2:])])
    assert answers == [Durable(1, batches[1].zxid), Durable(2, batches[3].zxid)]


def ack_of(batch, link=3):
    return Send((link,), Ack(1, batch.zxid))


def test_what_is_to_be_sent_is_sent_once_it_is_durable_and_before_it_is_told(storage):
    [batch] = batches_from(storage, 1)
    durable = []

    def send(link, message):
        durable.append((link, message, recover(storage.disk, 1).last[0]))

    storage.hold = lambda *what: partial(send, *what)
    assert storage.perform([AppendBatches(1, [batch], ack_of(batch))]) == [Durable(1, batch.zxid)]
    assert durable == [(3, Ack(1, batch.zxid), batch.zxid)]


def test_of_appends_that_are_one_write_the_last_word_is_sent(storage):
    batches = batches_from(storage, 4)
    sent = []
    storage.hold = lambda link, message: partial(sent.append, message.zxid)
    effects = [AppendBatches(1, [batch], ack_of(batch)) for batch in batches[:3]]
    storage.perform([*effects, AppendBatches(1, batches[3:])])
    assert sent == [batches[2].zxid]


def test_what_cannot_be_written_is_not_said(storage, monkeypatch):
    [batch] = batches_from(storage, 1)
    sent = []
    storage.hold = lambda *what: partial(sent.append, what)
    monkeypatch.setattr(storage.log, "append", fail)
    with pytest.raises(OSError, match="no more"):
        storage.perform([AppendBatches(1, [batch], ack_of(batch))])
    assert sent == []


def fail(_batches, _then):
    raise OSError("no more")


def test_only_what_is_durable_may_be_told_later(storage):
    assert storage.is_awaited(Durable(1, 5))
    storage.waits.for_durable = False
    assert not storage.is_awaited(Durable(1, 5))
    assert storage.is_awaited(LogDrained(1))


def test_other_effects_keep_their_place_between_appends(storage):
    batches = batches_from(storage, 2)
    answers = storage.perform(
        [AppendBatches(1, batches[:1]), SaveEpochs(1, 3, 2), AppendBatches(1, batches[1:]), DrainLog(2)]
    )
    assert answers == [Durable(1, batches[0].zxid), EpochsSaved(1, 3, 2), Durable(1, batches[1].zxid), LogDrained(2)]


def test_append_of_nothing_has_no_answer(storage):
    assert storage.perform([AppendBatches(1, [])]) == []


def test_epochs_and_member_record_are_found_again(storage):
    assert storage.perform([SaveEpochs(1, 5, 4), SaveMember(1, LINEAGE)]) == [EpochsSaved(1, 5, 4), MemberSaved(1)]
    assert load_epochs(storage.disk) == (5, 4)
    assert load_member(storage.disk) == MemberRecord(LINEAGE, 1)


def test_truncation_ends_at_the_position(storage):
    batches = batches_from(storage, 5)
    storage.perform([AppendBatches(1, batches)])
    cut = TruncateLog(2, batches[1].zxid, batches[1].chain)
    assert storage.perform([cut]) == [LogCut(2, batches[1].zxid)]
    assert storage.log.last == (batches[1].zxid, batches[1].chain)
    assert recover(storage.disk, 1).last == storage.log.last


def test_log_that_is_damaged_where_it_is_to_be_cut_is_a_failure_of_the_disk(storage):
    batches = batches_from(storage, 5)
    storage.perform([AppendBatches(1, batches)])
    path = log_path(batches[0].zxid)
    data = bytearray(storage.disk.read(path))
    data[data.index(b"body")] ^= 1
    storage.disk.replace(path, bytes(data))
    with pytest.raises(OSError, match=f"{path} at offset [0-9]+: checksum of the batch body"):
        storage.perform([TruncateLog(2, batches[3].zxid, batches[3].chain)])


def test_what_differs_from_the_leader_is_set_aside_for_somebody_to_look_at(storage):
    batches = batches_from(storage, 3)
    storage.perform([AppendBatches(1, batches)])
    storage.perform([TruncateLog(2, batches[0].zxid, batches[0].chain, conflict=True)])
    assert [name for name in storage.disk.list("version-1") if name.endswith((".stale", ".conflict"))] == [
        f"log.{batches[1].zxid:x}.conflict"
    ]


def test_reset_begins_a_lineage_anew_and_forgets_that_the_member_was_synchronized(storage):
    storage.perform([AppendBatches(1, batches_from(storage, 5)), SaveMember(1, LINEAGE)])
    other = bytes(16)
    assert storage.perform([ResetLog(3, other)]) == [LogCut(3, 0)]
    assert storage.log.last == (0, genesis(other))
    assert load_member(storage.disk) is None
    batches = batches_from(storage, 1)
    assert storage.perform([AppendBatches(3, batches)]) == [Durable(3, batches[0].zxid)]


def test_a8_mark_of_a_history_that_is_replaced_goes_with_it(storage):
    batches = batches_from(storage, 5)
    storage.perform([AppendBatches(1, batches)])
    storage.mark = batches[-1].zxid
    storage.idle()
    assert load_mark(storage.disk) == (LINEAGE, batches[-1].zxid)
    other = bytes(16)
    storage.perform([ResetLog(3, other)])
    storage.perform([AppendBatches(3, batches_from(storage, 6))])
    storage.idle()
    assert load_mark(storage.disk) == (other, 0), "of the new lineage nothing is known to be committed"


def test_a6_snapshots_of_a_history_that_is_replaced_are_set_aside(storage):
    batches = batches_from(storage, 5)
    storage.perform([AppendBatches(1, batches)])
    at = batches[2]
    storage.disk.replace(snapshot_path(at.zxid), snapshot_of(storage, DataTree(), at.zxid, at.chain))
    storage.perform([ResetLog(3, bytes(16))])
    assert snapshot_files(storage.disk) == []
    assert storage.disk.exists(f"{snapshot_path(at.zxid)}.stale")


def test_roll_begins_a_new_file_and_is_not_answered(storage):
    batches = batches_from(storage, 2)
    answers = storage.perform([AppendBatches(1, batches[:1]), RollLog(), AppendBatches(1, batches[1:])])
    assert answers == [Durable(1, batches[0].zxid), Durable(1, batches[1].zxid)]
    assert len(storage.log.segments) == 2


def test_failure_of_the_disk_passes_through_and_the_log_stays_unusable(storage, monkeypatch):
    batches = batches_from(storage, 2)
    storage.perform([AppendBatches(1, batches[:1])])

    def full(data, then):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.log._file, "write_durable", full)
    with pytest.raises(OSError, match="No space"):
        storage.perform([AppendBatches(1, batches[1:])])
    monkeypatch.undo()
    with pytest.raises(Exception, match="failed before"):
        storage.perform([AppendBatches(1, batches[1:])])


# ---------------------------------------------------------------------------------------------------------------- marks


def test_mark_is_written_when_the_log_is_idle(storage):
    batches = batches_from(storage, 3)
    storage.perform([AppendBatches(1, batches)])
    storage.mark = batches[1].zxid
    assert load_mark(storage.disk) != (LINEAGE, batches[1].zxid)
    storage.idle()
    assert load_mark(storage.disk) == (LINEAGE, batches[1].zxid)


def test_mark_never_goes_beyond_what_is_durable_here(storage):
    batches = batches_from(storage, 1)
    storage.perform([AppendBatches(1, batches)])
    storage.mark = batches[0].zxid + 100
    storage.idle()
    assert load_mark(storage.disk) == (LINEAGE, batches[0].zxid)


def test_close_leaves_nothing_to_copy_at_the_next_start(storage):
    batches = batches_from(storage, 3)
    storage.perform([AppendBatches(1, batches)])
    storage.close()
    counting = CountingDisk(storage.disk)
    assert recover(counting, 1).last[0] == batches[2].zxid
    assert not {"open_append", "replace", "rename", "truncate"} & {call[0] for call in counting.calls}


def test_without_close_the_next_start_copies_what_nobody_vouches_for(storage):
    """C1: what the page cache shows may be gone with the next power cut."""
    storage.perform([AppendBatches(1, batches_from(storage, 3))])
    counting = CountingDisk(storage.disk)
    recover(counting, 1)
    assert {"open_append", "replace"} & {call[0] for call in counting.calls}


def test_storage_without_a_lineage_idles_and_closes(tmp_path):
    from zab.host.storage.disk import RealDisk
    from zab.member.storage.storage import Storage

    disk = RealDisk(str(tmp_path))
    storage = Storage(disk, TransactionLog(disk, recover(disk).log), 1, say_nothing)
    storage.mark = 0
    storage.idle()
    storage.close()
    disk.close()


# ------------------------------------------------------------------------------------------------------------ snapshots


def test_what_a_lineage_began_with_says_so_when_it_is_installed(storage):
    zxid, tree = (2 << 32) + 1, DataTree()
    chain = imported(LINEAGE, zxid, tree.digest)
    put_fetched(storage, zxid, snapshot_of(storage, tree, zxid, chain))
    _, installed = storage.perform([InstallSnapshot(FetchSnapshot(4, 2, zxid, chain, LINEAGE))])
    assert installed == SnapshotInstalled(4, zxid, chain, begins=True)


def test_installed_snapshot_replaces_history_and_hands_over_the_tree(storage):
    storage.perform([AppendBatches(1, batches_from(storage, 5)), SaveMember(1, LINEAGE)])
    zxid, chain = (2 << 32) + 9, bytes(range(16, 32))
    put_fetched(storage, zxid, snapshot_of(storage, DataTree(), zxid, chain))
    fetch = FetchSnapshot(4, 2, zxid, chain, LINEAGE)
    tree, installed = storage.perform([InstallSnapshot(fetch)])
    assert installed == SnapshotInstalled(4, zxid, chain, begins=False)
    assert isinstance(tree, TreeInstalled)
    assert (tree.tree.applied, tree.tree.digest) == (zxid, DataTree().digest)
    assert storage.log.last == (zxid, chain)
    assert load_member(storage.disk) is None, "it counts only when a leader has synchronized it"
    assert storage.disk.exists(snapshot_path(zxid))
    assert not storage.disk.exists(fetch_path(zxid))
    found = recover(storage.disk, 1)
    assert found.last == (zxid, chain)


@pytest.mark.parametrize("conflict", [True, False])
def test_a5_history_that_a_snapshot_replaces_is_kept_if_it_differs_from_the_leaders(storage, conflict):
    storage.perform([AppendBatches(1, batches_from(storage, 3))])
    zxid, chain = (2 << 32) + 9, bytes(16)
    put_fetched(storage, zxid, snapshot_of(storage, DataTree(), zxid, chain))
    storage.perform([InstallSnapshot(FetchSnapshot(4, 2, zxid, chain, LINEAGE, conflict=conflict))])
    kept = [name for name in storage.disk.list("version-1") if name.endswith(".conflict")]
    assert bool(kept) is conflict


def test_member_record_goes_before_the_snapshot_gets_its_name(storage):
    """B1: between the two a crash must not leave a member that counts and holds less than it acknowledged."""
    save_member(storage.disk, MemberRecord(LINEAGE, 1))
    zxid, chain = (2 << 32) + 9, bytes(16)
    put_fetched(storage, zxid, snapshot_of(storage, DataTree(), zxid, chain))
    counting = storage.disk = storage.log.disk = CountingDisk(storage.disk)
    storage.perform([InstallSnapshot(FetchSnapshot(4, 2, zxid, chain, LINEAGE))])
    calls = [call for call in counting.calls if call[0] in ("remove", "rename")]
    assert calls.index(("remove", "version-1/member")) < calls.index(("rename", fetch_path(zxid)))
    storage.disk = storage.log.disk = counting._disk


@pytest.mark.parametrize(("owner", "recorded"), [(1, True), (2, False)])
def test_b1_the_record_of_another_server_is_none_after_an_installation(storage, owner, recorded):
    """As when a directory came to this server from another one."""
    save_member(storage.disk, MemberRecord(LINEAGE, owner))
    zxid, chain = (2 << 32) + 9, bytes(16)
    put_fetched(storage, zxid, snapshot_of(storage, DataTree(), zxid, chain))
    _, installed = storage.perform([InstallSnapshot(FetchSnapshot(4, 2, zxid, chain, LINEAGE, keeps_record=True))])
    assert installed.recorded is recorded


@pytest.mark.parametrize("harm", ["cut", "flipped", "other chain"])
def test_unusable_snapshot_changes_nothing_and_is_removed(storage, harm):
    batches = batches_from(storage, 3)
    storage.perform([AppendBatches(1, batches), SaveMember(1, LINEAGE)])
    zxid, chain = (2 << 32) + 9, bytes(16)
    data = snapshot_of(storage, DataTree(), zxid, chain)
    if harm == "cut":
        data = data[:-1]
    elif harm == "flipped":
        data = data[:100] + bytes([data[100] ^ 1]) + data[101:]
    put_fetched(storage, zxid, data)
    wanted = b"\1" * 16 if harm == "other chain" else chain
    fetch = FetchSnapshot(4, 2, zxid, wanted, LINEAGE)
    [answer] = storage.perform([InstallSnapshot(fetch)])
    assert isinstance(answer, SnapshotUnusable)
    assert answer.fetch is fetch
    assert storage.log.last == (batches[-1].zxid, batches[-1].chain)
    assert load_member(storage.disk) is not None
    assert not storage.disk.exists(fetch_path(zxid))


def test_newest_valid_snapshot_is_offered(storage):
    batches = batches_from(storage, 6)
    storage.perform([AppendBatches(1, batches)])
    assert storage.offer_snapshot(OfferSnapshot(9, 0)) == NothingToOffer(9, 0)
    files = {}
    for number in (1, 3):
        files[number] = snapshot_of(storage, DataTree(), batches[number].zxid, batches[number].chain)
    for number, data in files.items():
        storage.disk.replace(snapshot_path(batches[number].zxid), data)
    assert storage.offer_snapshot(OfferSnapshot(9, 0)) == SnapshotOffered(9, batches[3].zxid, batches[3].chain)
    storage.disk.replace(snapshot_path(batches[3].zxid), files[3][:-5])
    assert storage.offer_snapshot(OfferSnapshot(9, 0)) == SnapshotOffered(9, batches[1].zxid, batches[1].chain)


def test_a7_snapshot_of_another_lineage_is_not_offered(storage):
    batches = batches_from(storage, 6)
    storage.perform([AppendBatches(1, batches)])
    tree = DataTree()
    tree.applied = batches[3].zxid
    SnapshotWriter(storage.disk, tree.begin_snapshot(), bytes(16), batches[3].chain).write()
    assert storage.offer_snapshot(OfferSnapshot(9, 0)) == NothingToOffer(9, 0)


def test_newest_valid_snapshot_above_a_zxid_is_chosen(storage):
    batches = take_snapshots(storage, 4)
    ends = snapshot_files(storage.disk)
    chains = {batch.zxid: batch.chain for batch in batches}
    assert len(ends) == 4

    def chosen(above):
        """Works in the same way for both uses."""
        answer = storage.choose_snapshot(ChooseSnapshot(9, above))
        offered = storage.offer_snapshot(OfferSnapshot(9, above))
        if answer.position is None:
            assert offered == NothingToOffer(9, above)
        else:
            assert offered == SnapshotOffered(9, *answer.position)
        return answer

    assert chosen(0) == SnapshotChosen(9, 0, (ends[3], chains[ends[3]]))
    assert chosen(ends[2]) == SnapshotChosen(9, ends[2], (ends[3], chains[ends[3]]))
    assert chosen(ends[3]) == SnapshotChosen(9, ends[3], None)
    path = snapshot_path(ends[3])
    storage.disk.replace(path, storage.disk.read(path)[:-5])
    assert chosen(0) == SnapshotChosen(9, 0, (ends[2], chains[ends[2]]))
    assert chosen(ends[2]) == SnapshotChosen(9, ends[2], None)


def test_log_after_what_was_offered_stays_as_long_as_it_is_not_too_much(storage):
    """A learner whose transfer takes longer than three snapshots still finds what comes next."""
    batches = take_snapshots(storage, 2)
    offered = storage.offer_snapshot(OfferSnapshot(7, 0))
    assert offered == SnapshotOffered(7, batches[-1].zxid, batches[-1].chain)
    for _ in range(4):
        batches += take_snapshots(storage, 1)
        assert storage.purge({7: offered.zxid}, (), 3, 1 << 20)[1] == []
        read = storage.read_log(ReadLog(7, offered.zxid, 1 << 20))
        assert read == LogRead(7, (offered.zxid, offered.chain), [b for b in batches if b.zxid > offered.zxid])
        assert storage.disk.exists(snapshot_path(offered.zxid))
    assert storage.purge({7: offered.zxid, 8: batches[-1].zxid}, (), 3, 1)[1] == [SnapshotWithdrawn(7, offered.zxid)]
    assert storage.read_log(ReadLog(7, offered.zxid, 1 << 20)) == LogRead(7, None, [])
    assert not storage.disk.exists(snapshot_path(offered.zxid))


def test_snapshot_that_is_being_read_stays_without_its_log(storage):
    read = take_snapshots(storage, 1)[-1].zxid
    take_snapshots(storage, 4)
    assert storage.purge({}, [read], 3, 1 << 20) == (3, [])
    assert storage.disk.exists(snapshot_path(read))
    assert storage.log.first_position[0] > read


def take_snapshots(storage, count):
    """So many, ten batches before each; all of these."""
    batches = []
    for _ in range(count):
        batches += batches_from(storage, 10)
        storage.perform([AppendBatches(1, batches[-10:]), RollLog()])
        zxid, chain = storage.log.last
        storage.disk.replace(snapshot_path(zxid), snapshot_of(storage, DataTree(), zxid, chain))
    return batches


# -------------------------------------------------------------------------------------------------------------- reading


def test_log_read_begins_at_the_batch_end_at_or_below_the_zxid(storage):
    batches = batches_from(storage, 5)
    storage.perform([AppendBatches(1, batches)])
    everything = storage.read_log(ReadLog(3, batches[1].zxid, 1 << 20))
    assert everything == LogRead(3, (batches[1].zxid, batches[1].chain), batches[2:])
    limited = storage.read_log(ReadLog(3, batches[1].zxid, 1))
    assert limited.batches == batches[2:3]
    unknown = storage.read_log(ReadLog(3, 5, 1 << 20))
    assert unknown.position == (0, genesis(LINEAGE))


def test_log_that_does_not_reach_back_has_no_position(storage):
    zxid, chain = (1 << 32) + 50, bytes(16)
    storage.log.reset(zxid, chain, LINEAGE)
    assert storage.read_log(ReadLog(3, 7, 1 << 20)) == LogRead(3, None, [])


def test_damaged_log_is_answered_like_one_that_is_too_short(storage):
    batches = batches_from(storage, 5, body=b"x" * 1000)
    storage.perform([AppendBatches(1, batches), RollLog()])
    path = storage.log.segments[0].path
    data = bytearray(storage.disk.read(path))
    data[len(data) // 2] ^= 0xFF
    storage.disk.replace(path, bytes(data))
    assert storage.read_log(ReadLog(3, batches[0].zxid, 1 << 20)) == LogRead(3, None, [])


# ------------------------------------------------------------------------------------------------ the feed of changes


def creates(storage, names, acl=None):
    """A batch that creates these."""
    zxid, chain = storage.log.last
    first = zxid + 1 if zxid else (1 << 32) + 1
    txns = [Txn(first + n, 9, 7, n, 1, n + 1, name, b"x", (acl, 0)) for n, name in enumerate(names)]
    body = b"".join(map(encode, txns))
    return build(chain, epoch=1, first=first, count=len(txns), time=1, flags=0, mark=0, applied=0, digest=0, body=body)


@pytest.fixture
def told(storage):
    """A storage with three batches of changes."""
    for names in ((b"/a", b"/b"), (b"/a/c", b"/d"), (b"/e",)):
        storage.perform([AppendBatches(1, [creates(storage, names)])])
    return storage


def read(storage, place, *, prefix=b"/", upto=1 << 40, bytes_max=1 << 20, batches=()):
    return storage.read_for_changes(ReadChanges(place, prefix, upto, bytes_max, list(batches)))


def test_changes_are_read_from_the_files(told):
    first, last = (1 << 32) + 1, told.log.last[0]
    everything = read(told, (0, WHOLE))
    assert [row[:3] for row in everything.rows] == [
        (first, 0, b"/a"),
        (first + 1, 0, b"/b"),
        (first + 2, 0, b"/a/c"),
        (first + 3, 0, b"/d"),
        (first + 4, 0, b"/e"),
    ]
    assert (everything.status, everything.place) == (PageStatus.GIVEN, (last, WHOLE))
    assert [row[2] for row in read(told, (first, WHOLE)).rows] == [b"/b", b"/a/c", b"/d", b"/e"]
    assert [row[2] for row in read(told, (0, WHOLE), prefix=b"/a").rows] == [b"/a", b"/a/c"]
    assert read(told, (0, WHOLE), prefix=b"/none").place == (last, WHOLE)
    cut = read(told, (0, WHOLE), bytes_max=1)
    assert ([row[2] for row in cut.rows], cut.place) == ([b"/a"], (first, 0))


def test_changes_above_what_is_applied_are_not_read(told):
    first = (1 << 32) + 1
    found = read(told, (0, WHOLE), upto=first + 3)
    assert ([row[2] for row in found.rows], found.place) == ([b"/a", b"/b", b"/a/c", b"/d"], (first + 3, WHOLE))


def test_changes_of_given_batches_need_no_file(told):
    batches = told.log.read(0, 1 << 20)
    for segment in told.log.segments:
        told.disk.remove(segment.path)
    assert len(read(told, (0, WHOLE), batches=batches).rows) == 5


def test_changes_from_a_place_that_the_files_do_not_have(told):
    assert read(told, ((1 << 32) + 90, WHOLE), upto=1 << 40).status is PageStatus.ELSEWHERE
    told.log.reset((1 << 32) + 50, bytes(16), LINEAGE)
    older = read(told, (1 << 32, WHOLE))
    assert (older.status, older.oldest, older.rows) == (PageStatus.OLDER, (1 << 32) + 50, [])


def test_changes_of_a_damaged_log_are_said_to_be(told):
    told.perform([RollLog()])
    path = told.log.segments[0].path
    data = bytearray(told.disk.read(path))
    data[200] ^= 0xFF
    told.disk.replace(path, bytes(data))
    assert read(told, (0, WHOLE)).is_damaged
    told.disk.remove(path)
    assert read(told, (0, WHOLE)).is_damaged


def test_changes_that_are_no_transactions_are_said_to_be_damaged(storage):
    storage.perform([AppendBatches(1, batches_from(storage, 1))])
    assert read(storage, (0, WHOLE)).is_damaged


def look_back(storage, upto):
    for _ in range(100):
        answer = storage.read_for_changes(LookBackSlice(upto, 10))
        if answer.past is not None:
            return answer.past
    raise AssertionError


def test_looking_back_goes_on_slice_by_slice(told, monkeypatch):
    monkeypatch.setattr("datatree.recovery.look_back.SLICE_BYTES", 1)
    told.perform([AppendBatches(1, [creates(told, [b"/f"], ((31, b"digest", b"bob:x"),))])])
    upto = told.log.last[0]
    assert told.read_for_changes(LookBackSlice(upto, 10)) == LookedBack(None)
    past = look_back(told, upto)
    assert (past.complete_from, past.count_max) == (0, 10)
    # Another question starts again.
    assert told.read_for_changes(LookBackSlice(upto, 10)) == LookedBack(None)
    assert look_back(told, upto - 1).complete_from == 0


def test_looking_back_finds_nothing_where_the_disk_fails(told, monkeypatch):
    def fail(*_arguments):
        raise OSError("read error")

    monkeypatch.setattr(told.log, "read", fail)
    past = look_back(told, told.log.last[0])
    assert (past.complete_from, len(past)) == (told.log.last[0], 0)
