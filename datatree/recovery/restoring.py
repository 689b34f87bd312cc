"""Restores a running member to a snapshot, with which it continues instead of its own history (B8 restored members).

    staged = stage(disk, path, lineage, …)  while it runs: what it will continue with is durable, beside its history
    is_gone = drop_foreign(disk)            at a start: what was staged for a different history is dropped
    taken = take_staged(disk, server_id)    then: the member's own history is set aside, and replaced by that

    version-1.restored/snapshot.<zxid>     what was staged: the state of the snapshot, as the beginning of a history
    version-1/stagedOf                     the lineage in which it was staged, as a small record
    version-1.before-<lineage>/…           what was there before, as a member's files

The history that begins is a new one. Its lineage is derived from the previous lineage, the state, and the configuration
in force, so members of one ensemble that are restored to the same snapshot, each at its own time, form one ensemble
again. Members that are not restored yet take no part in it, nor do restored ones in theirs. Members that know of a
different configuration are kept out, too, since their quorums need not intersect these. As in any ensemble, a majority
is required. So both ensembles never serve at the same time, and no client finds another state after its own history.

The member's promises about epochs stay. A majority of the members has accepted every epoch that the old ensemble was
ever in; so their first leader begins a later one, and no zxid is used twice. The state keeps the zxid of its snapshot,
which the old ensemble has gone past.

Invariants: after a power cut at any step, the next start continues where this one ended. The member record belongs to
the old history while all of that is in place, and to the new one before the new snapshot is.

Not here: who may ask for it, and how the bytes arrive (`zab.server.restoring`); which states are acceptable
(`datatree.recovery.soundness`).
"""

from contextlib import suppress
from hashlib import blake2b
from typing import Final

from attrs import frozen

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.disk import Disk
from datatree.log.epochs import (
    ACCEPTED_EPOCH,
    COMMITTED,
    CURRENT_EPOCH,
    DIRECTORY,
    MEMBER,
    MemberRecord,
    load_member,
    load_record,
    save_mark,
    save_record,
)
from datatree.log.founding import found
from datatree.log.session_keys import SESSION_KEYS
from datatree.log.transaction_log import SPARE
from datatree.log.zxid import EPOCH_MAX, epoch_of
from datatree.recovery.beginning import write_beginning
from datatree.recovery.soundness import unsound
from datatree.snapshot import (
    FETCH,
    SnapshotError,
    SnapshotHeader,
    SnapshotReader,
    load_snapshot,
    read_snapshot_header,
    snapshot_files,
    snapshot_path,
    verify_snapshot,
)

RESTORED: Final = f"{DIRECTORY}.restored"
_OF: Final = "stagedOf"
BEFORE: Final = f"{DIRECTORY}.before-"
_DOMAIN: Final = b"zab restored"
_EPOCH_MAX: Final = EPOCH_MAX >> 1
"""The largest epoch of a snapshot, which leaves as many again for the members that continue with it."""


@frozen
class Taken:
    """The result of a start that replaced the old history."""

    lineage: bytes
    zxid: int
    before: str
    """The directory with the old history."""


@frozen
class GoesOn:
    """What the next start will continue with, instead of the present history."""

    path: str
    header: SnapshotHeader
    is_begun: bool
    """A start has begun to set the old history aside, so what is left of it counts for nothing."""

    @property
    def before(self) -> str:
        """The directory for the old history."""
        return BEFORE + self.header.lineage.hex()


def restored_lineage(before: bytes, zxid: int, state: bytes, configuration: bytes) -> bytes:
    """The lineage of members of the lineage `before` once they are restored to this state. `state` is from `hash_of`;
    `configuration` is the one in force, according to the history, or empty if the history has none."""
    data = b"".join((before, zxid.to_bytes(8, "big"), state, configuration))
    return blake2b(data, digest_size=LINEAGE_BYTES, person=_DOMAIN).digest()


def hash_of(disk: Disk, path: str) -> bytes:
    """A hash of all entries of a snapshot. The digest of a tree only guards against accidents, and does not cover
    everything: an attacker could make two states with one digest, and members that take each other for one ensemble.
    Raises SnapshotError."""
    entries = blake2b(digest_size=32)
    for _, _, data in SnapshotReader.open(disk, path).chunks():
        entries.update(data)
    return entries.digest()


def stage(disk: Disk, path: str, lineage: bytes, configuration: bytes = b"") -> SnapshotHeader:
    """Make the whole snapshot at `path` what a member of `lineage` continues with at its next start. For
    `configuration` see `restored_lineage`.

    Raises SnapshotError if it is not complete, or not an acceptable state; and OSError. Then nothing new is staged.
    """
    header, tree = load_snapshot(disk, path)
    if not header.zxid:
        raise SnapshotError(path, 0, "there is no transaction in it")
    if epoch_of(header.zxid) > _EPOCH_MAX:
        raise SnapshotError(path, 0, f"no epoch comes after {epoch_of(header.zxid)}")
    reason = unsound(tree)
    if reason is not None:
        raise SnapshotError(path, 0, reason)
    drop_staged(disk)
    new = restored_lineage(lineage, header.zxid, hash_of(disk, path), configuration)
    try:
        save_record(disk, _OF, lineage.hex())
        return write_beginning(disk, tree, new, RESTORED).header
    except OSError:
        # It may have its name already.
        with suppress(OSError):
            drop_staged(disk)
        raise


