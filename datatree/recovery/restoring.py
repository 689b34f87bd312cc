"""A snapshot that a running member is given, to go on with in place of what it has (B8 restored members).

    staged = stage(disk, path, lineage, …)  while it runs: what it goes on with is durable, beside its own history
    is_gone = drop_foreign(disk)            at a start: what was staged here for another history is none of this one's
    taken = take_staged(disk, server_id)    then: its own history is set aside, and that takes its place

    version-1.restored/snapshot.<zxid>     what was staged: the state of the snapshot, as the beginning of a history
    version-1/stagedOf                     the lineage that it was staged in, as a small record
    version-1.before-<lineage>/…           what was there before, as a member had it

The history that begins is another one. Its lineage follows from the one before, from the state, and from the
configuration that was in force, so members of one ensemble that are given the same snapshot, each at its own time, are
one ensemble again; and those that were not given it yet take no part in it, nor do these in theirs. Nor do those that
know of another configuration, since a quorum of theirs need not meet one of ours. As in any ensemble a majority is
needed. So at no time do both serve, and nobody finds another state by his own history.

What the member has promised about epochs stays. A majority of the members has accepted whatever epoch the old ensemble
was ever in; so their first leader begins a later one, and no zxid comes a second time. The state stands at the zxid of
its snapshot, which the old ensemble has gone past.

Invariants: after a power cut at any step the next start goes on where this one ended; the member's record is of the old
history as long as all of that is in its place, and of the new one before its snapshot is.

Deliberately not here: who may have it done, and how the bytes come (`zab.server.restoring`); which states can be gone
on with (`datatree.recovery.soundness`).
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
"""Of a snapshot: so many again are left for whoever goes on with it."""


@frozen
class Taken:
    """What a start has put in the place of what was there."""

    lineage: bytes
    zxid: int
    before: str
    """The directory of what was there."""


@frozen
class GoesOn:
    """What the next start goes on with in place of what is here."""

    path: str
    header: SnapshotHeader
    is_begun: bool
    """A start has begun to set aside what was here, so what is left of it is nothing by itself."""

    @property
    def before(self) -> str:
        """The directory of what was here."""
        return BEFORE + self.header.lineage.hex()


def restored_lineage(before: bytes, zxid: int, state: bytes, configuration: bytes) -> bytes:
    """The lineage of what members of the lineage `before` go on with, when they are given this state. `state`: see
    `hash_of`; `configuration`: that in force, as the history has it; empty where that has none."""
    data = b"".join((before, zxid.to_bytes(8, "big"), state, configuration))
    return blake2b(data, digest_size=LINEAGE_BYTES, person=_DOMAIN).digest()


def hash_of(disk: Disk, path: str) -> bytes:
    """Of all entries of a snapshot. The digest of a tree guards against accidents, and does not cover all of it: who
    wants it has two states with one, and members that would be one ensemble with them. Raises SnapshotError."""
    entries = blake2b(digest_size=32)
    for _, _, data in SnapshotReader.open(disk, path).chunks():
        entries.update(data)
    return entries.digest()


def stage(disk: Disk, path: str, lineage: bytes, configuration: bytes = b"") -> SnapshotHeader:
    """Make the whole snapshot at `path` what a member of `lineage` goes on with at its next start. `configuration`: see
    `restored_lineage`.

    Raises SnapshotError where it is not whole, or no state that anybody can go on with; and OSError. Then nothing is
    staged, or what was staged before."""
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
    """Nothing is staged any more, durably."""
    for zxid in snapshot_files(disk, RESTORED):
        disk.remove(snapshot_path(zxid, RESTORED))
        disk.sync_directory(RESTORED)
    _forget_of(disk)


def drop_foreign(disk: Disk) -> bool:
    """Whether something is staged that is not for the history that is here, as where all of that was removed, or forced
    recovery has made another one, or what was promised of epochs cannot be read: that went with it, so it is dropped.
    Raises OSError."""
    staged = _staged(disk)
    is_foreign = staged is not None and not _is_of_here(disk, staged)
    if is_foreign:
        drop_staged(disk)
    return is_foreign


def goes_on_with(disk: Disk) -> GoesOn | None:
    """None: with what is here. Raises SnapshotError as `take_staged` does."""
    path = _path_of_staged(disk)
    if path is None:
        return None
    staged, member = _header(disk, path), load_member(disk)
    if not _is_of_here(disk, staged):
        return None
    return GoesOn(path, staged, member is None or member.lineage == staged.lineage)


def _staged(disk: Disk) -> SnapshotHeader | None:
    """What is staged, as far as that can be read."""
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
    """Put what is staged in the place of what is there, durably; None: nothing is staged.

    Raises SnapshotError where what is staged is damaged, as long as nothing is set aside: then nothing is changed. And
    OSError."""
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
            verify_snapshot(disk, path)  # what is whole is given up for nothing less
        _set_aside(disk, before)
        found(disk, MemberRecord(header.lineage, server_id), max(accepted, epoch), epoch)
    # Nothing follows the snapshot yet, and readers of the directory need not guess.
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
    """All that makes the directory that of a member: first of all its record, so that no part of the rest is taken for
    the whole. The epoch that it has accepted is a promise, and stays; a copy of it goes with the rest."""
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
    """The epoch that this member has accepted, whatever became of the rest; None: it cannot be read."""
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
    """The new names first: what is not there under the old one is there."""
    disk.sync_directory(before)
    disk.sync_directory(DIRECTORY)
