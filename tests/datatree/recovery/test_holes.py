"""Holes of a log are filled with what others have: byte by byte what was there, or not at all (C9 holes)."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from datatree.log.batch import Batch, genesis
from datatree.log.frame import Frame, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, log_files, log_path
from datatree.log.transaction_log import TransactionLog, write_segment
from datatree.log.zxid import Zxid
from datatree.recovery import holes
from datatree.recovery.holes import Hole, HoleError, fill, find_hole, read_history
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from datatree.snapshot import snapshot_files, snapshot_path
from tests.datatree.histories import LINEAGE, Author, fresh_log, held, synchronized
from tests.datatree.recovery.holes import PIECE_BYTES, damage, files, lived, lost, twin
from zab.simulator.world.disk import FaultyDisk, PowerLossError


def hole_of(disk: FaultyDisk) -> Hole | None:
    return find_hole(disk, recover(disk))


def take_from(hole: Hole, *others: FaultyDisk) -> bool:
    """What a member asks the others for, in small pieces: whether nothing is missing any more."""
    is_going_on = True
    while is_going_on and hole.wanted is not None:
        is_going_on = False
        for other in others:
            while hole.wanted is not None and (found := read_history(other, LINEAGE, *hole.wanted, PIECE_BYTES)):
                is_going_on = True
                for batch in found:
                    hole.take(batch)
    return hole.wanted is None


def filled(disk: FaultyDisk, *others: FaultyDisk) -> Recovered:
    """After as many holes as there are, and can be filled; nothing is lost on the way."""
    recovered = recover(disk)
    while (hole := find_hole(disk, recovered)) is not None and take_from(hole, *others):
        assert fill(disk, hole)
        before, recovered = recovered.last, recover(disk)
        assert recovered.last[0] > before[0]
    return recovered


def assert_whole(disk: FaultyDisk, recovered: Recovered, author: Author) -> None:
    assert not recovered.damage
    assert not recovered.amnesiac
    assert recovered.last == author.last
    # It is read as any log is, and goes on as any does.
    log = TransactionLog(disk, recovered.log)
    wanted = [batch.raw for batch in author.batches if batch.zxid > log.first_position[0]]
    assert held(log) == wanted
    log.append(author.write(2))
    log.close()
    again = recover(disk)
    assert (again.last, again.damage) == (author.last, [])


def used_bytes(disk: FaultyDisk, path: str) -> int:
    return len(disk.read(path).rstrip(b"\0"))


def test_every_bit_that_flips_is_made_good_or_at_the_end_where_nobody_can_know() -> None:
    whole, _ = lived()
    newest = log_files(whole)[-1]
    frames = scan(whole.read(log_path(newest)), newest, SEGMENT_HEADER_BYTES).parts
    last = max(part.offset for part in frames if isinstance(part, Frame) and part.batches)
    for path in files(whole):
        for at in range(0, used_bytes(whole, path), 37):
            disk, author = lived()
            damage(disk, path, at)
            recovered = filled(disk, whole)
            if path == log_path(newest) and at >= last:
                assert recovered.damage or recovered.last == author.last
            else:
                assert_whole(disk, recovered, author)


def test_files_that_are_gone_are_written_again_but_for_the_newest() -> None:
    whole, _ = lived()
    for path in files(whole)[:-1]:
        disk, author = lived()
        disk.remove(path)
        assert_whole(disk, filled(disk, whole), author)
    disk, author = lived()
    disk.remove(files(whole)[-1])
    assert recover(disk).last != author.last
    assert hole_of(disk) is None


@pytest.mark.parametrize("seed", range(40))
def test_many_places_at_once(seed: int) -> None:
    """In one file, over the seam of two, in headers, in several files."""
    whole, author = lived()
    disk, rng = twin(whole), Random(seed)
    for path in files(whole)[:-1]:
        for _ in range(rng.randrange(3)):
            damage(disk, path, rng.choice([rng.randrange(SEGMENT_HEADER_BYTES), rng.randrange(used_bytes(disk, path))]))
    assert_whole(disk, filled(disk, whole), author)


def seam(whole: FaultyDisk, author: Author, place: int = 1) -> FaultyDisk:
    """The header and the first batch of this file cannot be read, nor the last one before it."""
    second = log_files(whole)[place]
    number = next(number for number, batch in enumerate(author.batches) if batch.first == second)
    disk = lost(twin(whole), author.batches[number - 1], author.batches[number])
    return damage(disk, log_path(second), 10)


@pytest.mark.parametrize("place", [1, -1])
def test_a_seam_whose_both_sides_and_header_are_gone(place: int) -> None:
    whole, author = lived(segment_bytes=2100)
    disk = seam(whole, author, place)
    assert recover(disk).proven_zxid == author.last[0], "something intact is after it"
    assert_whole(disk, filled(disk, whole), author)


def test_members_that_are_damaged_in_different_places_make_each_other_whole() -> None:
    whole, author = lived()
    first, second, third, *_ = files(whole)
    disks = [damage(twin(whole), path, 400) for path in (first, second, third)]
    for disk in disks:
        others = [other for other in disks if other is not disk]
        again = twin(disk)
        assert_whole(again, filled(again, *others), lived()[1])
        assert filled(disk, *others).last == author.last


def test_where_all_lost_the_same_nothing_is_changed() -> None:
    whole, _ = lived()
    path = files(whole)[1]
    disks = [damage(twin(whole), path, 400) for _ in range(3)]
    before = disks[0].image()
    recovered = filled(*disks)
    assert recovered.damage
    assert recovered.amnesiac
    assert disks[0].image() == before


def test_a_log_that_begins_too_late_for_its_snapshot_goes_on_from_there() -> None:
    """The newest snapshot cannot be read any more, and what leads from the one before to the log is elsewhere."""
    whole, author = lived(snapshot_at=2)
    disk = twin(whole)
    [path] = [snapshot_path(zxid) for zxid in snapshot_files(disk)]
    for name in files(whole)[:2]:
        disk.remove(name)
    assert not recover(twin(disk)).damage
    damage(disk, path, 200)
    assert_whole(disk, filled(disk, whole), author)


def test_what_nothing_intact_stands_behind_is_no_hole() -> None:
    """E8 of a log that ends in damage: what was lost may be all that told of an acknowledged write."""
    disk, author = lived()
    newest = files(disk)[-1]
    recovered = recover(twin(disk))
    last = author.batches[-1]
    at = disk.read(newest).index(last.raw)
    damage(disk, newest, at + len(last.raw) - 1)
    recovered = recover(disk)
    assert recovered.damage
    assert recovered.last[0] < last.zxid
    assert find_hole(disk, recovered) is None


def test_a_hole_before_an_end_that_nobody_knows_is_none() -> None:
    """What is intact between the two does not say how far the log went."""
    disk, author = lived(segment_bytes=1 << 20)
    whole = twin(disk)
    assert hole_of(lost(twin(disk), author.batches[3])) is not None
    disk = lost(disk, author.batches[3], author.batches[-1])
    assert hole_of(disk) is None
    assert filled(disk, whole).amnesiac


def test_what_was_never_known_to_be_durable_stays_when_what_is_before_it_is_filled() -> None:
    disk, author = FaultyDisk(), Author(seed=3)
    synchronized(disk)
    log = fresh_log(disk)
    for _ in range(4):
        log.append(author.write(2))
    whole, [path] = twin(disk), files(disk)
    damage(disk, path, disk.read(path).index(author.batches[1].raw) + 100)
    assert_whole(disk, filled(disk, whole), author)


def test_a_sound_log_has_no_hole_and_neither_has_one_that_ends_too_early() -> None:
    disk, author = lived()
    recovered = recover(disk)
    assert find_hole(disk, recovered) is None
    log = TransactionLog(disk, recovered.log)
    log.set_mark(author.last[0])
    newest = files(disk)[-1]
    disk.remove(newest)
    recovered = recover(disk)
    assert recovered.damage
    assert find_hole(disk, recovered) is None


def wanted(hole: Hole, whole: FaultyDisk) -> list[Batch]:
    assert hole.wanted is not None
    return read_history(whole, LINEAGE, *hole.wanted, 1 << 20)


def damaged(segment_bytes: int = 900) -> tuple[FaultyDisk, FaultyDisk, Hole]:
    """With a header after the hole, or, in a large file, with batches."""
    whole, author = lived(segment_bytes=segment_bytes)
    disk = lost(twin(whole), *author.batches[4:6])
    hole = hole_of(disk)
    assert hole is not None
    return disk, whole, hole


def test_only_what_goes_on_is_taken() -> None:
    _, whole, hole = damaged()
    [first, *rest] = wanted(hole, whole)
    assert rest
    with pytest.raises(HoleError, match="does not go on"):
        hole.take(rest[0])
    forged = attrs.evolve(first, raw=first.raw[:-1] + b"?")
    with pytest.raises(HoleError, match="does not go on"):
        hole.take(forged)
    assert hole.batches == []
    for batch in (first, *rest):
        hole.take(batch)
    assert hole.wanted is None
    with pytest.raises(HoleError, match="nothing is missing"):
        hole.take(first)


@pytest.mark.parametrize("segment_bytes", [900, 1 << 20], ids=["a header is after it", "a batch is after it"])
def test_a_history_that_does_not_lead_to_what_is_behind_is_not_taken(segment_bytes: int) -> None:
    """A made-up batch has the numbers and a chain that goes on, but not the chain of the next batch."""
    _, whole, hole = damaged(segment_bytes)
    assert bool(hole.kept) is (segment_bytes > 900)
    [*real] = wanted(hole, whole)
    other = Author(seed=77, start=hole.after, epoch=hole.after[0] >> 32)
    *made, last = [other.batch(batch.count, lag=1 << 30) for batch in real]
    for batch in made:
        hole.take(batch)
    with pytest.raises(HoleError, match="another history"):
        hole.take(last)
    again = hole.anew()
    for batch in real:
        again.take(batch)
    assert again.wanted is None


def test_what_is_taken_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole, hole = damaged()
    *real, last = wanted(hole, whole)
    monkeypatch.setattr(holes, "HOLE_BYTES_MAX", sum(len(batch.raw) for batch in (*real, last)) - 1)
    for batch in real:
        hole.take(batch)
    with pytest.raises(HoleError, match="bytes are missing"):
        hole.take(last)


def test_history_is_read_to_where_it_was_asked_for_and_no_further_than_fits() -> None:
    disk, author = lived()
    start, upto = (Zxid(0), genesis(LINEAGE)), author.batches[9].zxid
    assert read_history(disk, LINEAGE, start, upto, 1 << 20) == author.batches[:10]
    assert read_history(disk, LINEAGE, start, Zxid(upto - 1), 1 << 20) == author.batches[:9]
    size = len(author.batches[0].raw) + len(author.batches[1].raw)
    assert read_history(disk, LINEAGE, start, upto, size) == author.batches[:2]
    assert read_history(disk, LINEAGE, start, upto, 1) == author.batches[:1], "one at least"
    assert read_history(disk, LINEAGE, author.last, Zxid(author.last[0] + 5), 1 << 20) == []
    assert read_history(disk, bytes(16), start, upto, 1 << 20) == []
    assert read_history(disk, LINEAGE, (author.batches[3].zxid, bytes(16)), upto, 1 << 20) == []
    [path] = [path for path in files(disk) if author.batches[5].raw in disk.read(path)]
    damage(disk, path, disk.read(path).index(author.batches[5].raw) + 90)
    assert read_history(disk, LINEAGE, start, upto, 1 << 20) == author.batches[:5]


def test_a_cut_history_is_not_told() -> None:
    """What a later file made void is not what this member holds."""
    disk, author = lived(segment_bytes=1 << 20)
    kept = author.batches[4]
    other = author.cut(5)
    later = other.write(3)
    write_segment(disk, SegmentHeader(LINEAGE, (kept.zxid, kept.chain), later[0].first), later)
    start = (Zxid(0), genesis(LINEAGE))
    assert read_history(disk, LINEAGE, start, Zxid(1 << 62), 1 << 20) == other.batches


def test_power_cuts_while_it_is_filled_leave_a_hole_that_can_be_filled() -> None:
    whole, author = lived()
    disk = seam(whole, author)
    before = disk.operations
    filled(disk, whole)
    for operation in range(1, disk.operations - before + 1):
        for seed in range(3):
            disk = seam(whole, author)
            disk.crash_after(operation)
            with pytest.raises(PowerLossError):
                filled(disk, whole)
            disk.crash(Random(seed))
            recovered = filled(disk, whole)
            assert not recovered.damage, (operation, seed)
            assert recovered.last == author.last
