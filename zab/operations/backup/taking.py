"""Takes a backup from a running member, or adds what has happened since the last one.

    take(store, source, ...) -> Taken

The steps are in this order so that a crash between any two leaves a complete catalogue, and the files that it names:

1. The log after the end of the last backup, up to what the member has applied, is written as further files. A file
   that the catalogue names is never written again; what a crash left under the name of a new one is replaced.
2. Where there is no snapshot yet, or it is older than `full_every_ms`, one is taken and written.
3. The state is made of the files as they are in the store now, and its digest compared with what the member says.
4. `committed` is replaced, then the catalogue. From here on the backup is there.
5. What retention lets go is taken out of the catalogue; then its files go, and files that no catalogue names.

If the log of the member begins after the end of the last backup, it goes on from a snapshot, with a gap before it.

Not here: HTTP (`Source`), when it is done.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Final, Protocol

import attrs
from attrs import define, frozen

from datatree.log.batch import Batch, BatchError, Position, continues, follows, parse
from datatree.log.epochs import COMMITTED, DIRECTORY, pack_mark
from datatree.log.frame import pack_frame, seed_of
from datatree.log.segment import SegmentHeader, log_path
from datatree.log.zxid import Zxid
from datatree.snapshot import HEADER_BYTES, SnapshotError, parse_snapshot_header, snapshot_path
from zab.operations.backup.stores import Store
from zab.operations.backup.verifying import digest_of_file, fault_of, restored
from zab.operations.verdicts.catalogue import CATALOGUE, Backup, BackupFile, Catalogue, kept, pruned

__all__ = ["BackupError", "LogPage", "LogTooYoungError", "Source", "Taken", "catalogue_of", "prune", "take"]

FILE_BYTES: Final = 64 << 20
"""The size at which a file of the log is full."""


class BackupError(Exception):
    """The backup failed; the text says why. Earlier backups are unchanged."""


class LogTooYoungError(Exception):
    """The member's log begins after the requested position. lineage: of its history, hexadecimal; None if not known."""

    def __init__(self, reason: str = "", lineage: str | None = None) -> None:
        super().__init__(reason)
        self.lineage = lineage


@frozen
class LogPage:
    """Batches after a position, and up to which zxid there are more. digest: of the tree there; None if unknown."""

    lineage: bytes
    previous: Position
    raw: bytes
    applied: int
    digest: int | None


class Source(Protocol):
    """The member that is backed up."""

    @property
    def name(self) -> str: ...

    def snapshot(self, path: str) -> int:
        """Have the member take a snapshot, and write it to a new file; returns its zxid."""

    def log(self, after: int) -> LogPage:
        """Raises LogTooYoungError."""


@frozen
class Taken:
    """The result. backup: None if nothing has happened since the last one."""

    catalogue: Catalogue
    backup: Backup | None
    new_files: tuple[BackupFile, ...] = ()
    removed: tuple[str, ...] = ()
    has_gap: bool = False


def catalogue_of(store: Store) -> Catalogue | None:
    """The catalogue, or None if there is none yet. Raises CatalogueError and OSError."""
    return Catalogue.load(store.read(CATALOGUE)) if store.exists(CATALOGUE) else None


@define
class _Log:
    """What was written of the log: files, and where it ends."""

    lineage: bytes
    end: Position
    files: list[BackupFile]
    digest: int | None = None


def take(
    store: Store,
    source: Source,
    now_ms: int,
    *,
    full: bool = False,
    full_every_ms: int | None = None,
    verified: bool = True,
    keep: int | None = None,
    keep_for_ms: int | None = None,
) -> Taken:
    """Take a backup. Raises BackupError, StoreUnusableError, CatalogueError, OSError, and what the source raises."""
    with store.held(), tempfile.TemporaryDirectory(prefix="zab-backup-") as aside:
        old = catalogue_of(store)
        has_gap = False
        snapshot: BackupFile | None = None
        if old is None:
            snapshot, log = _begun(store, source, aside, None)
        else:
            try:
                log = _log_after(store, source, aside, old.lineage, (Zxid(old.end), bytes.fromhex(old.chain)))
            except LogTooYoungError as error:
                # Before a snapshot: a member gives one in some minutes.
                if error.lineage is not None and error.lineage != old.lineage:
                    raise _elsewhere(old.lineage, error.lineage) from None
                has_gap = True
                snapshot, log = _begun(store, source, aside, old)
        new = _added(old, snapshot, log)
        if snapshot is None and (full or _is_due(new, now_ms, full_every_ms)):
            snapshot = _snapshot(store, source, aside, new.lineage)
            log = _extended(store, source, aside, log, snapshot.last)
            new = _added(old, snapshot, log)
        if old is not None and new.end == old.end and snapshot is None:
            return _pruned(store, Taken(old, None), now_ms, keep, keep_for_ms)
        backup = _backup(store, source, new, log, now_ms, verified=verified)
        new = attrs.evolve(new, backups=(*new.backups, backup))
        store.put(f"{DIRECTORY}/{COMMITTED}", pack_mark(log.lineage, new.end))
        store.put(CATALOGUE, new.dump())
        added = tuple([each for each in new.files if old is None or each not in old.files])
        return _pruned(store, Taken(new, backup, added, (), has_gap), now_ms, keep, keep_for_ms)


