"""A trail: order, and what is lost and said to be, while nobody is held up; its file: rotation, rights, full disks."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.journal.background_writer import BackgroundWriter
from zab.host.journal.rotating_file import RotatingFile


@attrs.frozen
class Note:
    text: str
    held_bytes: int = 10


class Kept:
    """A sink that fails as long as `error` says so; `may_write` holds the thread up."""

    def __init__(self) -> None:
        self.written = b""
        self.error: OSError | None = None
        self.tried = threading.Semaphore(0)
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_closed = False

    def write(self, chunk: bytes) -> None:
        self.tried.release()
        assert self.may_write.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        self.written += chunk

    def close(self) -> None:
        self.is_closed = True


class Heard:
    def __init__(self) -> None:
        self.lost_count = 0
        self.reasons: list[str] = []
        self.went_on = threading.Event()

    def lost(self, count: int) -> None:
        self.lost_count += count

    def failed(self, reason: str) -> None:
        self.reasons.append(reason)

    def goes_on(self) -> None:
        self.went_on.set()


def lines(note: Note) -> Iterator[bytes]:
    yield f"{note.text}\n".encode()


Make = Callable[..., BackgroundWriter[Note]]


@pytest.fixture
def make() -> Iterator[Make]:
    trails: list[tuple[BackgroundWriter[Note], Kept]] = []

    def make(sink: Kept, heard: Heard, bytes_max: int = 1000, retry_seconds: float = 0.001) -> BackgroundWriter[Note]:
        trail = BackgroundWriter(
            sink, lines, lambda count: Note(f"lost {count}"), heard, bytes_max=bytes_max, retry_seconds=retry_seconds
        )
        trails.append((trail, sink))
        trail.start()
        return trail

    yield make
    for trail, sink in trails:
        sink.may_write.set()
        trail.close(PATIENCE_SECONDS)


def test_records_are_written_in_their_order_and_all_at_the_end(make: Make) -> None:
    sink, heard = Kept(), Heard()
    trail = make(sink, heard, bytes_max=100_000)
    for number in range(1000):
        trail.put(Note(str(number)))
    assert trail.close(PATIENCE_SECONDS)
    assert sink.written.split() == [b"%d" % number for number in range(1000)]
    assert sink.is_closed
    assert (heard.lost_count, heard.reasons) == (0, [])


def test_full_trail_loses_what_is_new_counts_it_and_says_it_where_it_is_missing(make: Make) -> None:
    sink, heard = Kept(), Heard()
    sink.may_write.clear()
    trail = make(sink, heard, bytes_max=30)
    trail.put(Note("first"))
    assert sink.tried.acquire(timeout=PATIENCE_SECONDS)
    for number in range(10):
        trail.put(Note(str(number)))
    assert heard.lost_count == 8, "the loop was not held up, though nothing was written"
    sink.may_write.set()
    while not sink.written.endswith(b"1\n"):
        assert sink.tried.acquire(timeout=PATIENCE_SECONDS)
        sink.tried.release()
    trail.close(PATIENCE_SECONDS)
    assert sink.written == b"first\n0\n1\nlost 8\n"


def test_what_is_lost_is_said_before_what_comes_after_it() -> None:
    sink, heard = Kept(), Heard()
    trail = BackgroundWriter(sink, lines, lambda count: Note(f"lost {count}"), heard, bytes_max=20)
    for number in range(5):
        trail.put(Note(str(number)))
    trail._let_go(20)  # as if the first ones were written
    trail.put(Note("later"))
    trail.start()
    assert trail.close(PATIENCE_SECONDS)
    assert sink.written == b"0\n1\nlost 3\nlater\n"


def test_one_record_is_taken_however_large_it_is(make: Make) -> None:
    sink, heard = Kept(), Heard()
    trail = make(sink, heard, bytes_max=10)
    trail.put(Note("large", held_bytes=1_000_000))
    trail.close(PATIENCE_SECONDS)
    assert sink.written == b"large\n"


def test_short_failure_loses_nothing_and_is_said_once(make: Make) -> None:
    sink, heard = Kept(), Heard()
    sink.error = OSError(errno.ENOSPC, "No space left on device")
    trail = make(sink, heard)
    trail.put(Note("a"))
    for _ in range(5):
        assert sink.tried.acquire(timeout=PATIENCE_SECONDS)
    trail.put(Note("b"))
    sink.error = None
    assert heard.went_on.wait(PATIENCE_SECONDS)
    trail.close(PATIENCE_SECONDS)
    assert sink.written == b"a\nb\n"
    assert (heard.lost_count, heard.reasons) == (0, ["No space left on device"])


def test_end_is_not_held_up_by_a_disk_that_stays_full(make: Make) -> None:
    sink, heard = Kept(), Heard()
    sink.error = OSError(errno.ENOSPC, "No space left on device")
    trail = make(sink, heard, retry_seconds=PATIENCE_SECONDS)
    trail.put(Note("a"))
    assert sink.tried.acquire(timeout=PATIENCE_SECONDS)
    assert trail.close(PATIENCE_SECONDS)
    assert heard.lost_count == 1
    assert sink.is_closed


def test_bug_in_making_lines_ends_in_losses_that_are_said(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    sink, heard = Kept(), Heard()
    trail = make(sink, heard)
    trail._lines = lambda note: iter([note.text])  # type: ignore[list-item]
    trail.put(Note("a"))
    assert trail.close(PATIENCE_SECONDS)
    trail.put(Note("b"))
    assert heard.lost_count == 1
    assert heard.reasons[0].startswith("TypeError")


# ------------------------------------------------------------------------------------------------------------ the file


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_file_grows_to_its_size_and_so_many_are_kept(tmp_path: Path) -> None:
    file = RotatingFile(str(tmp_path / "log"), bytes_max=8, files_count=3)
    for number in range(9):
        file.write(b"%d--\n" % number)
    file.close()
    assert contents(tmp_path) == {"log": b"8--\n", "log.1": b"6--\n7--\n", "log.2": b"4--\n5--\n"}


def test_one_file_alone_begins_anew(tmp_path: Path) -> None:
    file = RotatingFile(str(tmp_path / "log"), bytes_max=4, files_count=1)
    for number in range(3):
        file.write(b"%d--\n" % number)
    file.close()
    assert contents(tmp_path) == {"log": b"2--\n"}


def test_file_goes_on_where_the_process_before_ended(tmp_path: Path) -> None:
    for number in range(3):
        file = RotatingFile(str(tmp_path / "log"), bytes_max=8, files_count=2)
        file.write(b"%d--\n" % number)
        file.close()
    assert contents(tmp_path) == {"log": b"2--\n", "log.1": b"0--\n1--\n"}


def test_files_are_their_owners_alone_whatever_the_umask_and_their_rights_were(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        file = RotatingFile(str(path), bytes_max=4, files_count=2)
        file.write(b"0--\n")
        file.write(b"1--\n")
        file.close()
    finally:
        os.umask(before)
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {"log": 0o600, "log.1": 0o600}


def test_link_pipe_and_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory", "missing/log"):
        with pytest.raises(OSError):
            RotatingFile(str(tmp_path / name), bytes_max=100, files_count=1)
    assert not (tmp_path / "target").exists()


def test_pipe_that_somebody_reads_is_refused_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="plain file"):
            RotatingFile(str(tmp_path / "pipe"), bytes_max=100, files_count=1)
    finally:
        os.close(reader)


@pytest.mark.parametrize("go", [os.remove, lambda path: os.rename(path, f"{path}.away")])
def test_who_takes_the_file_away_gets_a_new_one(tmp_path: Path, go: Callable[[str], None]) -> None:
    path = tmp_path / "log"
    file = RotatingFile(str(path), bytes_max=100, files_count=1)
    file.write(b"a\n")
    go(str(path))
    file.write(b"b\n")
    file.close()
    assert path.read_bytes() == b"b\n"


def test_chunk_that_fails_in_its_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    file = RotatingFile(str(path), bytes_max=100, files_count=1)
    file.write(b"whole\n")
    write = os.write

    def fill_up(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(fd, data[:3])

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fill_up)
    with pytest.raises(OSError, match="No space left"):
        file.write(b"torn\n")
    monkeypatch.setattr(os, "write", write)
    assert path.read_bytes() == b"whole\n"
    file.write(b"again\n")
    file.close()
    assert path.read_bytes() == b"whole\nagain\n"
