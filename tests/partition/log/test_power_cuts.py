"""A log's life, cut off at every single operation of its disk: nothing that was confirmed as synced is missing, what is
left is a prefix of what was appended, and everything that is derived fits to it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import count, takewhile
from random import Random

import attrs
import pytest

from tests.partition.log.derived import check_derived
from tests.partition.log.rig import NOW, Stored, batch, fresh, headers, marker, marks_of, produced, recovered
from tests.partition.log.twin import Twin
from zab.partition.log.errors import LogError, LogFailedError
from zab.partition.log.log import Log
from zab.partition.log.recovery import Marks
from zab.simulator.world.disk import FaultyDisk, PowerLossError

STEPS = 14
CHANGES = {"segment_bytes": 500, "retention_bytes": 1500}


@attrs.define
class Promised:
    """What is known when the power goes."""

    twin: Twin = attrs.Factory(Twin)
    """The log as its owner knows it."""
    former: list[Twin] = attrs.Factory(list)
    """What it was before cuts that may not be on the disk."""
    synced: int = 0
    """Below it everything was confirmed."""
    marks: Marks = attrs.Factory(Marks)
    """The newest checkpoints. They may be older than a truncation."""

    def store(self, stored: Stored) -> None:
        stored.store()
        if stored.log.failure is None:
            self.former.clear()
            self.synced = stored.log.synced_end


def append(log: Log, data: bytearray, epoch: int, now: int, twin: Twin) -> None:
    """Append, unless the log refuses it, or has it already."""
    try:
        appended = log.append_as_leader(data, headers(data), epoch, now, is_verified=True)
    except LogError:
        return
    if not appended.is_duplicate:
        twin.append(data)


def live(stored: Stored, rng: Random, promised: Promised, steps: int, epoch: int) -> None:
    """A log's life, to its end or to the fault."""
    for step in range(steps):
        log, twin, now = stored.log, promised.twin, NOW + step
        what = rng.random()
        if what < 0.45:
            for _ in range(rng.randint(1, 3)):
                data = batch([rng.randbytes(rng.randint(1, 50)) for _ in range(rng.randint(1, 3))], timestamp=now)
                if rng.random() < 0.5:
                    data = produced(rng.randint(1, 2), epoch, step % 2 * 2, 2, transactional=rng.random() < 0.5)
                append(log, data, epoch, now, twin)
        elif what < 0.6:
            append(log, marker(rng.randint(1, 2), epoch, commits=rng.random() < 0.3), epoch, now, twin)
        elif what < 0.7:
            log.update_high_watermark(rng.randint(log.high_watermark, log.log_end))
        elif what < 0.8:
            epoch += 1
            promised.former.append(deepcopy(twin))
            offset = rng.randint(log.log_start, log.log_end)
            promised.synced = min(promised.synced, offset)
            log.truncate(offset)
            twin.truncate(offset, log.segments[0].base_offset)
            promised.synced = min(promised.synced, twin.end)
            log.begin_epoch(epoch)
        elif what < 0.84:
            promised.former.append(deepcopy(twin))
            promised.synced = 0
            log.truncate_fully_and_start_at(log.log_end + rng.randint(0, 3), now)
            twin.restart(log.log_end)
        elif what < 0.9:
            log.apply_retention(now)
            log.remove_deleted(now + (1 << 40))
        elif what < 0.96:
            log.flush()
        else:
            promised.marks = marks_of(log)
        if rng.random() < 0.7:
            promised.store(stored)


def check(stored: Stored, promised: Promised) -> Twin:
    """The history of which the log is a part; the log is stored."""
    log, content = stored.log, stored.content()
    assert log.log_end >= promised.synced, f"{promised.synced} was synced, the log ends at {log.log_end}"
    assert log.synced_end == log.log_end
    for twin in (promised.twin, *promised.former):
        left = deepcopy(twin)
        left.batches = [each for each in twin.batches if each.last < log.log_end]
        left.start = log.log_start
        if left.content == content:
            check_derived(stored, left)
            left.end = log.log_end
            return left
    raise AssertionError(f"{[each[0] for each in content]} is no prefix")


def power_cut(seed: int, point: int, mode: str) -> bool:
    """Live until the power goes at this operation, and start again; False when the life ended before."""
    disk, promised, rng = FaultyDisk(), Promised(), Random(seed * 1000 + point)
    stored = fresh(disk, flush_mode=mode, **CHANGES)
    disk.crash_after(point)
    try:
        live(stored, Random(seed), promised, STEPS, 0)
    except PowerLossError:
        disk.crash(rng)
    else:
        return False
    for again in range(3):
        disk.crash_after(rng.randint(1, 12) if again < 2 else None)
        try:
            stored = recovered(disk, promised.marks, flush_mode=mode, **CHANGES)
        except PowerLossError:
            disk.crash(rng)
            continue
        disk.crash_after(None)
        twin = check(stored, promised)
        promised = Promised(twin, synced=twin.end, marks=promised.marks if rng.random() < 0.5 else marks_of(stored.log))
        live(stored, rng, promised, 3, 100 + again)
        disk.crash(rng)
    return True


def power_cuts(seeds: range, mode: str) -> Iterator[str]:
    """Everything that is wrong after a power cut at every single operation of these lives."""
    for seed in seeds:
        point = 1
        while True:
            try:
                if not power_cut(seed, point, mode):
                    break
            except AssertionError as error:
                yield f"seed {seed}, operation {point}, {mode}: {error}"
            point += 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["os", "batch"])
def test_power_cut_at_any_operation_loses_nothing_that_was_synced(mode):
    assert list(power_cuts(range(5), mode)) == []


def failure(seed: int, point: int, mode: str, error: int) -> bool:
    """Live until this operation fails, and start again after a power cut; False when the life ended before."""
    disk, promised = FaultyDisk(), Promised()
    stored = fresh(disk, flush_mode=mode, **CHANGES)
    disk.fail_after(point, error)
    before = disk.operations
    with suppress(LogFailedError):
        live(stored, Random(seed), promised, STEPS, 0)
    if disk.operations - before < point:
        return False
    stored.store()
    assert stored.files.failures
    if stored.log.failure is None:
        stored.log.begin_epoch(1000)
        stored.store()
    assert stored.log.failure is not None, "an error was swallowed"
    disk.crash(Random(point))
    check(recovered(disk, promised.marks, flush_mode=mode, **CHANGES), promised)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["os", "batch"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failed_operation_anywhere_fails_the_log_and_nothing_synced_is_lost(mode, error):
    for seed in range(3):
        points = takewhile(lambda point, seed=seed: failure(seed, point, mode, error), count(1))
        assert len(list(points)) > 10
