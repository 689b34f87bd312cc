"""Verifies backups: the bytes of each file, and the state that the files amount to.

    checked_files(store, files)             what is not as the catalogue says
    restored(store, catalogue, zxid)        what a member would find in the files of a backup (`examine`)

The state is made by what a member makes its own of at a start, so that chains, checksums and digests are compared as
there. Memory holds the tree.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, NoReturn

from attrs import frozen

from datatree.log.disk import File
from datatree.log.epochs import COMMITTED, DIRECTORY, pack_mark
from datatree.recovery.recover import examine
from datatree.recovery.recovered import Recovered
from zab.operations.backup.stores import Store
from zab.operations.verdicts.catalogue import Backup, BackupFile, Catalogue, needed

__all__ = ["Fault", "checked_files", "digest_of_file", "fault_of", "restored"]

_PIECE_BYTES: Final = 4 << 20


@frozen
class Fault:
    """Something differs from what was written. name: of a file; empty for the whole backup."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


def digest_of_file(store: Store, name: str) -> tuple[int, str]:
    """Its size in bytes, and its SHA-256. Raises OSError."""
    hasher, at = sha256(), 0
    while piece := store.read(name, at, _PIECE_BYTES):
        hasher.update(piece)
        at += len(piece)
    return at, hasher.hexdigest()


def checked_files(store: Store, files: Iterable[BackupFile]) -> Iterator[Fault]:
    for file in files:
        try:
            size, digest = digest_of_file(store, file.name)
        except OSError as error:
            yield Fault(file.name, f"it cannot be read: {error.strerror or error}")
            continue
        if size != file.size:
            yield Fault(file.name, f"it has {size} bytes, and was written with {file.size}")
        elif digest != file.sha256:
            yield Fault(file.name, "its bytes are not those that were written")


class _Files:
    """`datatree.log.disk.Disk` on the files of one backup, read-only. Everything up to the backup's zxid is
    committed."""

    def __init__(self, store: Store, catalogue: Catalogue, backup: Backup) -> None:
        self._store = store
        self._names = {each.name for each in needed(catalogue, backup)}
        self._mark = pack_mark(bytes.fromhex(catalogue.lineage), backup.zxid)

    def directories(self) -> list[str]:
        return [DIRECTORY]

    def rename_directory(self, old: str, new: str) -> None:
        _refuse(old)

    def remove_directory(self, directory: str) -> None:
        _refuse(directory)

    def list(self, directory: str) -> list[str]:
        names = [name.removeprefix(f"{DIRECTORY}/") for name in self._names]
        return sorted([*names, COMMITTED]) if directory == DIRECTORY else []

    def exists(self, path: str) -> bool:
        return path in self._names or path == f"{DIRECTORY}/{COMMITTED}"

    def size(self, path: str) -> int:
        return len(self._mark) if path == f"{DIRECTORY}/{COMMITTED}" else self._store.size(self._known(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path == f"{DIRECTORY}/{COMMITTED}":
            return self._mark[offset:] if length is None else self._mark[offset : offset + length]
        return self._store.read(self._known(path), offset, length)

    def _known(self, path: str) -> str:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "it is no file of this backup", path)
        return path

    def free_bytes(self) -> int:
        return 0

    def forget_cached(self, path: str) -> None:
        """No-op: there is no cache."""

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> File:
        _refuse(path)

    def replace(self, path: str, data: bytes) -> None:
        _refuse(path)

    def overwrite(self, path: str, data: bytes) -> None:
        _refuse(path)

    def preallocate(self, path: str, size: int) -> None:
        _refuse(path)

    def rename(self, old: str, new: str) -> None:
        _refuse(old)

    def remove(self, path: str) -> None:
        _refuse(path)

    def truncate(self, path: str, size: int) -> None:
        _refuse(path)

    def sync_directory(self, directory: str) -> None:
        _refuse(directory)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "a backup that is read is not changed", path)


def restored(store: Store, catalogue: Catalogue, backup: Backup) -> Recovered:
    """What a member would recover from the files. Raises OSError."""
    return examine(_Files(store, catalogue, backup))


def fault_of(found: Recovered, backup: Backup) -> Fault | None:
    """Why this is not the state of the backup, or None."""
    if found.damage:
        return Fault("", f"the state cannot be made of the files: {'; '.join(map(str, found.damage))}")
    if found.mismatch_zxid is not None:
        return Fault("", f"at {found.mismatch_zxid:#x} the tree is not what the leader's was")
    if found.tree.applied != backup.zxid:
        return Fault("", f"the files go up to {found.tree.applied:#x}, and not to {backup.zxid:#x}")
    if found.tree.digest != backup.digest:
        return Fault("", f"the digest of the tree is {found.tree.digest:#x}, and was {backup.digest:#x}")
    return None
