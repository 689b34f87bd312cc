"""A member's life, cut off at every single operation of its disk: nothing that it may have acknowledged is missing."""

import errno
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from datatree.log.disk import Then
from datatree.log.segment import LogDamagedError
from datatree.recovery import recover as recovery
from datatree.recovery.recover import recover
from tests.datatree.histories import START, Author, fresh_log, reopened, snapshot, synchronized
from zab.simulator.world.disk import FaultyDisk, FaultyFile, PowerLossError


def live(disk: FaultyDisk, seed: int, promised: list[tuple[int, bytes]]) -> None:
    """A member's life, to its end or to the fault: appends, idle frames, rolls, marks, snapshots, cuts, restarts.

    `promised` is what it may acknowledge: the position after every append that returned, and after every recovery."""
    author, rng = Author(seed=seed), Random(seed)
    log = fresh_log(disk, segment_bytes=1500)
    log.append(author.write(1))
    promised.append(log.last)
    for _ in range(14):
        what = rng.random()
        if what < 0.55:
            log.append(author.write(rng.randint(1, 3)))
            promised.append(log.last)
        elif what < 0.62:
            log.idle()
        elif what < 0.68:
            log.roll()
        elif what < 0.76 and author.batches:
            log.set_mark(author.batches[-rng.randint(1, len(author.batches))].zxid)
        elif what < 0.86 and author.batches:
            log.set_mark(log.last[0])
            snapshot(disk, author.tree, author.last[1])
        elif what < 0.89:
            log.preallocate()
        elif what < 0.94:
            kept = rng.randint(sum(batch.zxid <= log.mark for batch in author.batches), len(author.batches))
            author = author.cut(kept)
            # What a leader cuts off was never committed: nothing is owed for it from here on.
            promised[:] = [position for position in promised if position[0] <= author.last[0]]
            log.truncate(*author.last)
        else:
            _, log = reopened(disk, segment_bytes=1500)
            promised.append(log.last)


def end(disk: FaultyDisk, rng: Random) -> None:
    """The power goes, or only the process."""
    if rng.random() < 0.7:
        disk.crash(rng)
    else:
        disk.kill()


def power_cut(seed: int, point: int) -> list[str] | None:
    """Live until the power goes, or the process dies, at this operation, start again (and again), and say what is
    wrong.

    None when the life ended before."""
    disk, promised, rng = FaultyDisk(), [], Random(seed * 1000 + point)
    synchronized(disk)
    disk.crash_after(point)
    try:
        live(disk, seed, promised)
    except PowerLossError:
        end(disk, rng)
    else:
        return None
    wrong = []
    for again in range(3):
        disk.crash_after(rng.randint(1, 15) if again < 2 else None)
        try:
            recovered, log = reopened(disk)
        except PowerLossError:
            end(disk, rng)
            continue
        disk.crash_after(None)
        where = f"seed {seed}, operation {point}, start {again}: "
        wrong += [where + str(damage) for damage in recovered.damage]
        try:
            missing = [position for position in promised if log.floor(position[0]) != position]
        except LogDamagedError as error:
            wrong.append(where + str(error))
        else:
            wrong += [f"{where}{position[0]:#x} was promised" for position in missing]
        if recovered.tree.digest != recovered.tree.recompute_digest() or recovered.mismatch_zxid is not None:
            wrong.append(where + "the tree is wrong")
        if recovered.last[0]:
            promised.append(recovered.last)
        end(disk, rng)
    return wrong


def power_cuts(seeds: range) -> Iterator[str]:
    """Everything that is wrong after a power cut at every single operation of these lives."""
    for seed in seeds:
        point = 1
        while (found := power_cut(seed, point)) is not None:
            yield from found
            point += 1
        assert point > 10


@pytest.mark.slow
def test_power_cut_at_any_operation_loses_nothing_that_was_durable():
    assert list(power_cuts(range(6))) == []


def not_durable(file: FaultyFile, data: bytes, then: Then | None = None) -> None:
    file.write(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "name", "broken"),
    [
        (FaultyFile, "write_durable", not_durable),
        (FaultyDisk, "sync_directory", lambda disk, directory: None),
        (recovery._Recovery, "settle", lambda run: None),
    ],
    ids=["append without sync", "names not synced", "tail not copied before it counts"],
)
def test_power_cuts_find_a_member_that_promises_too_early(monkeypatch, target, name, broken):
    monkeypatch.setattr(target, name, broken)
    assert next(power_cuts(range(100)), None) is not None


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failed_operation_anywhere_is_raised_and_nothing_durable_is_lost(error):
    """It surfaces, whichever it is; what a failed sync left in the page cache is gone after the restart that
    follows."""
    for seed in range(4):
        for point in count(1):
            disk, promised = FaultyDisk(), [START]
            synchronized(disk)
            before = disk.operations
            disk.fail_after(point, error)
            try:
                live(disk, seed, promised)
            except OSError:
                pass
            else:
                if disk.operations - before < point:
                    break
                # On a full disk an index can be made again, and what a start would copy is written again in its place.
                failed = disk.log[before + point - 1]
                assert error == errno.ENOSPC, "an error was swallowed"
                assert ".index" in failed or ".tmp" in failed, "an error was swallowed"
            disk.crash(Random(point))
            recovered = recover(disk)
            assert not recovered.damage, (seed, point, recovered.damage)
            assert recovered.last[0] >= promised[-1][0], (seed, point)
