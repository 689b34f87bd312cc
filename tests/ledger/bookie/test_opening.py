"""Opening the files: torn tails, damage, leftovers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random
from struct import pack
from zlib import crc32

import pytest
from attrs import evolve

from tests.ledger.bookie.kit import DIGEST, IDENTITY, KEY, SMALL, Bench, add, envelope_of
from zab.ledger.bookie.config import Identity
from zab.ledger.bookie.events import AppendJournal
from zab.ledger.bookie.frames import (
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    journal_path,
    pack_frame_header,
    pack_header,
    read_header,
    scan,
    tag_of,
)
from zab.ledger.bookie.ledgers import Ledger, LedgerTable
from zab.ledger.bookie.opening import DamagedError, NoRoomError, UnreadableFileError, open_files
from zab.ledger.bookie.records import lac_record, tombstones_record
from zab.ledger.bookie.segment import (
    ForeignFileError,
    Row,
    Segment,
    SegmentDamagedError,
    parse_index,
    segment_path,
)
from zab.ledger.bookie.segment_list import pack_list, parse_list
from zab.ledger.bookie.segments import UnreadableError
from zab.ledger.bookie.state import pack_state, read_state
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import ListEntries, ReadBatch, ReadEntry, ReadLac, WriteLac
from zab.ledger.wire.status import Status
from zab.simulator.world.disk import FaultyDisk

JOURNAL = journal_path(1)


def restored(image: dict[str, bytes]) -> FaultyDisk:
    disk = FaultyDisk()
    disk.restore(image)
    return disk


@pytest.fixture(scope="module")
def journal() -> tuple[dict[str, bytes], list[int]]:
    """Files with a journal of three frames that say how far it is synced; where each frame ends."""
    bench = Bench(evolve(SMALL, journal_file_bytes=1500))
    ends = [64]
    for entry in range(3):
        bench.ask(add(1, entry), add(2, entry))
        bench.store()
        ends.append(bench.bookie._journal.mark[1])
    return bench.disk.image(), ends


def entries_in(disk: FaultyDisk) -> int:
    """How many entries of ledger 1 a bookie of this disk has."""
    bench = Bench(disk=disk)
    return len(bench.answer(ReadBatch(1, 0, 0, 1 << 20)).envelopes)


def test_every_prefix_of_the_journal(journal: tuple[dict[str, bytes], list[int]]) -> None:
    """A file that was cut after what the last frame before it says to be synced was torn; before that, damaged."""
    image, ends = journal
    for size in range(0, ends[-1] + 1, 3):
        disk = restored(image | {JOURNAL: image[JOURNAL][:size]})
        frames = sum(end <= size for end in ends) - 1
        # The header of frame n says that the file was synced up to its beginning.
        is_damage = any(begin + FRAME_HEADER_BYTES <= size < begin for begin in ends)
        assert not is_damage
        assert entries_in(disk) == max(frames, 0), size


def test_flipped_bits_in_the_journal(journal: tuple[dict[str, bytes], list[int]]) -> None:
    """Before the last frame that says so everything was durable: damage. In the last one it may be a tear."""
    image, ends = journal
    for bit in range(0, 8 * ends[-1], 37):
        disk = restored(image)
        disk.flip(JOURNAL, bit)
        at = bit // 8
        if at < ends[2]:
            with pytest.raises(DamagedError) as caught:
                open_files(disk, SMALL, IDENTITY)
            assert caught.value.path == JOURNAL
            assert caught.value.offset <= at
            assert "decommission" in str(caught.value)
        else:
            assert entries_in(disk) == 2, at


@pytest.mark.parametrize("known", [IDENTITY.instance + bytes(16), bytes(32)])
def test_a_frame_in_a_payload_is_none(known: bytes) -> None:
    """A client makes its payload of everything that it can know. The write is torn: its begin is not on the disk."""
    size = 200

    def journal_with(payload: bytes) -> tuple[bytes, int]:
        bench = Bench()
        bench.answer(add(1, 0))
        begin = bench.bookie._journal.mark[1]
        bench.answer(add(1, 1, payload))
        return bench.disk.image()[JOURNAL], begin

    at = journal_with(b"@" * size)[0].index(b"@" * size)
    forged = pack_frame_header(tag_of(Identity(known[:16], known[16:]), 1), at, at, 0, 0)
    data, begin = journal_with(forged.ljust(size))
    assert data.index(forged) == at
    bench = Bench()
    bench.answer(add(1, 0))
    torn = data[:begin] + bytes(FRAME_HEADER_BYTES) + data[begin + FRAME_HEADER_BYTES :]
    assert entries_in(restored(bench.disk.image() | {JOURNAL: torn})) == 1


def test_a_journal_of_another_version_is_refused() -> None:
    header = bytearray(pack_header(IDENTITY, 1, 0))
    assert read_header(bytes(header), 1, IDENTITY) == 0
    header[7] = 1
    header[60:] = crc32(header[:60]).to_bytes(4)
    with pytest.raises(ForeignFileError, match="version 1"):
        read_header(bytes(header), 1, IDENTITY)


def test_an_idle_journal_says_how_far_it_is_synced() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    end = bench.bookie._journal.mark[1]
    bench.journal_files.idle()
    bench.journal_files.idle()
    bench.disk.flip(JOURNAL, 8 * (end - 1))
    with pytest.raises(DamagedError):
        bench.restart()
    assert bench.disk.read(JOURNAL, end + FRAME_HEADER_BYTES, 100) == bytes(100), "it says so again and again"


def test_a_file_that_another_one_follows_has_an_end() -> None:
    """What was written last of a file cannot look torn if the next one says where it ended."""
    bench = Bench(evolve(SMALL, journal_file_bytes=600))
    for entry in range(8):
        bench.answer(add(1, entry, bytes(100)))
    files = sorted(path for path in bench.disk.image() if path.startswith("journal/0"))
    assert len(files) > 2
    image = bench.disk.image()
    for sequence, path in enumerate(files[:-1], 1):
        last = scan(image[path], tag_of(IDENTITY, sequence), HEADER_BYTES).parts[-1].offset
        for cut in (image[path][:-40], image[path][:last], image[path][:last].ljust(len(image[path]), b"\0")):
            with pytest.raises(DamagedError):
                open_files(restored(image | {path: cut}), bench.config, IDENTITY)
        without = dict(image)
        del without[path]
        with pytest.raises(DamagedError):
            open_files(restored(without), bench.config, IDENTITY)
    assert open_files(restored(image), bench.config, IDENTITY).replayed == 8
    # The power was lost with the first write of the last file, and the end of the one before it is damaged.
    torn = image | {files[-1]: bytes(len(image[files[-1]]))}
    replayed = open_files(restored(torn), bench.config, IDENTITY).replayed
    damaged = bytearray(image[files[-2]])
    damaged[len(damaged.rstrip(b"\0")) - 1] ^= 1
    assert 0 < replayed < 8
    with pytest.raises(DamagedError):
        open_files(restored(torn | {files[-2]: bytes(damaged)}), bench.config, IDENTITY)


def test_what_is_before_the_mark_is_not_needed() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.flush()
    bench.disk.flip(JOURNAL, 8 * 100)
    bench.answer(add(1, 1))
    bench.restart()
    assert bench.opened.replayed == 1
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK


@pytest.mark.parametrize("path", ["checkpoint", "state", "segments"])
def test_a_damaged_checkpoint_or_state(path: str) -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.flush()
    image = bench.disk.image()
    found = [name for name in image if name.startswith(path)]
    for bit in range(0, 8 * len(image[found[-1]]), 5):
        disk = restored(image)
        for name in found:
            disk.flip(name, min(bit, 8 * len(image[name]) - 1))
        with pytest.raises((DamagedError, ForeignFileError)):
            open_files(disk, SMALL, IDENTITY)
    disk = restored({name: data for name, data in image.items() if name not in found})
    with pytest.raises(DamagedError):
        open_files(disk, SMALL, IDENTITY)


def with_two_segments() -> Bench:
    bench = Bench()
    for entry in range(2):
        bench.answer(add(1, entry))
        bench.flush()
    return bench


def test_a_segment_that_is_missing_is_no_absence_of_entries() -> None:
    """Its files were removed, by an operator or by a repair of the file system."""
    bench = with_two_segments()
    image = bench.disk.image()
    entries = sorted(path for path in image if path.startswith("entries/"))
    assert len(entries) == 2
    for gone in (entries[:1], entries[1:], entries):
        disk = restored({path: data for path, data in image.items() if path not in gone})
        more = ", and 1 more" if len(gone) == 2 else ""
        with pytest.raises(DamagedError, match=f"{gone[0]} at offset 0: the file is missing{more} -> .* decommission"):
            open_files(disk, SMALL, IDENTITY)


def test_a_segment_that_a_crash_left_out_of_the_list_is_listed_at_the_start() -> None:
    bench = with_two_segments()
    data = bench.disk.read("segments")
    identity, listed = parse_list(data) or (IDENTITY, frozenset())
    bench.disk.replace("segments", pack_list(identity, sorted(listed)[:1]))
    bench.restart()
    assert parse_list(bench.disk.read("segments")) == (IDENTITY, listed)
    assert [bench.answer(ReadEntry(1, entry)).status for entry in range(2)] == [Status.OK, Status.OK]


def test_a_list_that_is_damaged_while_the_bookie_runs_ends_it() -> None:
    """It would be written again without what it had."""
    bench = with_two_segments()
    bench.restart()
    bench.disk.remove("segments")
    bench.answer(add(1, 2))
    bench.flush()
    assert bench.failure is not None
    assert "segments is missing or damaged" in bench.failure


@pytest.mark.parametrize("data", [b"", b"BSGL", pack_list(IDENTITY, [1])[:-1], pack_list(IDENTITY, [1]) + b"x"])
def test_what_is_no_list_of_segments(data: bytes) -> None:
    assert parse_list(data) is None
    assert parse_list(pack_list(IDENTITY, [7, 1])) == (IDENTITY, {1, 7})


def test_an_older_state_than_the_checkpoint_names_will_not_do() -> None:
    """The journal between the two is gone."""
    bench = Bench()
    bench.answer(ReadEntry(1, 0, KEY, is_fencing=True))
    bench.flush()
    states = sorted(path for path in bench.disk.image() if path.startswith("state/"))
    assert len(states) == 2
    bench.disk.flip(states[-1], 600)
    with pytest.raises(DamagedError):
        bench.restart()


def test_a_newer_state_than_the_checkpoint_names_will_do() -> None:
    """The power was lost between the two."""
    bench = Bench()
    bench.answer(ReadEntry(1, 0, KEY, is_fencing=True))
    bench.pass_ms(SMALL.flush_ms)
    while not any(type(job).__name__ == "SaveCheckpoint" for job in bench.jobs):
        bench.work()
        bench.step()
    bench.disk.flip("state/0000000000000001", 500)
    bench.crash()
    assert bench.answer(add(1, 0)).status is Status.FENCED


def test_the_mark_rises_at_a_start_even_if_nothing_was_replayed() -> None:
    """#2087: else journals are never removed."""
    bench = Bench()
    mark = bench.opened.mark
    bench.restart()
    bench.restart()
    assert bench.opened.mark > mark