def _is_due(catalogue: Catalogue, now_ms: int, full_every_ms: int | None) -> bool:
    """Whether the newest snapshot is too old: its age is that of the first backup that begins with it."""
    newest = catalogue.snapshot_of(catalogue.end)
    if newest is None:
        return True
    since = [each.time_ms for each in catalogue.backups if each.snapshot == newest.last]
    return full_every_ms is not None and bool(since) and now_ms - min(since) >= full_every_ms


def _begun(store: Store, source: Source, aside: str, old: Catalogue | None) -> tuple[BackupFile, _Log]:
    """A snapshot, and the log after it."""
    snapshot = _snapshot(store, source, aside, None if old is None else old.lineage)
    first = source.log(snapshot.last)
    if old is not None and first.lineage.hex() != old.lineage:
        raise _elsewhere(old.lineage, first.lineage.hex())
    return snapshot, _log_after(store, source, aside, first.lineage.hex(), first.previous)


def _elsewhere(lineage: str, found: str) -> BackupError:
    return BackupError(
        f"the backups belong to the history {lineage}, and the member has {found}: an ensemble that was "
        "restored is a new one; name another directory for it"
    )


def _snapshot(store: Store, source: Source, aside: str, lineage: str | None) -> BackupFile:
    """Refuse to write backups of a different lineage beside those of `lineage`."""
    path = os.path.join(aside, "snapshot")
    zxid = source.snapshot(path)
    try:
        with open(path, "rb") as file:
            header = parse_snapshot_header(file.read(HEADER_BYTES), source.name)
    except SnapshotError as error:
        raise BackupError(f"what is sent is no snapshot: {error}") from None
    if lineage is not None and header.lineage.hex() != lineage:
        raise _elsewhere(lineage, header.lineage.hex())
    name = snapshot_path(zxid)
    store.put_file(name, path)
    os.unlink(path)
    return BackupFile(name, *digest_of_file(store, name), None, zxid)


def _log_after(store: Store, source: Source, aside: str, lineage: str, end: Position) -> _Log:
    """Write the log after a position to files, up to what the member had applied when it was first asked."""
    log = _Log(bytes.fromhex(lineage), end, [])
    upto: int | None = None
    while upto is None or log.end[0] < upto:
        page = source.log(log.end[0])
        if page.lineage.hex() != lineage:
            raise _elsewhere(lineage, page.lineage.hex())
        if page.previous != log.end:
            raise BackupError(f"{source.name} has another history at {log.end[0]:#x} than the backups")
        upto = page.applied if upto is None else upto
        log.digest = page.digest if page.applied == upto else log.digest
        if not page.raw:
            break
        _write_file(store, source, aside, log, page, upto)
    return log


def _extended(store: Store, source: Source, aside: str, log: _Log, zxid: int) -> _Log:
    """Write the log, at least up to a snapshot that was taken after it."""
    if log.end[0] >= zxid:
        return log
    more = _log_after(store, source, aside, log.lineage.hex(), log.end)
    return _Log(log.lineage, more.end, [*log.files, *more.files], more.digest)


