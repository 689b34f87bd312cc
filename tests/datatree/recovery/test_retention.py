from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.log.segment import log_files, log_path
from datatree.recovery.recover import recover
from datatree.recovery.retention import given_up, purge, removable
from datatree.snapshot import snapshot_files, snapshot_path
from tests.datatree.histories import held, raws
from tests.datatree.recovery.aged_files import aged
from zab.simulator.world.disk import PowerLossError


def test_rule_of_autopurge():
    gone = removable([10, 20, 30, 40], [5, 10, 20, 30, 40], [1, 8, 15, 20, 25, 45], [], 3)
    assert set(gone) == {snapshot_path(5), snapshot_path(10), log_path(1), log_path(8), log_path(15)}


def test_only_valid_snapshots_count():
    """ZOOKEEPER-3231: N newest files that are all broken kept, and the good one removed."""
    assert removable([10, 20], [10, 20, 30, 40], [1, 15], [], 3) == []
    gone = removable([10, 20, 30], [10, 20, 30, 40, 50], [1, 5, 15], [], 3)
    assert gone == [log_path(1)]


def test_files_in_use_stay_and_so_does_the_log_behind_them():
    gone = removable([40, 50, 60], [10, 40, 50, 60], [1, 8, 15, 20], [], 3, in_use={log_path(8), snapshot_path(10)})
    assert gone == [log_path(1)]


def test_stale_files_go_with_the_snapshots():
    stale = [(7, "version-1/log.7.stale"), (40, "version-1/log.28.stale"), (99, "version-1/snapshot.63.stale")]
    gone = removable([40, 50, 60], [40, 50, 60], [30], stale, 3)
    assert gone == ["version-1/log.7.stale", "version-1/log.28.stale"]


def test_fewer_than_three_are_not_kept():
    with pytest.raises(AssertionError):
        removable([1, 2, 3], [1, 2, 3], [1], [], 2)


def test_log_behind_a_pinned_snapshot_stays():
    snapshots, logs = [10, 20, 30, 40, 50, 60], [1, 8, 15, 20, 25, 45, 55]
    gone = removable(snapshots, snapshots, logs, [], 3, {snapshot_path(20)}, pinned=20)
    assert gone == [log_path(1), log_path(8), snapshot_path(10), log_path(15), snapshot_path(30)]


def test_what_is_pinned_above_the_rule_changes_nothing():
    assert removable([10, 20, 30], [10, 20, 30], [1, 5, 15], [], 3, pinned=30) == [log_path(1)]


@pytest.mark.parametrize(
    ("bytes_max", "lost"),
    [(300, []), (299, [10]), (200, [10]), (199, [10, 20]), (0, [10, 20])],
)
def test_pins_cost_only_what_the_rule_alone_would_remove(bytes_max, lost):
    """At 40 the rule would leave the files from 35 on; a pin at 10 keeps three more, one at 20 two."""
    sizes = dict.fromkeys([1, 10, 15, 25, 35, 55], 100)
    assert given_up([20, 10, 40, 20, 60], [20, 40, 50, 60], sizes, 3, bytes_max) == lost


def test_with_as_many_snapshots_as_are_kept_pins_cost_something():
    assert given_up([5], [10, 20, 30], {1: 100, 3: 100, 8: 100}, 3, 99) == [5]
    assert given_up([5], [10, 20, 30], {1: 100, 3: 100, 8: 100}, 3, 100) == []


def test_with_few_snapshots_nothing_goes_so_nothing_is_given_up():
    assert given_up([10], [10, 20], {1: 100, 10: 100, 20: 100}, 3, 0) == []