def test_everything_that_is_replayed_is_flushed_before_anything_is_answered() -> None:
    """4.7: what was read may be in the cache of the system alone."""
    bench = Bench()
    for entry in range(30):
        bench.answer(add(1, entry, bytes(200)))
    bench.restart()
    assert bench.opened.replayed == 30
    assert len(bench.opened.segments) > 1, "more than is kept in memory at a time was kept"
    assert not [path for path in bench.disk.image() if path.startswith("journal/0")]
    bench.crash()
    assert bench.opened.replayed == 0
    assert len(bench.answer(ReadBatch(1, 0, 0, 1 << 20)).envelopes) == 30


def test_an_orderly_end_is_noted() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.journal_files.close()
    bench.restart()
    assert bench.opened.was_ended
    bench.answer(add(1, 1))
    bench.restart()
    assert not bench.opened.was_ended


def test_files_of_another_bookie_are_refused() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    other = Identity(b"i" * 16, b"v" * 16)
    with pytest.raises(ForeignFileError):
        open_files(bench.disk, SMALL, other)
    bench.flush()
    image = bench.disk.image()
    ours = Bench(identity=other)
    with pytest.raises(ForeignFileError):
        open_files(restored(ours.disk.image() | {segment_path(1): image[segment_path(1)]}), SMALL, other)