def _write_file(store: Store, source: Source, aside: str, log: _Log, page: LogPage, upto: int) -> None:
    """Write one file: this page and the following ones, up to `FILE_BYTES` or to `upto`."""
    batches = list(_batches(source, page, log.end, upto))
    if not batches:
        raise BackupError(f"{source.name} sends nothing after {log.end[0]:#x}, and says that there is more")
    first, before = batches[0].first, log.end
    path = os.path.join(aside, "log")
    seed = seed_of(first)
    with open(path, "wb") as file:
        at = file.write(SegmentHeader(log.lineage, before, first).pack())
        synced = 0
        while True:
            at += file.write(pack_frame(seed, at, synced, [batch.raw for batch in batches]))
            synced, log.end = at, (batches[-1].zxid, batches[-1].chain)
            if at >= FILE_BYTES or log.end[0] >= upto:
                break
            page = source.log(log.end[0])
            if page.previous != log.end or page.lineage != log.lineage:
                raise BackupError(f"{source.name} has another history at {log.end[0]:#x} than before")
            log.digest = page.digest if page.applied == upto else log.digest
            batches = list(_batches(source, page, log.end, upto))
            if not batches:
                break
        # It says that all of the file is on disk, so that whatever cannot be read of it is damage.
        file.write(pack_frame(seed, at, synced))
    name = log_path(first)
    store.put_file(name, path)
    os.unlink(path)
    log.files.append(BackupFile(name, *digest_of_file(store, name), before[0], log.end[0]))


def _batches(source: Source, page: LogPage, end: Position, upto: int) -> Iterator[Batch]:
    """The batches of a page, each of which must continue the previous one."""
    at, (zxid, chain) = 0, end
    while at < len(page.raw):
        try:
            batch = parse(page.raw, at)
        except BatchError as error:
            raise BackupError(f"{source.name}: what it sends after {zxid:#x} cannot be read: {error.reason}") from None
        if not follows(zxid, batch) or not continues(chain, batch):
            raise BackupError(f"{source.name}: what it sends after {zxid:#x} does not follow it")
        if batch.zxid > upto:
            return
        yield batch
        at += len(batch.raw)
        zxid, chain = batch.zxid, batch.chain


def _added(old: Catalogue | None, snapshot: BackupFile | None, log: _Log) -> Catalogue:
    files = [*(old.files if old is not None else ()), *log.files, *([snapshot] if snapshot is not None else [])]
    files.sort(key=lambda each: (each.last, each.before is None))
    known = {each.name: each for each in files}
    backups = () if old is None else old.backups
    return Catalogue(log.lineage.hex(), log.end[0], log.end[1].hex(), backups, tuple(known.values()))


def _backup(store: Store, source: Source, catalogue: Catalogue, log: _Log, now_ms: int, *, verified: bool) -> Backup:
    base = catalogue.snapshot_of(catalogue.end)
    if base is None:
        raise BackupError("there is no snapshot to begin with")
    backup = Backup(catalogue.end, now_ms, base.last, log.digest or 0, 0, 0, source.name)
    if not verified:
        return backup
    found = restored(store, catalogue, backup)
    # Where the member does not remember the digest, that of the leader's tree in the log was compared all the same.
    backup = attrs.evolve(
        backup,
        digest=found.tree.digest if log.digest is None else log.digest,
        znode_count=found.tree.znode_count,
        session_count=len(found.tree.sessions),
    )
    fault = fault_of(found, backup)
    if fault is not None:
        raise BackupError(f"what was written does not come to the state of {source.name}: {fault}")
    return backup


def prune(store: Store, now_ms: int, *, keep: int | None, keep_for_ms: int | None) -> Taken:
    """Apply retention only. Raises BackupError, CatalogueError and OSError."""
    with store.held():
        catalogue = catalogue_of(store)
        if catalogue is None:
            raise BackupError("there is no backup")
        return _pruned(store, Taken(catalogue, None), now_ms, keep, keep_for_ms)


def _pruned(store: Store, taken: Taken, now_ms: int, keep: int | None, keep_for_ms: int | None) -> Taken:
    catalogue = pruned(taken.catalogue, kept(taken.catalogue, now_ms, count=keep, for_ms=keep_for_ms))
    if keep is None and keep_for_ms is None:
        catalogue = taken.catalogue
    if catalogue != taken.catalogue:
        store.put(CATALOGUE, catalogue.dump())
    named = {each.name for each in catalogue.files}
    strays = [name for name in store.names() if name.startswith((f"{DIRECTORY}/log.", f"{DIRECTORY}/snapshot."))]
    removed = [name for name in strays if name not in named]
    for name in removed:
        store.remove(name)
    return attrs.evolve(taken, catalogue=catalogue, removed=tuple(removed))