def test_purge_spares_what_is_pinned_until_that_is_too_much():
    disk, author, log = aged()
    pin, *_ = snapshot_files(disk)
    purged = purge(disk, log, pinned=[pin], pinned_bytes_max=1 << 30)
    assert purged.given_up == []
    assert snapshot_files(disk)[0] == pin
    after = [batch for batch in author.batches if batch.zxid > pin]
    assert log.read_from(pin, 1 << 40)[1] == after
    purged = purge(disk, log, pinned=[pin], pinned_bytes_max=1)
    assert purged.given_up == [pin]
    assert snapshot_path(pin) in purged.removed
    assert log.read_from(pin, 1 << 40) == (None, [])
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.last == author.last


@given(
    valid=st.sets(st.integers(1, 60), min_size=1),
    invalid=st.sets(st.integers(1, 60)),
    logs=st.sets(st.integers(1, 60), min_size=1),
    keep_count=st.integers(3, 5),
    used=st.sets(st.integers(1, 60)),
    pinned=st.none() | st.integers(1, 60),
)
def test_what_stays_can_always_be_recovered(valid, invalid, logs, keep_count, used, pinned):
    gone = set(removable(valid, valid | invalid, logs, [], keep_count, {log_path(zxid) for zxid in used}, pinned))
    kept_logs = [first for first in sorted(logs) if log_path(first) not in gone]
    assert kept_logs == sorted(logs)[-len(kept_logs) :], "no gap"
    for zxid in sorted(valid)[-keep_count:]:
        assert snapshot_path(zxid) not in gone
    for zxid in [*sorted(valid)[-keep_count:], *([] if pinned is None else [pinned])]:
        # The batch after the snapshot is in the newest file that begins at or below it.
        holding = [first for first in logs if first <= zxid]
        assert not holding or max(holding) in kept_logs
    assert not gone & {log_path(zxid) for zxid in used}
    if len(valid) < keep_count:
        assert not gone


def test_purge_removes_files_and_the_log_forgets_them():
    disk, author, log = aged()
    zxids = snapshot_files(disk)
    gone = purge(disk, log).removed
    assert snapshot_files(disk) == zxids[1:], "of five, four are valid"
    assert log_path(1 << 32 | 1) in gone
    assert not any(disk.exists(path) for path in gone)
    assert not [name for name in disk.list("version-1") if f"version-1/{name}".removesuffix(".index") in gone]
    assert 0 < log.first_position[0] <= zxids[1]
    assert held(log) == raws([batch for batch in author.batches if batch.zxid > log.first_position[0]])
    assert purge(disk, log).removed == []
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.last == author.last
    assert recovered.tree.digest == author.states[recovered.mark][0]


def test_every_kept_snapshot_recovers_when_the_newer_ones_are_damaged():
    disk, author, log = aged()
    purge(disk, log)
    for zxid in reversed(snapshot_files(disk)[1:]):
        path = snapshot_path(zxid)
        if disk.exists(path):
            disk.flip(path, 8 * 90)
        recovered = recover(disk)
        assert not recovered.damage
        assert recovered.last == author.last


def test_snapshots_known_to_be_valid_are_not_read_again():
    disk, _, log = aged()
    for zxid in snapshot_files(disk):
        disk.fail_reads(snapshot_path(zxid))
    with pytest.raises(OSError, match="Input/output"):
        purge(disk, log)
    assert purge(disk, log, known_valid=snapshot_files(disk)).removed


def test_power_cut_anywhere_in_a_purge_leaves_a_history_without_gaps():
    for point in range(1, 200):
        disk, author, log = aged()
        disk.crash_after(point)
        done = True
        try:
            purge(disk, log)
        except PowerLossError:
            done = False
        disk.crash(Random(point))
        recovered = recover(disk)
        assert not recovered.damage, point
        assert recovered.last == author.last
        previous = recovered.log.segments[0].previous
        for segment in recovered.log.segments:
            assert segment.previous == previous
            previous = list(segment.frames(disk))[-1][1][-1:] and segment.last
        assert len(log_files(disk)) == len(recovered.log.segments)
        if done:
            return
    raise AssertionError("never done")