def test_unfinished_files_are_removed() -> None:
    bench = Bench()
    bench.disk.replace("entries/0000000000000009.tmp", b"half")
    bench.disk.replace("journal/prepared", bytes(100))
    bench.disk.replace("checkpoint.tmp", b"half")
    bench.restart()
    unfinished = {"entries/0000000000000009.tmp", "journal/prepared", "checkpoint.tmp"}
    assert not unfinished & set(bench.disk.image())
    log = list(bench.disk.log)
    removed = log.index("remove checkpoint.tmp")
    assert log[removed + 1] == "sync_directory ", "another one may still be found under its name"
    bench.crash()
    assert not unfinished & set(bench.disk.image()), "they were not removed durably"


def _with_segment() -> Bench:
    bench = Bench()
    bench.ask(*(add(1, entry) for entry in range(4)), *(add(2, entry) for entry in (0, 2)), add(3, 0))
    bench.store()
    bench.flush()
    bench.restart()
    bench.answer(WriteLac(4, 1, KEY, DIGEST.pack_lac(4, 1)))
    return bench


def test_flipped_bits_in_a_segment() -> None:
    """S3 (#2908, #2909): what is damaged is an I/O error, and never looks like absence."""
    image = _with_segment().disk.image()
    path = segment_path(1)
    was_unreadable = 0
    for bit in range(0, 8 * len(image[path]), 29):
        disk = restored(image)
        disk.flip(path, bit)
        bench = Bench(disk=disk)
        for ledger, entries in ((1, range(4)), (2, (0, 2)), (3, (0,))):
            for entry in entries:
                answer = bench.answer(ReadEntry(ledger, entry))
                assert answer.status in (Status.OK, Status.IO_ERROR), (bit, ledger, entry)
                assert answer.envelope in (b"", envelope_of(ledger, entry))
                was_unreadable += answer.status is Status.IO_ERROR
            answer = bench.answer(ReadEntry(ledger, 9, KEY, is_fencing=True))
            assert answer.status in (Status.NO_ENTRY, Status.IO_ERROR)
            if (
                bench.bookie.segments.newest_first[0].is_suspect
                and not bench.bookie.segments.newest_first[0].is_readable
            ):
                assert answer.status is Status.IO_ERROR
        assert bench.answer(ReadEntry(9, 0)).status is Status.NO_LEDGER, "it is newer than the damage"
    assert was_unreadable > 50


