"""Recovery: what survives, what is torn, what is damage, and what a power cut at any operation leaves."""

from itertools import pairwise
from random import Random

import pytest

from datatree.log.batch import HEADER_BYTES, build, genesis
from datatree.log.epochs import MemberRecord, load_member, save_epochs, save_mark, save_member
from datatree.log.frame import Scan, pack_frame, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, log_files, log_path
from datatree.log.transaction_log import TransactionLog, write_segment
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.recovery import found_file
from datatree.recovery.beginning import begin_history
from datatree.recovery.recover import examine, recover
from datatree.snapshot import snapshot_path
from datatree.tree import DataTree
from tests.datatree.histories import (
    LINEAGE,
    START,
    Author,
    fresh_log,
    held,
    raws,
    reopened,
    snapshot,
    synchronized,
)
from zab.simulator.world.disk import FaultyDisk, PowerLossError


def lived(appends: int = 6, **options: int) -> tuple[FaultyDisk, Author, TransactionLog]:
    """A member with that many appends of a few batches each, of which the last is after the last sync mark."""
    disk, author = FaultyDisk(), Author(seed=appends)
    synchronized(disk)
    log = fresh_log(disk, **options)
    for _ in range(appends):
        log.append(author.write(author.rng.randint(1, 3)))
    return disk, author, log


def test_empty_directory_is_an_empty_amnesiac_member():
    recovered = recover(FaultyDisk())
    assert recovered.empty
    assert recovered.amnesiac
    assert recovered.lineage == b""
    assert recovered.epochs is None
    assert recovered.last == (0, bytes(16))
    assert recovered.tree.applied == 0
    assert not recovered.damage
    assert not recovered.problems


def test_tree_stands_at_the_highest_mark_and_the_rest_is_pending():
    """A3: nothing that is not known to be committed is applied."""
    disk, author, _ = lived()
    recovered = recover(disk)
    assert recovered.last == author.last
    assert recovered.mark == recovered.tree.applied == author.batches[-2].zxid
    assert (recovered.tree.digest, recovered.tree.znode_count) == author.states[recovered.mark]
    assert raws(recovered.pending) == raws(author.batches[-1:])
    assert recovered.replayed_count == sum(batch.count for batch in author.batches[:-1])
    assert not recovered.amnesiac
    assert not recovered.empty
    assert recovered.mismatch_zxid is None


def test_mark_of_an_idle_log_comes_from_the_committed_file():
    """A8."""
    disk, author, log = lived()
    log.set_mark(author.last[0])
    recovered = recover(disk)
    assert recovered.mark == author.last[0]
    assert recovered.tree.digest == author.tree.digest
    assert recovered.pending == []


def test_mark_of_another_lineage_does_not_count():
    disk, author, _ = lived()
    save_mark(disk, bytes(16), author.last[0])
    assert recover(disk).mark == author.batches[-2].zxid


def test_recent_batches_are_limited_by_bytes_but_hold_all_pending():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    batches = author.write(30, lag=10)
    log.append(batches)
    everything = recover(disk)
    assert everything.base == START
    assert raws(everything.recent) == raws(batches)
    some = recover(disk, recent_bytes=sum(len(batch.raw) for batch in batches[-15:]))
    assert raws(some.recent) == raws(batches[-15:])
    assert some.base == (batches[14].zxid, batches[14].chain)
    few = recover(disk, recent_bytes=1)
    assert raws(few.recent) == raws(few.pending) == raws(batches[-10:])


