"""Looking at the directory of a bookie from outside: everything is shown, and every damage is named where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from attrs import evolve

from tests.ledger.bookie.directories import BookieDirectory, rich_directory
from tests.ledger.bookie.kit import DIGEST, SMALL, Bench
from zab.ledger.bookie.checkpoints import Stage
from zab.ledger.bookie.frames import FRAME_HEADER_BYTES, HEADER_BYTES, Frame, journal_path, scan, tag_of
from zab.ledger.bookie.inspection import (
    FINDINGS_MAX,
    Copy,
    Finding,
    Inspection,
    JournalFile,
    Kind,
    StateFile,
)
from zab.ledger.bookie.journal_walk import DamagedFrame, EntryPlace, FramePlace, walk_frames, walk_records
from zab.ledger.bookie.ledgers import Ledger
from zab.ledger.bookie.opening import DamagedError, open_files
from zab.ledger.bookie.records import EntriesRecord, RecordError, parse_records
from zab.ledger.bookie.segment import ForeignFileError, Row
from zab.ledger.bookie.segment_walk import SegmentHead
from zab.ledger.bookie.state_walk import Run
from zab.ledger.bookie.windows import Files, Window
from zab.ledger.wire.messages import ReadEntry
from zab.simulator.world.disk import FaultyDisk

REFUSED = (Kind.DAMAGE, Kind.FOREIGN)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> BookieDirectory:
    """`rich_directory`, of a bookie that runs. Nobody changes it."""
    return rich_directory(tmp_path_factory.mktemp("bookies") / "bookie-1", journal_file_bytes=1500)


@pytest.fixture(scope="module")
def image(made: BookieDirectory) -> dict[str, bytes]:
    return image_of(made.root)


def image_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def restored(image: dict[str, bytes]) -> FaultyDisk:
    disk = FaultyDisk()
    disk.restore(image)
    return disk


def findings_in(files: Files, piece_bytes: int = 4096) -> list[Finding]:
    """All that is found."""
    inspection = Inspection(files, piece_bytes=piece_bytes)
    parts: list[object] = [*inspection.findings, *inspection.walk_journal(), *inspection.walk_segments()]
    parts += [*inspection.walk_states(), *inspection.leftovers()]
    return [each for each in parts if isinstance(each, Finding)]


def faults_in(files: Files) -> list[Finding]:
    return [each for each in findings_in(files) if each.kind.is_fault]


def refusal(disk: FaultyDisk, made: BookieDirectory) -> DamagedError | ForeignFileError | None:
    """Why a bookie does not start on this disk."""
    try:
        open_files(disk, SMALL, made.bench.identity)
    except (DamagedError, ForeignFileError) as error:
        return error
    return None


# What is shown.


def test_everything_is_shown(made: BookieDirectory) -> None:
    inspection = Inspection(made.disk)
    assert inspection.findings == []
    assert inspection.checkpoint is not None
    assert inspection.checkpoint.mark == made.bench.bookie.checkpoints.mark
    assert inspection.identity == made.bench.identity
    segments = list(inspection.walk_segments())
    rows = [(each.ledger, each.first, each.last, each.count) for each in segments if isinstance(each, Row)]
    assert rows == [(1, 0, 9, 10), (2, 0, 6, 3), (5, 0, 2, 3), (1, 10, 14, 5), (2, 1, 3, 2), (3, 0, 4, 5)]
    assert [each.number for each in segments if isinstance(each, SegmentHead)] == [1, 2]
    states = list(inspection.walk_states())
    used = [each.number for each in states if isinstance(each, StateFile) and each.is_used]
    assert used == [inspection.checkpoint.state]
    known = {each.id: each for each in states[: 1 + 4] if isinstance(each, Ledger)}
    assert {number for number, ledger in known.items() if ledger.is_fenced} == {3}
    needed = 0
    entries: list[tuple[int, int]] = []
    for part in inspection.walk_journal():
        if isinstance(part, JournalFile):
            needed = part.size if part.start is None else part.start
        elif isinstance(part, tuple) and isinstance(part[1], EntryPlace) and part[0] >= needed:
            entries.append((part[1].ledger, part[1].entry))
    assert entries == [(1, 15), (1, 16), (1, 17), (2, 6), (2, 9), (7, 0)]
    assert faults_in(made.disk) == []


def test_what_a_bookie_deleted_is_shown(tmp_path: Path) -> None:
    made = rich_directory(tmp_path / "one")
    made.flush()
    parts = list(Inspection(made.disk).walk_states())
    assert next(each for each in parts if isinstance(each, Run)) == Run(5, 5)
    assert made.bench.bookie.checkpoints.stage is Stage.NONE
    assert faults_in(made.disk) == []


def test_a_copy_of_each_entry_is_found_and_the_newest_counts(made: BookieDirectory, image: dict[str, bytes]) -> None:
    inspection = Inspection(made.disk, piece_bytes=64)
    bench = Bench(disk=restored(image), identity=made.bench.identity)
    for ledger, entry in [*((1, entry) for entry in range(18)), (2, 0), (2, 3), (2, 6), (2, 9), (3, 4), (7, 0)]:
        copies = inspection.find(ledger, entry)
        assert all(isinstance(each, Copy) for each in copies)
        (newest,) = (each for each in copies if isinstance(each, Copy) and each.counts)
        stored = made.disk.read(newest.path, newest.offset, newest.size)
        assert bench.answer(ReadEntry(ledger, entry)).envelope == stored  # type: ignore[union-attr]
    copies = inspection.find(2, 3)
    # The checkpoint covers the part of the journal that has it.
    assert [(each.path[:7], each.counts) for each in copies if isinstance(each, Copy)] == [
        ("entries", False),
        ("entries", True),
        ("journal", False),
    ]
    assert inspection.find(2, 4) == []
    assert inspection.find(9, 0) == []


def test_what_no_start_needs(tmp_path: Path) -> None:
    made = rich_directory(tmp_path / "one")
    for path in ("entries/0000000000000009.tmp", "checkpoint.tmp", "journal/prepared"):
        made.file(path).write_bytes(b"x")
    made.file("entries/notes").write_bytes(b"x")
    found = {each.path: each.kind for each in findings_in(made.disk)}
    assert found == {
        "entries/0000000000000009.tmp": Kind.LEFTOVER,
        "checkpoint.tmp": Kind.LEFTOVER,
        "journal/prepared": Kind.LEFTOVER,
        "entries/notes": Kind.PROBLEM,
    }


def test_an_empty_directory_is_no_bookies(tmp_path: Path, made: BookieDirectory) -> None:
    assert Inspection(restored({})).is_empty
    assert Inspection(restored({"journal/prepared": b""})).is_empty
    assert not Inspection(made.disk).is_empty


# Damage: what is said, and what a start does, are the same.


def test_every_flipped_bit_is_found(made: BookieDirectory, image: dict[str, bytes]) -> None:
    kinds: Counter[Kind] = Counter()
    for path, content in image.items():
        random = Random(path)
        for bit in sorted(random.sample(range(8 * len(content)), min(60, 8 * len(content)))):
            disk = restored(image)
            disk.flip(path, bit)
            found = [each for each in findings_in(disk) if each.path == path and each.kind is not Kind.LEFTOVER]
            first = min(found, key=lambda each: each.offset, default=None)
            assert first is not None, (path, bit // 8)
            assert first.offset <= bit // 8 or path == "checkpoint"
            kinds[first.kind] += 1
            if path != "cookie":
                is_refused = any(each.kind in REFUSED for each in findings_in(disk))
                assert is_refused == (refusal(disk, made) is not None), (path, bit // 8, found)
    assert {*kinds} >= {Kind.DAMAGE, Kind.SUSPECT, Kind.PROBLEM, Kind.TORN}


def test_every_cut_and_every_missing_file_is_found(made: BookieDirectory, image: dict[str, bytes]) -> None:
    for path, content in image.items():
        for size in (*Random(path).sample(range(len(content)), min(25, len(content))), None):
            without = {name: data for name, data in image.items() if name != path}
            disk = restored(without if size is None else without | {path: content[:size]})
            found = faults_in(disk)
            if path == "cookie":
                assert [each.path for each in found] == ["cookie"]
                continue
            is_refused = any(each.kind in REFUSED for each in found)
            assert is_refused == (refusal(disk, made) is not None), (path, size, found)
            is_last = path == max(name for name in image if name.startswith("journal/0"))
            # A segment that is missing leaves no trace: a bookie does not list its segments.
            if not is_last and not (size is None and path.startswith("entries/")) and "state/" not in path:
                assert found, (path, size)


def test_files_of_another_bookie(tmp_path: Path, made: BookieDirectory, image: dict[str, bytes]) -> None:
    other = image_of(rich_directory(tmp_path / "two", "bookie-2", journal_file_bytes=1500).root)
    for path in image:
        if path == "cookie":
            continue
        disk = restored(image | {path: other[path]})
        assert Kind.FOREIGN in {each.kind for each in faults_in(disk)}, path
    assert Kind.FOREIGN in {each.kind for each in faults_in(restored(image | {"cookie": other["cookie"]}))}


def test_the_offset_of_a_damaged_entry_is_told(made: BookieDirectory, image: dict[str, bytes]) -> None:
    (copy,) = (each for each in Inspection(made.disk).find(1, 4) if isinstance(each, Copy))
    disk = restored(image)
    disk.flip(copy.path, 8 * (copy.offset + copy.size - 1))
    [told] = faults_in(disk)
    assert (told.kind, told.path, told.offset) == (Kind.SUSPECT, copy.path, copy.offset)
    assert told.reason == "entry 4 of ledger 1 does not match its checksum"
    found = Inspection(disk).find(1, 4)
    assert [type(each) for each in found] == [Copy, Finding]


def test_many_findings_of_one_file_are_told_up_to_a_limit(tmp_path: Path) -> None:
    made = BookieDirectory(tmp_path / "one", config=evolve(SMALL, flush_bytes=1 << 20, cache_bytes_max=2 << 20))
    entries = range(FINDINGS_MAX + 20)
    made.append(1, entries, DIGEST)
    made.flush()
    (segment, *_) = made.segments()
    copies = [Inspection(made.disk).find(1, entry)[0] for entry in entries]
    content = bytearray(segment.read_bytes())
    for copy in copies:
        if isinstance(copy, Copy) and made.file(copy.path) == segment:
            content[copy.offset + 20] ^= 1
    segment.write_bytes(content)
    found = [each for each in findings_in(made.disk) if each.path == f"entries/{segment.name}"]
    damaged = sum(isinstance(copy, Copy) and made.file(copy.path) == segment for copy in copies)
    assert damaged > FINDINGS_MAX
    assert len(found) == FINDINGS_MAX + 1
    assert "more of it is damaged" in found[-1].reason


# The walk finds what the replay reads, in whatever pieces it reads the file.


def damaged_journals(image: dict[str, bytes]) -> Iterator[tuple[int, bytes]]:
    for path, content in image.items():
        if not path.startswith("journal/"):
            continue
        number = int(path[-16:], 16)
        yield number, content
        for seed in range(25):
            random = Random(f"{path}{seed}")
            other = bytearray(content)
            for _ in range(random.randint(1, 3)):
                at = random.randrange(len(other))
                size = random.choice([1, 4, 40])
                other[at : at + size] = random.choice([b"", bytes(size), random.randbytes(size), b"BFRM"])
            yield number, bytes(other[: random.choice([len(other), random.randrange(len(other))])])


@pytest.mark.parametrize("piece_bytes", [33, 64, 4096])
def test_the_walk_finds_what_the_scan_finds(made: BookieDirectory, image: dict[str, bytes], piece_bytes: int) -> None:
    for number, content in damaged_journals(image):
        path, tag = journal_path(number), tag_of(made.bench.identity, number)
        window = Window(restored({path: content}), path, piece_bytes=piece_bytes)
        expected = scan(content, tag, HEADER_BYTES)
        found = list(walk_frames(window, tag, HEADER_BYTES))
        assert [(each.offset, each.end) for each in found] == [(each.offset, each.end) for each in expected.parts]
        told = [each.synced for each in found if isinstance(each, FramePlace | DamagedFrame)]
        assert max(told, default=0) == expected.synced
        for part, frame in zip(found, expected.parts, strict=True):
            assert isinstance(part, FramePlace) == isinstance(frame, Frame)
            if isinstance(part, FramePlace) and isinstance(frame, Frame):
                check_records(window, part, frame)


def test_the_next_frame_is_found_across_pieces(made: BookieDirectory, image: dict[str, bytes]) -> None:
    path = min(path for path in image if path.startswith("journal/"))
    tag, disk = tag_of(made.bench.identity, int(path[-16:], 16)), restored(image)
    disk.flip(path, 8 * HEADER_BYTES)
    expected = [each.offset for each in scan(disk.read(path), tag, HEADER_BYTES).parts]
    for piece_bytes in range(8, 80):
        window = Window(disk, path, piece_bytes=piece_bytes)
        assert [each.offset for each in walk_frames(window, tag, HEADER_BYTES)] == expected, piece_bytes


def check_records(window: Window, part: FramePlace, frame: Frame) -> None:
    expected: list[object] = []
    for record in parse_records(frame.payload):
        expected += record.envelopes if isinstance(record, EntriesRecord) else [record]
    found: list[object] = [each for _, each in walk_records(window.again(), window.again(), part)]
    stored = [window.again().read(each.offset, each.size) if isinstance(each, EntryPlace) else each for each in found]
    assert stored == expected


def test_records_that_are_none(image: dict[str, bytes]) -> None:
    """Their checksum is right, so it is not the disk that is wrong."""
    for payload in (
        b"\x09",
        b"\x01\0\0\0\x02\0\0\0\x20",
        b"\x04" + bytes(28) + b"\0\0\1\0",
        b"\x02abc",
        b"\x06" + bytes(3),
    ):
        disk = restored({"journal/0000000000000001": bytes(HEADER_BYTES + FRAME_HEADER_BYTES) + payload})
        window = Window(disk, "journal/0000000000000001")
        with pytest.raises(RecordError):
            list(walk_records(window, window.again(), FramePlace(HEADER_BYTES, window.size, 0)))


# Limits.


class Counted(FaultyDisk):
    """A disk that knows how much was read at once."""

    largest = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        self.largest = max(self.largest, len(data))
        return data


def test_no_more_than_a_piece_is_read_at_once(made: BookieDirectory, image: dict[str, bytes]) -> None:
    disk = Counted()
    disk.restore(image)
    assert not [each for each in findings_in(disk, piece_bytes=512) if each.kind.is_fault]
    assert max(map(len, image.values())) > 1024
    assert disk.largest <= 512
    Inspection(disk, piece_bytes=512).find(1, 16)
    assert disk.largest <= 512


def test_a_name_far_away_is_one_finding(image: dict[str, bytes]) -> None:
    first = min(content for path, content in image.items() if path.startswith("journal/"))
    found = faults_in(restored(image | {"journal/ffffffffffffffff": first}))
    assert len([each for each in found if "missing" in each.reason]) == 1


def test_a_file_that_is_removed_meanwhile(made: BookieDirectory, image: dict[str, bytes]) -> None:
    disk = restored(image)

    class Removing:
        """The bookie removes every file of a directory between its listing and its reading."""

        def __getattr__(self, name: str) -> object:
            return getattr(disk, name)

        def size(self, path: str) -> int:
            raise FileNotFoundError(path)

    inspection = Inspection(Removing())  # type: ignore[arg-type]
    parts = [*inspection.walk_journal(), *inspection.walk_segments(), *inspection.walk_states()]
    assert {each.kind for each in parts if isinstance(each, Finding)} == {Kind.GONE, Kind.DAMAGE}
    assert inspection.find(1, 0)[0].kind is Kind.GONE  # type: ignore[union-attr]


def test_a_journal_that_ends_at_a_frame_but_too_early_is_damaged(tmp_path: Path) -> None:
    limits = {"journal_file_bytes": 1500, "flush_bytes": 1 << 20, "cache_bytes_max": 2 << 20}
    made = BookieDirectory(tmp_path / "one", config=evolve(SMALL, **limits))
    for entry in range(60):
        made.append(1, [entry], DIGEST)
    image = image_of(made.root)
    first = min(name for name in image if name.startswith("journal/0"))
    assert first != max(name for name in image if name.startswith("journal/0"))
    tag = tag_of(made.bench.identity, int(first[-16:], 16))
    frames = [each.offset for each in walk_frames(Window(made.disk, first), tag, HEADER_BYTES)]
    disk = restored(image | {first: image[first][: frames[-1]]})
    [told] = [each for each in faults_in(disk) if each.path == first]
    assert (told.kind, told.offset) == (Kind.DAMAGE, frames[-1])
    assert refusal(disk, made) is not None