def test_an_id_that_is_damaged_in_the_index_is_no_absence() -> None:
    """#2908. What is left is in order, and agrees with the ledger map."""
    bench = Bench()
    bench.ask(*(add(2, entry) for entry in (0, 4, 8)))
    bench.flush()
    row = bench.bookie.segments.newest_first[0].row(2)
    assert row is not None
    image = bench.disk.image()
    for bit in range(8 * (row.index_offset + 8), 8 * (row.index_offset + 16)):
        disk = restored(image)
        disk.flip(segment_path(1), bit)
        assert Bench(disk=disk).answer(ReadEntry(2, 4)).status is Status.IO_ERROR


def test_a_miss_beside_damage_is_an_io_error() -> None:
    """#2908: a suspect segment proves nothing about its ledgers, and nothing less about others."""
    bench = _with_segment()
    bench.disk.flip(segment_path(1), 8 * (64 + 50))
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK
    assert bench.answer(ReadEntry(1, 1)).status is Status.IO_ERROR
    assert bench.reports
    assert bench.answer(ReadEntry(1, 9)).status is Status.IO_ERROR
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK
    assert bench.answer(ListEntries(1)).status is Status.IO_ERROR
    assert bench.answer(ReadEntry(4, 9)).status is Status.NO_ENTRY