def drop_staged(disk: Disk) -> None:
    """Remove what is staged, durably."""
    for zxid in snapshot_files(disk, RESTORED):
        disk.remove(snapshot_path(zxid, RESTORED))
        disk.sync_directory(RESTORED)
    _forget_of(disk)


def drop_foreign(disk: Disk) -> bool:
    """Drop what is staged if it is not for the present history, and return whether it was: the history was removed, or
    a forced recovery made another one, or the promises about epochs cannot be read and went with it. Raises OSError."""
    staged = _staged(disk)
    is_foreign = staged is not None and not _is_of_here(disk, staged)
    if is_foreign:
        drop_staged(disk)
    return is_foreign


def goes_on_with(disk: Disk) -> GoesOn | None:
    """What is staged, or None to continue with the present history. Raises SnapshotError like `take_staged`."""
    path = _path_of_staged(disk)
    if path is None:
        return None
    staged, member = _header(disk, path), load_member(disk)
    if not _is_of_here(disk, staged):
        return None
    return GoesOn(path, staged, member is None or member.lineage == staged.lineage)


def _staged(disk: Disk) -> SnapshotHeader | None:
    """What is staged, as far as it can be read."""
    path = _path_of_staged(disk)
    return None if path is None else read_snapshot_header(disk, path)


def _path_of_staged(disk: Disk) -> str | None:
    staged = snapshot_files(disk, RESTORED)
    return snapshot_path(staged[-1], RESTORED) if staged else None


def _header(disk: Disk, path: str) -> SnapshotHeader:
    header = read_snapshot_header(disk, path)
    if header is None:
        raise SnapshotError(path, 0, "checksum of the header does not match")
    return header


def _is_of_here(disk: Disk, staged: SnapshotHeader) -> bool:
    member, of = load_member(disk), load_record(disk, _OF)
    if _accepted(disk) is None:
        return False
    if member is None:
        # A start has begun to set all of it aside.
        return of is not None and disk.exists(f"{BEFORE}{staged.lineage.hex()}/{MEMBER}")
    return member.lineage == staged.lineage or member.lineage.hex() == of


def take_staged(disk: Disk, server_id: int) -> Taken | None:
    """Replace the present history by what is staged, durably; None if nothing is staged.

    Raises SnapshotError if what is staged is damaged, as long as nothing is set aside; then nothing is changed. And
    OSError.
    """
    path = _path_of_staged(disk)
    if path is None:
        _forget_of(disk)
        return None
    header = _header(disk, path)
    before = BEFORE + header.lineage.hex()
    member = load_member(disk)
    if member is None or member.lineage != header.lineage:
        epoch, accepted = epoch_of(header.zxid), _accepted(disk)
        assert accepted is not None, "drop_foreign sees to that"
        if member is not None:
            verify_snapshot(disk, path)  # a complete history is only given up for a complete snapshot
        _set_aside(disk, before)
        found(disk, MemberRecord(header.lineage, server_id), max(accepted, epoch), epoch)
    # Nothing follows the snapshot yet; say so to readers of the directory.
    save_mark(disk, header.lineage, header.zxid, durable=True)
    disk.rename(path, snapshot_path(header.zxid))
    for directory in (DIRECTORY, RESTORED):
        disk.sync_directory(directory)
    _forget_of(disk)
    return Taken(header.lineage, header.zxid, before)


def _forget_of(disk: Disk) -> None:
    if disk.exists(f"{DIRECTORY}/{_OF}"):
        disk.remove(f"{DIRECTORY}/{_OF}")


def _set_aside(disk: Disk, before: str) -> None:
    """Move everything that makes this the directory of a member: its record first, so that no part of the rest is taken
    for the whole. The accepted epoch is a promise, and stays; a copy of it goes with the rest."""
    names = disk.list(DIRECTORY)
    if MEMBER in names:
        _move(disk, MEMBER, before)
        _sync(disk, before)
    for name in names:
        if _is_of_history(name):
            _move(disk, name, before)
    _sync(disk, before)
    copy = f"{before}/{ACCEPTED_EPOCH}"
    if not disk.exists(copy) and disk.exists(f"{DIRECTORY}/{ACCEPTED_EPOCH}"):
        disk.replace(copy, disk.read(f"{DIRECTORY}/{ACCEPTED_EPOCH}"))


def _is_of_history(name: str) -> bool:
    if name.startswith(("log.", "snapshot.")):
        return not name.endswith((".tmp", FETCH)) and f"{DIRECTORY}/{name}" != SPARE
    return name in (CURRENT_EPOCH, COMMITTED, SESSION_KEYS)


def _accepted(disk: Disk) -> int | None:
    """The epoch that this member has accepted, whatever became of the rest; None if it cannot be read."""
    line = load_record(disk, ACCEPTED_EPOCH)
    return int(line) if line is not None and line.isdecimal() else None


def _move(disk: Disk, name: str, before: str) -> None:
    place = f"{before}/{name}"
    number = 1
    while disk.exists(place):
        number += 1
        place = f"{before}/{name}.{number}"
    disk.rename(f"{DIRECTORY}/{name}", place)


def _sync(disk: Disk, before: str) -> None:
    """Sync the new names first: a file that is missing under its old name then has its new one."""
    disk.sync_directory(before)
    disk.sync_directory(DIRECTORY)
