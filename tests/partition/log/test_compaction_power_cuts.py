"""Compaction, cut off at every single operation of its disk, and its recovery cut off too: each key has its newest
value, no older one comes back, nothing is lost, and the next round ends what this one did not."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import attrs
import pytest

from tests.partition.log.compaction import COMPACTED, compact, files, keyed, newest, records_of_log
from tests.partition.log.derived import check_indexes
from tests.partition.log.rig import NOW, fresh, marker, marks_of, recovered
from zab.simulator.world.disk import FaultyDisk, PowerLossError

DAY_MS = 86_400_000
CHANGES = {**COMPACTED, "segment_bytes": 400}


def filled(disk, seed):
    """A log of several rounds, everything synced: keys, tombstones, producers, transactions."""
    rng = Random(seed)
    stored = fresh(disk, **CHANGES)
    for number in range(24):
        key = b"%d" % rng.randrange(5)
        value = None if rng.random() < 0.3 else rng.randbytes(rng.randrange(40))
        if number % 8 == 6:
            stored.add(
                keyed(
                    [(key, value)], producer_id=1, producer_epoch=0, base_sequence=number // 8, is_transactional=True
                ),
                verified=True,
            )
            stored.add(marker(1, 0, commits=rng.random() < 0.5))
        else:
            stored.add(keyed([(key, value), (b"%d" % rng.randrange(5), b"2")]), epoch=number // 9)
        if number == 12:
            stored.commit()
            stored.log.flush_all()
            stored.store()
            compact(stored)
    stored.commit()
    stored.log.flush_all()
    stored.store()
    return stored


def power_cut(seed, point, has_old_marks):
    """Compact until the power goes at this operation; False when the round ended before."""
    disk, rng = FaultyDisk(), Random(seed * 1000 + point)
    stored = filled(disk, seed)
    marks = marks_of(stored.log)
    if has_old_marks:
        # The last checkpoint is an old one, so recovery scans what was compacted.
        marks = attrs.evolve(marks, recovery_point=stored.log.segments[1].base_offset)
    end = stored.log.log_end
    aborted = {each.first_offset for each in stored.log.aborted_transactions(0, end)}
    before = newest([each for each in records_of_log(stored) if each.offset not in aborted])
    sequence, epochs = stored.log.producers.states[1].last_sequence, stored.log.epochs.entries
    disk.crash_after(point)
    try:
        compact(stored, NOW + 2 * DAY_MS)
    except PowerLossError:
        disk.crash(rng)
    else:
        return False
    for again in range(3):
        disk.crash_after(rng.randint(1, 8) if again < 2 else None)
        try:
            stored = recovered(disk, marks, **CHANGES)
        except PowerLossError:
            disk.crash(rng)
    disk.crash_after(None)
    check_all(stored, before, aborted, end)
    assert stored.log.producers.states[1].last_sequence == sequence
    assert stored.log.epochs.entries == epochs
    stored.commit()
    compact(stored, NOW + 2 * DAY_MS)
    check_all(stored, before, aborted, end)
    return True


def check_all(stored, before, aborted, end):
    found = [each for each in records_of_log(stored) if each.offset not in aborted]
    after = newest(found)
    assert stored.log.log_end == end, stored.notes
    offsets = [each.offset for each in records_of_log(stored)]
    assert offsets == sorted(set(offsets))
    for key, (offset, value) in before.items():
        if value is not None:
            assert after.get(key) == (offset, value), key
        else:
            assert after.get(key, (offset, None)) == (offset, None), f"{key} is back"
    check_indexes(stored)
    assert not [name for name in files(stored) if name.endswith((".cleaned", ".swap", ".tmp", ".deleted"))]


@pytest.mark.slow
@pytest.mark.parametrize("has_old_marks", [False, True])
def test_power_cut_at_any_operation_of_a_round_loses_nothing_and_brings_nothing_back(has_old_marks):
    point = 1
    while power_cut(int(has_old_marks), point, has_old_marks):
        point += 1
    assert point > 40


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_operation_of_a_round_fails_the_log_and_loses_nothing(error):
    point, has_ended = 1, False
    while not has_ended:
        disk = FaultyDisk()
        stored = filled(disk, 1)
        marks, end = marks_of(stored.log), stored.log.log_end
        aborted = {each.first_offset for each in stored.log.aborted_transactions(0, end)}
        before = newest([each for each in records_of_log(stored) if each.offset not in aborted])
        disk.fail_after(point, error)
        operations = disk.operations
        # A job that reads: the round ends.
        with suppress(OSError):
            compact(stored, NOW + 2 * DAY_MS)
        has_ended = disk.operations - operations < point
        disk.crash(Random(point))
        check_all(recovered(disk, marks, **CHANGES), before, aborted, end)
        point += 1
    assert point > 40