def test_a_segment_without_its_map_hides_every_ledger_that_it_may_have() -> None:
    """4.6: all that are not newer than it, until it is repaired."""
    bench = _with_segment()
    size = bench.disk.size(segment_path(1))
    bench.disk.flip(segment_path(1), 8 * (size - 1))
    bench.restart()
    assert bench.notes
    assert [bench.answer(ReadEntry(ledger, 0)).status for ledger in (1, 2, 3, 4)] == [Status.IO_ERROR] * 4
    assert bench.answer(ReadEntry(4, NONE)).status is Status.IO_ERROR
    assert bench.answer(ReadLac(4)).status is Status.IO_ERROR
    bench.answer(add(5, 0))
    assert bench.answer(ReadEntry(5, 1)).status is Status.NO_ENTRY
    assert bench.answer(add(1, 4)).status is Status.OK
    assert bench.answer(ReadEntry(1, 4)).status is Status.OK


def test_the_highest_entry_is_not_known_where_a_segment_may_hide_a_higher_one() -> None:
    """4.6: damage never looks like absence; here of the entries above the highest one that can be read."""
    bench = _with_segment()
    bench.disk.flip(segment_path(1), 8 * (bench.disk.size(segment_path(1)) - 1))
    bench.restart()
    bench.answer(add(1, 0, is_recovery=True))
    for _ in range(2):
        assert bench.answer(ReadEntry(1, 0)).status is Status.OK
        assert bench.answer(ReadEntry(1, NONE)).status is Status.IO_ERROR
        assert bench.answer(ReadEntry(1, NONE, KEY, is_fencing=True)).status is Status.IO_ERROR
        assert bench.answer(ReadLac(1)).status is Status.IO_ERROR
        bench.flush()
    bench.answer(add(5, 0))
    assert bench.answer(ReadEntry(5, NONE)).status is Status.OK, "it is newer than the damage"


def test_reads_that_the_disk_refuses() -> None:
    bench = _with_segment()
    bench.disk.fail_reads(segment_path(1))
    assert bench.answer(ReadEntry(1, 0)).status is Status.IO_ERROR
    assert bench.answer(ReadBatch(1, 0, 0, 1000)).status is Status.IO_ERROR
    assert bench.answer(ReadEntry(2, 1)).status is Status.IO_ERROR, "it looks like absence"
    assert len(bench.reports) == 1
    bench.disk.fail_reads(segment_path(1), None)
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK
    assert bench.answer(ReadEntry(2, 1)).status is Status.NO_ENTRY, "a descriptor was lacking for a moment"


def test_a_segment_that_the_disk_does_not_read_hides_what_it_may_have_and_the_rest_is_served() -> None:
    """4.6: as one whose ledger map is damaged. The next start looks at it again."""
    bench = _with_segment()
    bench.answer(add(5, 0))
    bench.disk.kill()
    bench.disk.fail_reads(segment_path(1))
    bench.start()
    assert bench.notes
    assert [bench.answer(ReadEntry(ledger, 0)).status for ledger in (1, 2, 3)] == [Status.IO_ERROR] * 3
    assert bench.answer(ReadEntry(5, 0)).status is Status.OK
    assert bench.answer(ReadEntry(1, 9, KEY, is_fencing=True)).status is Status.IO_ERROR, "it looks like absence"
    bench.pass_ms(SMALL.compact_ms)
    bench.settle()
    bench.restart()
    assert [bench.answer(ReadEntry(ledger, 0)).status for ledger in (1, 2, 3)] == [Status.OK] * 3


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EACCES])
def test_an_error_that_is_not_of_one_segment_stops_the_start(error: int) -> None:
    """Else a bookie without descriptors would take all segments for damaged."""
    bench = _with_segment()
    bench.disk.fail_reads(segment_path(1), error)
    with pytest.raises(UnreadableFileError, match="entries/"):
        bench.start()


@pytest.mark.parametrize("directory", ["checkpoint", "state/", "journal/"])
def test_what_the_start_needs_and_the_disk_does_not_read_stops_it_with_what_to_do(directory: str) -> None:
    bench = _with_segment()
    path = max(each for each in bench.disk.image() if each.startswith(directory))
    bench.disk.fail_reads(path)
    with pytest.raises(UnreadableFileError, match=rf"{path} cannot be read: .* look at the disk.*decommission"):
        bench.start()
    bench.restart()
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK


