"""What performs the file effects of all logs of a broker over a `Disk`, and answers when they are done.

One `perform` is one group commit: appends to a file that follow each other become one write, and each file that is to
be synced is synced once, before any `Confirm` is answered. All files are written before the first is synced. Where
everything before an append is durable already, the write and its sync are one system call.

An `OSError` is final for the log that it happened to, that is, its directory: what a failed write or sync left cannot
be known. Every later effect of that log is skipped, and each `Confirm` is answered by `Failed`. The other logs go on.

It satisfies `zab.host.storage.log_thread.Performer`, and belongs to one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import attrs

from datatree.log.disk import Disk, File
from zab.partition.log.file_effects import (
    Answer,
    Append,
    Confirm,
    Confirmed,
    Create,
    Failed,
    FileEffect,
    Remove,
    RemoveDirectory,
    Rename,
    RenameDirectory,
    Replace,
    Sync,
    SyncDirectory,
    Truncate,
)
from zab.service.summary import Summary

T = TypeVar("T")

OPEN_FILES_MAX = 4096
"""How many files are kept open for appending: one of each log that is written to."""


@attrs.define(eq=False)
class _OpenFile:
    file: File
    is_synced: bool
    """Everything in it is durable."""


@attrs.define(eq=False)
class _Waiting:
    """What is to be done in a directory before anything else is."""

    appends: dict[str, list[Append]] = attrs.Factory(dict)
    syncs: dict[str, None] = attrs.Factory(dict)


class Files:
    """The files of all logs of one broker, for writing."""

    def __init__(
        self, disk: Disk, open_files_max: int = OPEN_FILES_MAX, clock_ns: Callable[[], int] = lambda: 0
    ) -> None:
        """`clock_ns` is what `flushes_ms` is measured with."""
        self.flushes_ms = Summary()
        """How long each sync of a file took, with the write that it was one call with."""
        self._clock_ns = clock_ns
        self.failures: dict[str, str] = {}
        """Directories whose storage failed, and why."""
        self._disk = disk
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._open_files_max = open_files_max
        self._waiting: dict[str, _Waiting] = {}

    def perform(self, effects: Sequence[FileEffect]) -> list[Answer]:
        """Carry out the effects; the answers to each `Confirm` in order."""
        confirms = []
        for effect in effects:
            if type(effect) is Confirm:
                confirms.append(effect)
            elif type(effect) is Append:
                self._waiting_of(effect.directory).appends.setdefault(effect.path, []).append(effect)
            elif type(effect) is Sync:
                self._waiting_of(effect.directory).syncs[effect.path] = None
            else:
                self._change(effect)
        self._settle(list(self._waiting))
        return [self._answer(confirm) for confirm in confirms]

    def is_awaited(self, answer: Answer) -> bool:
        """Somebody waits for each."""
        return True

    def idle(self) -> None:
        """Everything is written already."""

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].file.close()

    def _answer(self, confirm: Confirm) -> Answer:
        reason = self.failures.get(confirm.directory)
        return Confirmed(confirm.token) if reason is None else Failed(confirm.token, reason)

    def _waiting_of(self, directory: str) -> _Waiting:
        waiting = self._waiting.get(directory)
        if waiting is None:
            waiting = self._waiting[directory] = _Waiting()
        return waiting

    # Appends and syncs.

    def _settle(self, directories: Sequence[str]) -> None:
        """Do what waits in these directories: all writes, then all syncs."""
        work = [(directory, self._waiting.pop(directory)) for directory in directories if directory in self._waiting]
        for directory, waiting in work:
            self._attempt(directory, self._write, waiting)
        for directory, waiting in work:
            self._attempt(directory, self._sync, waiting)

    def _write(self, waiting: _Waiting) -> None:
        for path, appends in waiting.appends.items():
            position = appends[0].position
            opened = self._opened(path)
            assert opened.file.size == position, f"{path} ends at {opened.file.size}, not at {position}"
            for append in appends:
                assert append.position == position, f"{path} goes on at {position}, not at {append.position}"
                position += len(append.data)
            data = b"".join([append.data for append in appends])
            if opened.is_synced and path in waiting.syncs:
                self._time(partial(opened.file.write_durable, data))
                del waiting.syncs[path]
            else:
                opened.is_synced = False
                opened.file.write(data)

    def _sync(self, waiting: _Waiting) -> None:
        for path in waiting.syncs:
            opened = self._opened(path)
            if not opened.is_synced:
                self._time(opened.file.sync)
                opened.is_synced = True

    def _time(self, sync: Callable[[], object]) -> None:
        started_ns = self._clock_ns()
        sync()
        self.flushes_ms.add((self._clock_ns() - started_ns) // 1_000_000)

    def _opened(self, path: str) -> _OpenFile:
        opened = self._open.get(path)
        if opened is not None:
            self._open.move_to_end(path)
            return opened
        file = self._disk.open_append(path, create=False, offset=self._disk.size(path))
        return self._keep(path, _OpenFile(file, is_synced=False))

    def _keep(self, path: str, opened: _OpenFile) -> _OpenFile:
        self._open[path] = opened
        if len(self._open) > self._open_files_max:
            self._open.popitem(last=False)[1].file.close()
        return opened

    def _forget(self, path: str) -> None:
        """Close a file whose name is about to mean another one."""
        opened = self._open.pop(path, None)
        if opened is not None:
            opened.file.close()

    def _forget_directory(self, directory: str) -> None:
        for path in [path for path in self._open if path.startswith(f"{directory}/")]:
            self._forget(path)

    # Everything else.

    def _change(self, effect: FileEffect) -> None:
        directory = effect.directory
        self._settle([directory] if directory else list(self._waiting))
        self._attempt(directory, self._perform_one, effect)

    def _perform_one(self, effect: FileEffect) -> None:
        disk = self._disk
        match effect:
            case Create(path):
                self._keep(path, _OpenFile(disk.open_append(path, create=True), is_synced=True))
            case Replace(path, data):
                self._forget(path)
                disk.replace(path, data)
            case Truncate(path, size):
                self._forget(path)
                disk.truncate(path, size)
            case Rename(old, new):
                self._forget(old)
                self._forget(new)
                if disk.exists(old):
                    disk.rename(old, new)
            case Remove(path):
                self._forget(path)
                if disk.exists(path):
                    disk.remove(path)
            case SyncDirectory(directory):
                disk.sync_directory(directory)
            case RenameDirectory(directory, new):
                self._forget_directory(directory)
                disk.rename_directory(directory, new)
            case RemoveDirectory(directory):
                self._forget_directory(directory)
                disk.remove_directory(directory)
            case _:
                raise AssertionError(effect)

    def _attempt(self, directory: str, do: Callable[[T], None], what: T) -> None:
        """Do this, unless the storage of the log failed."""
        if directory in self.failures:
            return
        try:
            do(what)
        except OSError as error:
            self.failures[directory] = str(error)
            try:
                self._forget_directory(directory)
            except OSError:
                # It was to be closed; its log is not written to any more.
                self._open = OrderedDict(
                    (path, opened) for path, opened in self._open.items() if not path.startswith(f"{directory}/")
                )