def test_recovering_twice_changes_nothing():
    disk, author, _ = lived()
    first = recover(disk)
    files = {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")}
    second = recover(disk)
    assert first.last == second.last == author.last
    assert files == {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")}


@pytest.mark.parametrize("damaged", [False, True])
def test_examining_changes_nothing_and_finds_the_same(damaged):
    disk, author, _ = lived()
    disk.replace("version-1/snapshot.99.tmp", b"leftover")
    disk.replace("initialize", b"")
    path = log_path(author.batches[0].first)
    disk.replace(path, disk.read(path) + b"ZFRM torn")
    if damaged:
        disk.flip(path, 8 * (SEGMENT_HEADER_BYTES + 200))
    before = {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")}
    operations = disk.operations
    found = examine(disk)
    assert disk.operations == operations
    assert {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")} == before
    assert disk.exists("initialize")
    recovered = recover(disk)
    assert bool(found.damage) == bool(recovered.damage) == damaged
    assert (found.last, found.mark, found.amnesiac) == (recovered.last, recovered.mark, recovered.amnesiac)
    assert found.tree.digest == recovered.tree.digest


def test_a_history_begins_with_a_tree():
    """What forced recovery makes: a member that holds all of a new lineage, and knows that it is the beginning."""
    author = Author()
    author.write(5)
    digest, znode_count, zxid = author.tree.digest, author.tree.znode_count, 4 << 32 | 1
    lineage = bytes(reversed(LINEAGE))
    disk = FaultyDisk()
    path = begin_history(disk, author.tree, zxid, lineage, 7)
    assert path == snapshot_path(zxid)
    disk.crash(Random(0))
    recovered = recover(disk, 7)
    assert (recovered.amnesiac, recovered.damage, recovered.problems, recovered.pending) == (False, [], [], [])
    assert (recovered.lineage, recovered.epochs, recovered.mark) == (lineage, (4, 4), zxid)
    assert (recovered.tree.digest, recovered.tree.znode_count) == (digest, znode_count)
    assert recovered.beginning == recovered.last[0] == zxid
    assert recovered.founder
    assert load_member(disk) == MemberRecord(lineage, 7, founder=True)


def test_a_beginning_has_nobody_in_its_ensemble():
    """Also where servers of the old one were taken in by a reconfiguration: these are lost."""
    tree = DataTree()
    tree.config = b"server.9=of the file"
    tree.apply(Txn(1, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, b"server.1=lost\nversion=1", None))
    disk = FaultyDisk()
    begin_history(disk, tree, 4 << 32 | 1, LINEAGE, 7)
    recovered = recover(disk, 7)
    assert recovered.tree.configuration == b""
    assert recovered.tree.digest == recovered.tree.recompute_digest()


def test_only_the_first_snapshot_of_a_lineage_is_its_beginning():
    disk, author, log = lived()
    log.close()
    snapshot(disk, author.tree, author.last[1])
    recovered = recover(disk)
    assert recovered.snapshot_zxid == author.last[0]
    assert recovered.beginning == 0


# Amnesia (B1).


@pytest.mark.parametrize("missing", ["member", "acceptedEpoch", "currentEpoch"])
@pytest.mark.parametrize("how", ["removed", "flipped"])
def test_member_without_any_of_its_records_is_amnesiac_and_keeps_its_history(missing, how):
    disk, author, _ = lived()
    path = f"version-1/{missing}"
    if how == "removed":
        disk.remove(path)
    else:
        disk.flip(path, 3)
    recovered = recover(disk)
    assert recovered.amnesiac
    assert recovered.last == author.last
    assert recovered.lineage == LINEAGE


def test_member_record_of_another_server_does_not_count():
    disk, _, _ = lived()
    assert not recover(disk, server_id=1).amnesiac
    assert recover(disk, server_id=2).amnesiac


def test_epochs_that_cannot_both_be_true_do_not_count():
    disk, _, _ = lived()
    save_epochs(disk, 7, 5)
    assert recover(disk).epochs == (7, 5)
    disk.replace("version-1/acceptedEpoch", disk.read("version-1/currentEpoch"))
    assert recover(disk).amnesiac


def test_b1_a_member_record_without_epochs_goes_before_there_are_epochs_again():
    """A learner saves epochs long before it is synchronized; if it ends there, it must not be a member then."""
    disk, _, _ = lived()
    disk.remove("version-1/acceptedEpoch")
    assert recover(disk).amnesiac
    save_epochs(disk, 9, 1)
    assert recover(disk).amnesiac
    assert load_member(disk) is None


# The operator's word (B3).


def test_marker_of_an_empty_member_counts_once():
    disk = FaultyDisk()
    disk.replace("initialize", b"")
    assert recover(disk).marked
    assert not disk.exists("initialize")
    again = recover(disk)
    assert not again.marked
    assert again.problems == []


def test_marker_is_gone_for_good_before_it_counts():
    """With the power gone at any operation: it was not said yet that the member is marked, or the file is gone."""
    for point in range(1, 20):
        disk = FaultyDisk()
        disk.replace("initialize", b"")
        disk.crash_after(point)
        try:
            marked = recover(disk).marked
        except PowerLossError:
            marked = False
        disk.crash(Random(point))
        assert not (marked and disk.exists("initialize"))
        if marked:
            return
    raise AssertionError("never done")


@pytest.mark.parametrize("left", ["everything", "record", "log", "stale log", "damaged snapshot"])
def test_marker_counts_for_nothing_where_data_is_or_was(left):
    disk, _, log = lived()
    log.close()
    if left != "everything":
        for name in disk.list("version-1"):
            if not (left == "record" and name == "member") and not (left == "log" and name.startswith("log.")):
                disk.remove(f"version-1/{name}")
    if left == "stale log":
        disk.replace("version-1/log.100000001.stale", b"x")
    elif left == "damaged snapshot":
        disk.replace("version-1.damaged/snapshot.100000001", b"x")
    disk.replace("initialize", b"")
    recovered = recover(disk)
    assert not recovered.marked
    assert [problem.path for problem in recovered.problems] == ["initialize"]
    assert not disk.exists("initialize")


def test_marker_survives_what_a_first_start_leaves():
    """Epoch files do not matter: a crash before the ensemble was founded leaves them."""
    disk = FaultyDisk()
    save_epochs(disk, 1, 0)
    save_mark(disk, LINEAGE, 0)
    disk.replace("initialize", b"")
    recovered = recover(disk)
    assert recovered.marked
    assert recovered.epochs == (1, 0)


# Torn tails (C1, C2).


def test_every_cut_of_the_tail_behind_the_sync_mark_is_torn():
    disk, author, _ = lived()
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    synced = int.from_bytes(data[data.rindex(b"ZFRM") + 16 :][:8])
    assert synced == data.rindex(b"ZFRM")
    durable = [batch.raw for batch in author.batches if data.index(batch.raw) < synced]
    assert len(durable) < len(author.batches)
    for length in range(synced, len(data)):
        disk.replace(path, data[:length])
        recovered = recover(disk)
        assert not recovered.damage, length
        assert not recovered.problems, length
        assert raws(recovered.recent) == durable, length


def test_every_cut_before_the_sync_mark_is_noticed_by_the_mark_that_was_known():
    """Without a frame after it nothing in the file says that the lost part was durable; the known mark does."""
    disk, author, log = lived()
    log.set_mark(author.last[0])
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    for length in range(1, len(data), 7):
        disk.replace(path, data[:length])
        recovered = recover(disk)
        assert recovered.damage[0].path == "version-1/committed"
        assert "was durable here" in recovered.damage[0].reason


def test_zeros_behind_the_last_frame_are_no_damage():
    disk, author, _ = lived()
    path = log_path(author.batches[0].first)
    disk.replace(path, disk.read(path) + bytes(5000))
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert held(log) == raws(author.batches)


def test_valid_frames_behind_a_torn_one_of_the_same_window_are_cut_too():
    """C2: two frames in flight, the first torn; both carry the same sync mark."""
    disk, author, _ = lived()
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    at = data.rindex(b"ZFRM")
    seed = seed_of(author.batches[0].first)
    one, two = author.write(2)
    torn = bytearray(pack_frame(seed, len(data), at, [one.raw]))
    torn[-1] ^= 1
    disk.replace(path, data + torn + pack_frame(seed, len(data) + len(torn), at, [two.raw]))
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert raws(recovered.recent) == raws(author.batches[:-2]) == held(log)


def test_bytes_of_a_client_that_look_like_a_frame_are_none():
    disk, author, _ = lived(2)
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    frame = data[data.rindex(b"ZFRM") :]
    torn = b"garbage" + frame + b"more"
    disk.replace(path, data + torn)
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.last == author.last


def test_what_is_behind_the_sync_mark_is_made_durable_before_it_counts():
    """C1: it reads fine from the page cache, and would be gone with the next power cut."""
    for seed in range(40):
        disk, author, _ = lived(3)
        path = log_path(author.batches[0].first)
        # The last frame again, but written without a sync, as after a failed one: only the page cache has it.
        data = disk.read(path)
        at = data.rindex(b"ZFRM")
        disk.truncate(path, at)
        file = disk.open_append(path, create=False, offset=at)
        file.write(data[at:])
        recovered = recover(disk)
        assert recovered.last == author.last
        disk.crash(Random(seed))
        again = recover(disk)
        assert again.last == author.last
        assert not again.damage
        assert not again.problems


def test_copy_of_a_whole_file_takes_its_place():
    disk, author, _ = lived(1)
    before = log_files(disk)
    _, log = reopened(disk)
    assert log_files(disk) == before
    assert held(log) == raws(author.batches)


def test_clean_stop_leaves_nothing_to_copy():
    disk, author, log = lived()
    log.close()
    disk.log.clear()
    assert recover(disk).last == author.last
    assert list(disk.log) == ["sync_directory version-1"]


@pytest.mark.parametrize("content", [b"", b"ZLOG", bytes(64), bytes(5000)])
def test_file_that_was_being_begun_is_removed(content):
    """ZOOKEEPER-1621: a newest log file without a header is no error."""
    disk, author, _ = lived()
    path = log_path(author.last[0] + 1)
    disk.replace(path, content)
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert not disk.exists(path)
    assert held(log) == raws(author.batches)
    log.append(author.write(1))


# Damage (C2).


def test_every_flipped_byte_before_the_sync_mark_is_damage_and_after_it_is_torn():
    disk, author, _ = lived(5)
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    synced = data.rindex(b"ZFRM")
    files = {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")}
    frames = [at for at in range(len(data)) if data.startswith(b"ZFRM", at)]
    for at in range(len(data)):
        disk.flip(path, at * 8 + at % 8)
        recovered = recover(disk)
        if at < SEGMENT_HEADER_BYTES:
            # The chain of the batches says all that the header says.
            assert not recovered.damage, at
            assert [problem.path for problem in recovered.problems] == [path], at
            assert recovered.last == author.last, at
        elif at < synced:
            (damage,) = recovered.damage
            assert damage.path == path
            frame = max(frame for frame in frames if frame <= at)
            assert frame <= damage.offset <= at, at
            assert damage.action == "the file is kept"
            assert recovered.last[0] < author.last[0]
            assert recovered.log.damaged
            # Nothing is changed on disk.
            disk.flip(path, at * 8 + at % 8)
            assert files == {name: disk.read(f"version-1/{name}") for name in disk.list("version-1")}
            continue
        else:
            assert not recovered.damage, at
            assert not recovered.problems, at
            assert recovered.last[0] < author.last[0]
        disk = FaultyDisk()
        for name, content in files.items():
            disk.replace(f"version-1/{name}", content)


def test_damage_tells_what_is_intact_behind_it():
    """E8 (3)."""
    disk, author, _ = lived(6)
    path = log_path(author.batches[0].first)
    disk.flip(path, 8 * (disk.read(path).index(author.batches[2].raw) + HEADER_BYTES + 3))
    recovered = recover(disk)
    assert recovered.last == (author.batches[1].zxid, author.batches[1].chain)
    assert recovered.proven_zxid == author.last[0]


@pytest.mark.parametrize("sectors", [1, 2])
def test_lost_sectors_in_the_middle_are_damage_not_the_end_of_the_log(sectors):
    """C2: a lost middle write of a preallocated file reads as zeros."""
    disk, author, _ = lived(40)
    path = log_path(author.batches[0].first)
    disk.corrupt(path, 1024, bytes(512 * sectors))
    recovered = recover(disk)
    (damage,) = recovered.damage
    assert damage.path == path
    assert 1024 - 600 < damage.offset <= 1024
    assert recovered.proven_zxid == author.last[0]


def test_stale_sector_is_damage():
    """A block of the same file in the wrong place, with all its checksums right."""
    disk, author, _ = lived(40)
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    frames = [at for at in range(len(data)) if data.startswith(b"ZFRM", at)]
    sizes = {at: end - at for at, end in pairwise(frames)}
    to, source = next((a, b) for a in frames[5:] for b in frames[:3] if b != a and sizes.get(a) == sizes[b])
    disk.corrupt(path, to, data[source : source + sizes[source]])
    (damage,) = recover(disk).damage
    assert damage.offset == to


def test_missing_file_is_a_gap():
    """A deleted middle log file is noticed."""
    disk, _, log = lived(20, segment_bytes=900)
    gone = log.segments[2]
    disk.remove(gone.path)
    recovered = recover(disk)
    (damage,) = recovered.damage
    assert f"gap: the history goes on at {log.segments[3].first:#x} after {gone.previous[0]:#x}" in damage.reason
    assert recovered.last == gone.previous


def test_missing_first_file_without_a_snapshot_is_a_gap():
    """ZOOKEEPER-3056: log entries whose beginning is missing are not replayed onto nothing."""
    disk, _, log = lived(20, segment_bytes=900)
    disk.remove(log.segments[0].path)
    recovered = recover(disk)
    assert "gap" in recovered.damage[0].reason
    assert recovered.last == START


def test_damage_in_a_closed_file_is_damage_though_it_is_behind_its_last_sync_mark():
    disk, _, log = lived(20, segment_bytes=900)
    closed = log.segments[1]
    disk.flip(closed.path, 8 * (closed.end - 5))
    (damage,) = recover(disk).damage
    assert damage.path == closed.path


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_damaged_frame_that_held_no_batch_costs_nothing(is_closed: bool) -> None:
    """An idle frame says how far the file is synced; who cannot read it has lost none of the history."""
    disk, author, log = lived(appends=2)
    first, at = author.batches[0].first, log.segments[0].end
    log.idle()
    log.append(author.write(2))
    if is_closed:
        log.roll()
        log.append(author.write(1))
    log.append(author.write(2))
    log.append(author.write(1))
    disk.flip(log_path(first), 8 * at + 5)
    for name in disk.list("version-1"):
        if name.endswith(".index"):
            disk.remove(f"version-1/{name}")
    recovered = recover(disk)
    assert not recovered.damage
    assert [problem.offset for problem in recovered.problems] == [at]
    assert recovered.last == author.last
    again = TransactionLog(disk, recovered.log)
    assert raws(again.read(START[0], 1 << 20)) == raws(author.batches)
    assert again.floor(author.batches[1].zxid) == (author.batches[1].zxid, author.batches[1].chain)
    place = author.batches[-2]
    again.truncate(place.zxid, place.chain)
    assert raws(reopened(disk)[1].read(START[0], 1 << 20)) == raws(author.batches[:-1])


def test_batch_that_breaks_the_chain_is_damage():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(2))
    other = Author(seed=9)
    other.write(1)
    stranger = build(
        bytes(16),
        epoch=1,
        first=author.last[0] + 1,
        count=1,
        time=0,
        flags=0,
        mark=0,
        applied=0,
        digest=0,
        body=other.batches[0].body,
    )
    log.append([stranger])
    log.idle()
    recovered = recover(disk)
    assert "does not continue the chain" in recovered.damage[0].reason
    assert recovered.last == author.last


def test_batch_without_transactions_is_damage():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(1))
    first = author.last[0] + 1
    odd = build(author.last[1], epoch=1, first=first, count=1, time=0, flags=0, mark=0, applied=0, digest=0, body=b"x")
    log.append([odd])
    assert not recover(disk).damage, "it is not committed, so it is not decoded"
    save_mark(disk, LINEAGE, first)
    assert "no transactions" in recover(disk).damage[0].reason


def test_tree_that_differs_from_its_leaders_is_noticed():
    """E5."""
    disk, author = FaultyDisk(), Author()
    author.write(3)
    author.states[author.batches[0].zxid] = (12345, 0)
    author.write(1, lag=3)
    log = fresh_log(disk)
    log.append(author.batches)
    assert recover(disk).mismatch_zxid == author.batches[0].zxid


def test_unreadable_file_is_an_error_of_the_disk():
    disk, author, _ = lived()
    disk.fail_reads(log_path(author.batches[0].first))
    with pytest.raises(OSError, match="Input/output error"):
        recover(disk)


# Snapshots and the log.


def with_snapshot(at: int, **options: int) -> tuple[FaultyDisk, Author, TransactionLog]:
    """A member that took a snapshot after `at` of its 24 batches."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk, **options)
    for number in range(1, 25):
        log.append(author.write(1))
        if number == at:
            snapshot(disk, author.tree, author.last[1])
    return disk, author, log


@pytest.mark.parametrize("segment_bytes", [900, 1 << 20])
@pytest.mark.parametrize("at", [1, 12, 23, 24])
def test_snapshot_and_the_log_behind_it(at, segment_bytes):
    disk, author, _ = with_snapshot(at, segment_bytes=segment_bytes)
    recovered, log = reopened(disk)
    assert recovered.snapshot_zxid == author.batches[at - 1].zxid
    assert recovered.last == author.last
    assert recovered.tree.applied == recovered.mark == author.batches[max(at, 23) - 1].zxid
    assert (recovered.tree.digest, recovered.tree.znode_count) == author.states[recovered.mark]
    assert recovered.base[0] >= recovered.snapshot_zxid
    assert held(log) == raws(author.batches)
    assert not recovered.problems


def test_log_is_not_needed_below_the_snapshot():
    disk, author, log = with_snapshot(12, segment_bytes=900)
    for segment in log.segments:
        if segment.last[0] <= author.batches[11].zxid:
            disk.remove(segment.path)
    recovered, again = reopened(disk)
    assert not recovered.damage
    assert recovered.last == author.last
    assert again.first_position[0] > 0


def test_damaged_snapshot_is_set_aside_and_the_one_before_it_used():
    disk, author, _ = with_snapshot(12)
    path = snapshot_path(author.batches[11].zxid)
    disk.flip(path, 8 * (disk.size(path) // 2))
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.snapshot_zxid == 0
    assert [problem.path for problem in recovered.problems] == [path]
    assert recovered.last == author.last
    assert recovered.tree.digest == author.states[recovered.mark][0]
    assert disk.list("version-1.damaged") == [path.removeprefix("version-1/")]
    assert not disk.exists(path)


def test_damaged_snapshot_without_the_log_before_it_is_damage():
    disk, author, log = with_snapshot(12, segment_bytes=900)
    path = snapshot_path(author.batches[11].zxid)
    disk.flip(path, 8 * (disk.size(path) // 2))
    disk.remove(log.segments[0].path)
    recovered = recover(disk)
    assert recovered.damage
    assert disk.exists(path)


def test_damaged_snapshot_above_the_end_of_the_log_is_damage():
    """The history must not fall below what the snapshot's existence proves."""
    disk, author, _ = with_snapshot(24)
    path = snapshot_path(author.last[0])
    disk.flip(path, 8 * 100)
    disk.truncate(log_path(author.batches[0].first), SEGMENT_HEADER_BYTES)
    assert recover(disk).damage[0].path == path


def test_damage_wholly_below_the_snapshot_is_only_reported():
    """E8 (1)."""
    disk, author, _ = with_snapshot(12)
    path = log_path(author.batches[0].first)
    where = disk.read(path).index(author.batches[5].raw)
    disk.flip(path, 8 * (where + HEADER_BYTES))
    recovered, log = reopened(disk)
    assert not recovered.damage
    (problem,) = recovered.problems
    assert (problem.path, problem.offset) == (path, where)
    assert recovered.last == author.last
    assert (
        log.first_position == recovered.log.segments[0].previous == (author.batches[11].zxid, author.batches[11].chain)
    )
    assert held(log) == raws(author.batches[12:])


def test_damage_across_the_snapshot_is_damage():
    disk, author, _ = with_snapshot(12)
    path = log_path(author.batches[0].first)
    data = disk.read(path)
    start, end = data.index(author.batches[11].raw), data.index(author.batches[12].raw)
    disk.corrupt(path, start + 5, bytes(end - start + 20))
    recovered = recover(disk)
    assert len(recovered.damage) == 1
    assert recovered.last[0] == author.batches[11].zxid
    assert recovered.proven_zxid == author.last[0]


def test_log_left_behind_an_installed_snapshot_is_set_aside():
    """ZOOKEEPER-2832: a crash between the installed snapshot and the reset of the log."""
    disk, _, _ = lived(5)
    ahead = Author(seed=1)
    ahead.write(60)
    path = snapshot(disk, ahead.tree, ahead.last[1])
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert recovered.last == ahead.last
    assert recovered.tree.digest == ahead.tree.digest
    assert log_files(disk) == []
    assert any(name.endswith(".stale") for name in disk.list("version-1"))
    assert "does not connect" in recovered.problems[0].reason
    log.append(ahead.write(2))
    disk.crash(Random(0))
    assert recover(disk).last == ahead.last
    assert disk.exists(path)


def test_log_with_another_history_at_the_snapshot_is_set_aside():
    """The numbers fit; the chain does not."""
    disk, author, _ = lived(9)
    other = Author(seed=77)
    while other.last[0] < author.batches[3].zxid:
        other.batch()
    snapshot(disk, other.tree, other.last[1])
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert recovered.last == other.last
    assert held(log) == []


def test_files_of_another_lineage_are_set_aside():
    disk, author, log = lived(5)
    log.roll()
    lineage = b"another lineage!"
    stranger = Author(epoch=2, start=(author.last[0], genesis(lineage)))
    batch = stranger.write(1, lag=9)
    write_segment(disk, SegmentHeader(lineage, (author.last[0], genesis(lineage)), batch[0].first), batch)
    recovered, again = reopened(disk)
    assert not recovered.damage
    assert recovered.last == author.last
    assert lineage.hex() in recovered.problems[0].reason
    assert held(again) == raws(author.batches)


def test_leftovers_of_a_crash_are_removed():
    disk, _, log = lived()
    log.preallocate()
    for name in ("snapshot.10.tmp", "snapshot.20.fetch", "member.tmp"):
        disk.replace(f"version-1/{name}", b"half")
    recover(disk)
    assert not [name for name in disk.list("version-1") if name.endswith((".tmp", ".fetch", "spare"))]


def test_without_the_sync_mark_a_lost_sector_would_be_a_torn_tail(monkeypatch):
    """A reader that stops at the first bad frame, as if everything after it had never been there."""
    original = found_file.scan

    def first_bad_ends_it(data: bytes, first: int, start: int) -> Scan:
        found = original(data, first, start)
        found.synced = 0
        return found

    monkeypatch.setattr(found_file, "scan", first_bad_ends_it)
    disk, author, _ = lived(40)
    disk.corrupt(log_path(author.batches[0].first), 1024, bytes(512))
    assert not recover(disk).damage, "this is what the sync mark is for"


def test_member_that_lost_the_medium_is_amnesiac():
    disk, _, _ = lived()
    disk.lose_everything()
    recovered = recover(disk)
    assert recovered.empty
    assert recovered.amnesiac


def test_member_record_says_which_server():
    disk = FaultyDisk()
    save_epochs(disk, 1, 1)
    save_member(disk, MemberRecord(LINEAGE, 7))
    assert not recover(disk, server_id=7).amnesiac


# --------------------------------------------------------------------------------------------------------- a full disk


@pytest.mark.parametrize("idle", [True, False])
@pytest.mark.parametrize("preallocated", [0, 5_000])
def test_a_start_needs_no_free_byte(idle: bool, preallocated: int) -> None:
    """What was not known to be synced is written again in its own place, and is there after the next loss of power."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    if idle:
        log.idle()
    log.append(author.write(3))
    disk.kill()
    path = log.segments[-1].path
    disk.open_append(path, create=False, offset=disk.size(path)).write(bytes(preallocated))
    disk.capacity_bytes -= disk.free_bytes()
    recovered = recover(disk)
    assert recovered.last == log.last
    assert not recovered.damage
    assert [segment.last for segment in recovered.log.segments][-1] == log.last
    has_room = preallocated > 0
    assert any("written again in its place" in str(problem) for problem in recovered.problems) == (not has_room)
    disk.crash(Random(1))
    disk.capacity_bytes = 1 << 40
    again = recover(disk)
    assert again.last == log.last
    assert not again.damage
    assert [name for name in disk.list("version-1") if name.endswith(".tmp")] == []


def test_what_is_written_again_is_synced() -> None:
    """It reads fine before, from the page cache, and may be gone with the next power cut (C1 failed syncs)."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    disk.kill()
    disk.capacity_bytes -= disk.free_bytes()
    disk.log.clear()
    recover(disk)
    path = log.segments[-1].path
    done = [what for what in disk.log if path in what and "index" not in what]
    assert [what.split()[0] for what in done[-2:]] == ["write", "sync"]
    assert done[-2].endswith(f" 0+{log.segments[-1].end}")


def test_another_error_of_the_disk_ends_a_start() -> None:
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    disk.kill()
    disk.fail_after(2)
    with pytest.raises(OSError, match="Input/output"):
        recover(disk)