@pytest.mark.parametrize("room", [600, 5_000])
def test_a_start_without_room_says_so_and_takes_none(room: int) -> None:
    """Its supervisor tries again and again: no file of a try may stay."""
    bench = Bench(evolve(SMALL, journal_file_bytes=1 << 16, flush_bytes=1 << 20, open_bytes_max=3_000))
    for entry in range(40):
        bench.answer(add(1, entry, bytes(200)))
    bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + room
    for _ in range(3):
        with pytest.raises(NoRoomError, match="nothing is lost"):
            bench.restart()
        assert bench.disk.free_bytes() >= room
    bench.disk.crash(Random(1))
    bench.disk.capacity_bytes = 1 << 30
    bench.restart()
    assert len(bench.answer(ReadBatch(1, 0, 0, 1 << 20)).envelopes) == 40


def _row(segment: Segment, **changes: int) -> Row:
    found = segment.row(2)
    assert found is not None
    return evolve(found, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 0},
        {"count": 0, "kind": 0, "last": -1},
        {"count": 1},
        {"count": 3},
        {"kind": 0},
        {"kind": 0, "first": -(1 << 63), "last": (1 << 63) - 1},
        {"kind": 2},
        {"first": 1},
        {"last": 3},
        {"size": 1},
        {"offset": 1 << 40},
    ],
)
def test_an_index_whose_checksum_is_right_and_that_contradicts_the_ledger_map(changes: dict[str, int]) -> None:
    """It was written wrong, or for that: an I/O error, and no other exception, nor an entry that is not here."""
    bench = _with_segment()
    segment = bench.bookie.segments.newest_first[0]
    row = segment.row(2)
    assert row is not None
    data = bench.disk.image()[segment_path(1)]
    wrong = _row(segment, **changes)
    block = data[row.index_offset : row.index_offset + wrong.index_bytes]
    with pytest.raises(SegmentDamagedError):
        parse_index(evolve(wrong, index_crc=crc32(block)), block, segment.size)


def test_an_index_that_has_a_record_without_a_header() -> None:
    row = Row(1, 0, 0, 1, 0, 64, 8, 72, 0)
    block = (8).to_bytes(4) + crc32(bytes(8)).to_bytes(4)
    with pytest.raises(SegmentDamagedError):
        parse_index(evolve(row, index_crc=crc32(block)), block, 1000)


def test_bytes_that_are_not_in_the_segment_are_not_read() -> None:
    """The offsets and sizes of a ledger map are believed only within the file."""
    bench = _with_segment()
    segment = bench.bookie.segments.newest_first[0]
    wrong = _row(segment, kind=1, count=1 << 31)
    with pytest.raises(UnreadableError):
        next(bench.bookie.segments._index(segment, wrong))
    assert segment.is_suspect


@pytest.mark.parametrize(
    "record",
    [
        lac_record(1, KEY, b"short"),
        tombstones_record(5, 4),
        tombstones_record(-1, 4),
        b"\x01\x00\x00\x00\x01\x00\x00\x00\x05short",
        b"\x63",
    ],
)
def test_records_whose_checksum_is_right_and_that_say_nothing_possible(record: bytes) -> None:
    bench = Bench()
    bench.journal_files.perform([AppendJournal(1, [record])])
    with pytest.raises(DamagedError):
        bench.restart()


def test_a_state_whose_checksum_is_right_and_that_says_nothing_possible() -> None:
    short = pack(">q20sBqB", 1, KEY, 0, -1, 5) + b"short"
    assert read_state(pack_state(IDENTITY, 3, [short], 1, b""), 3, IDENTITY) is None
    assert read_state(pack_state(IDENTITY, 3, [], 0, pack(">qq", 5, 4)), 3, IDENTITY) is None
    assert read_state(pack_state(IDENTITY, 3, [], 0, pack(">qq", 4, 5)), 3, IDENTITY) is not None


def test_a_run_of_tombstones_does_not_look_at_every_ledger() -> None:
    """A replay may have a thousand runs, and the table a million ledgers."""

    class Unwalked(dict[int, Ledger]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("each ledger is looked at")

    table = LedgerTable()
    for ledger in range(0, 100, 2):
        table.create(ledger, KEY)
    assert table.within(10, 1 << 62) == list(range(10, 100, 2))
    table.by_id = Unwalked(table.by_id)
    assert table.within(10, 14) == [10, 12, 14]
    assert table.within(11, 11) == []
