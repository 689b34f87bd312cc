"""The directories of a bookie, and the threads that work on them.

The journal may have a disk of its own. Then each of the two directories has the cookie, so that one that was lost, or
belongs to another bookie, is noticed.

    open_directories(settings)      locked. Raises ServerFailedError
    Directories.disk                both, as one disk
    Threads(…)                      the journal, jobs one after the other, and reads

Not here: what is written and read (`zab.ledger.bookie`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from datatree.log.disk import Disk, File
from zab.bookie.settings import BookieSettings
from zab.host.journal.journal import Journal
from zab.host.loop.mailbox import Mailbox
from zab.host.storage.disk import DirectoryInUseError, RealDisk
from zab.host.storage.job_thread import JobThread
from zab.host.storage.log_thread import LogThread
from zab.ledger.bookie.cookie_check import CookieError, LocalCookie, read_local_cookie, write_local_cookie
from zab.ledger.bookie.entry_files import EntryFiles
from zab.ledger.bookie.events import AppendJournal, Input, Job, JournalFailed, ReadSegment, Space
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.journal_files import JournalFiles
from zab.service.failure import DATA_DIRECTORY_ERROR, ServerFailedError
from zab.service.summary import Summary

LOCK_FILE: Final = "lock"
SLOW_MS: Final = 1000

journal = Journal("bookie")


class JournalApart:
    """A disk whose directory `journal` is on another one. It has what `zab.ledger.bookie` uses of a `Disk`."""

    def __init__(self, journal_disk: RealDisk, other: RealDisk) -> None:
        self._journal = journal_disk
        self._other = other

    def _of(self, path: str) -> RealDisk:
        return self._journal if path == JOURNAL or path.startswith(f"{JOURNAL}/") else self._other

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> File:
        return self._of(path).open_append(path, create=create, offset=offset)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._of(path).read(path, offset, length)

    def replace(self, path: str, data: bytes) -> None:
        self._of(path).replace(path, data)

    def preallocate(self, path: str, size: int) -> None:
        self._of(path).preallocate(path, size)

    def rename(self, old: str, new: str) -> None:
        self._of(old).rename(old, new)

    def remove(self, path: str) -> None:
        self._of(path).remove(path)

    def list(self, directory: str) -> list[str]:
        return self._of(directory).list(directory)

    def size(self, path: str) -> int:
        return self._of(path).size(path)

    def exists(self, path: str) -> bool:
        return self._of(path).exists(path)

    def sync_directory(self, directory: str) -> None:
        self._of(directory).sync_directory(directory)


@attrs.frozen
class Directories:
    """The open directories: that of the entries first, then that of the journal, if it is another one."""

    disks: tuple[RealDisk, ...]

    @property
    def disk(self) -> Disk:
        """All of them, as one."""
        if len(self.disks) == 1:
            return self.disks[0]
        apart: Any = JournalApart(self.disks[1], self.disks[0])
        disk: Disk = apart
        return disk

    def close(self) -> None:
        for each in self.disks:
            each.close()

    def cookie(self) -> LocalCookie | None:
        """What all of them say; None: all are empty. Raises CookieError."""
        found = {each.directory: read_local_cookie(each) for each in self.disks}
        cookies = list(found.values())
        if any(each != cookies[0] for each in cookies):
            named = ", ".join(f"{path} {'has none' if each is None else 'has one'}" for path, each in found.items())
            raise CookieError(
                f"the cookies of the directories differ ({named}) -> a disk was lost, or is another bookie's: "
                "decommission this bookie, and bring it back with a new id"
            )
        return cookies[0]

    def write_cookie(self, cookie: LocalCookie) -> None:
        """Write it into all of them, durably: into that of the entries last."""
        for each in reversed(self.disks):
            write_local_cookie(each, cookie)

    def space(self) -> Space:
        """The free bytes and all bytes of the disk that is fuller."""
        found = []
        for each in self.disks:
            state = os.statvfs(each.directory)
            found.append(Space(state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize))
        return min(found, key=lambda space: space.free / max(space.total, 1))


def open_directories(settings: BookieSettings) -> Directories:
    """Make the directories if need be, and lock them. Raises ServerFailedError."""
    disks: list[RealDisk] = []
    for path in dict.fromkeys((settings.ledger_directory, settings.journal_directory)):
        try:
            disks.append(RealDisk(path, lock_file=LOCK_FILE))
        except OSError as error:
            for each in disks:
                each.close()
            if isinstance(error, DirectoryInUseError):
                raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{path}: another process uses this directory") from error
            raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{path} cannot be used: {error.strerror}") from error
    return Directories(tuple(disks))


class Threads:
    """The threads of a bookie. Their answers are in the mailbox."""

    def __init__(
        self,
        directories: Directories,
        journal_files: JournalFiles,
        entry_files: EntryFiles,
        mailbox: Mailbox[Input],
        read_threads: int,
    ) -> None:
        self._directories = directories
        self._entry_files = entry_files
        self._mailbox = mailbox
        self.writes_ms = Summary()
        """How long each cycle of the log thread took: a write and a sync of all that waits."""
        self._log_thread: LogThread[AppendJournal, Input] = LogThread(
            journal_files, mailbox, SLOW_MS, say_slow=_say_slow, timed=self.writes_ms.add, failed=JournalFailed
        )
        self._jobs = JobThread("jobs")
        self._readers = [JobThread(f"reads {number}") for number in range(read_threads)]
        self._reads = 0

    def start(self) -> None:
        self._log_thread.start()
        for each in (self._jobs, *self._readers):
            each.start()

    def append(self, append: AppendJournal) -> None:
        """Append to the journal."""
        self._log_thread.put(append)

    def do(self, job: Job) -> None:
        """Do a job after those before it."""
        self._jobs.run(partial(self._answer, lambda: self._entry_files.perform(job)))

    def read(self, read: ReadSegment) -> None:
        """Read from a segment."""
        self._reads += 1
        self._readers[self._reads % len(self._readers)].run(partial(self._answer, lambda: self._entry_files.read(read)))

    def ask_space(self) -> None:
        """Look how much is free."""
        self._readers[0].run(self._tell_space)

    def _answer(self, work: Callable[[], Input]) -> None:
        self._mailbox.put(work())

    def _tell_space(self) -> None:
        try:
            self._mailbox.put(self._directories.space())
        except OSError as error:
            journal.warning("the free space cannot be read", reason=str(error))

    def stop(self, patience_seconds: float) -> bool:
        """End the reads and the jobs, store what is under way, and close the journal in good order; False if that takes
        too long."""
        for each in (*self._readers, self._jobs):
            each.close(patience_seconds)
        return self._log_thread.close(patience_seconds)

    def drop(self, patience_seconds: float) -> None:
        """Leave the files as the death of the process would."""
        for each in (*self._readers, self._jobs):
            each.close(patience_seconds)
        self._log_thread.close(patience_seconds, drops=True)


def _say_slow(took_ms: int) -> None:
    journal.warning("the disk of the journal is slow", took_ms=took_ms)
