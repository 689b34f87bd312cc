"""What a member wants done with its files, and what storage and tasks answer."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from datatree.cursor import SnapshotCursor
from datatree.log.batch import Batch, Position
from datatree.log.zxid import Zxid
from datatree.past_acls import PastAcls
from datatree.snapshot import SnapshotHeader
from datatree.tree import DataTree
from zab.jute.change_pages import PageStatus
from zab.member.storage.change_rows import Place, Row
from zab.protocol.effects import (
    AppendBatches,
    DrainLog,
    FetchSnapshot,
    ResetLog,
    SaveEpochs,
    SaveMember,
    SaveSessionKeys,
    TruncateLog,
)
from zab.protocol.events import Event
from zab.quorum.ids import Link, ServerId


@attrs.define
class SnapshotTaken:
    """`TakeSnapshot` is done: the snapshot of this zxid is durable, and its cursor is closed."""

    zxid: int


@attrs.define
class SnapshotFailed:
    """`TakeSnapshot` was given up, for this reason; its cursor is closed. Everything else goes on."""

    zxid: int
    reason: str


@attrs.define
class SnapshotFetched:
    """The file of `FetchSnapshot` or `FetchTree` is in its place, whole and synced."""

    fetch: FetchSnapshot | FetchTree


@attrs.define
class FetchFailed:
    """The snapshot cannot be had from that member now."""

    fetch: FetchSnapshot | FetchTree
    reason: str


@attrs.define
class SnapshotUnusable:
    """What was fetched is not the snapshot that was asked for, or not whole."""

    fetch: FetchSnapshot
    reason: str


@attrs.define
class StorageFailed:
    """Nothing can be stored any more: final."""

    reason: str


@attrs.define
class SnapshotAsked:
    """The operator wants a snapshot of the state as it is now."""


@attrs.define
class DamageFound:
    """A file of this member is not what was written; a snapshot at or above `needs`, if that is not 0, takes its place.
    `is_record`: it can be written again."""

    text: str
    needs: Zxid
    is_record: bool


@attrs.define
class TakeSnapshot:
    """Write the snapshot at this position out of the cursor, when this member's turn has come; then close the cursor.

    Answer with `SnapshotTaken` or `SnapshotFailed`. There is at most one at a time.
    """

    zxid: int
    chain: bytes
    cursor: SnapshotCursor


@attrs.define
class FetchTree:
    """Fetch this snapshot from a server, to make a tree of it (`tree_fetch_path`); the log stays. Answer with
    `SnapshotFetched` or `FetchFailed`."""

    sid: ServerId
    zxid: Zxid
    chain: bytes
    lineage: bytes

    @property
    def header(self) -> SnapshotHeader:
        """What the file begins with."""
        return SnapshotHeader(self.lineage, self.zxid, self.chain)


@attrs.define
class LookAtSpace:
    """Look at how much room the disk has; answered with `SpaceChanged`, if it is another level than before."""


@attrs.define
class RollLog:
    """End the current log file: a snapshot begins here. Has no answer."""


@attrs.define
class RepairRecords:
    """Write the records of this member that cannot be read any more, as they were written last. Has no answer."""


@attrs.define
class InstallSnapshot:
    """The snapshot of `FetchSnapshot` is in its place (`fetch_path`), whole and synced: install it."""

    fetch: FetchSnapshot


StorageEffect: TypeAlias = (
    AppendBatches
    | TruncateLog
    | ResetLog
    | InstallSnapshot
    | SaveEpochs
    | SaveMember
    | SaveSessionKeys
    | DrainLog
    | LookAtSpace
    | RollLog
    | RepairRecords
)
"""What goes into the queue in front of the storage."""


@attrs.define
class TreeInstalled:
    """The tree of a snapshot that was fetched; directly before the peer's `SnapshotInstalled`."""

    tree: DataTree


@attrs.define
class ChooseSnapshot:
    """Choose the newest valid snapshot of this member above a zxid; answer with `SnapshotChosen`."""

    link: Link
    above: Zxid


@attrs.define
class SnapshotChosen:
    """The answer to `ChooseSnapshot`; None: there is no snapshot above that zxid."""

    link: Link
    above: Zxid
    position: Position | None


@attrs.define
class ReadChanges:
    """Read what changed after a place, within a path and up to a zxid; answer with `ChangesRead`.

    Out of these batches; when there are none, out of the log files, at most `bytes_max` of them. One at a time.
    """

    place: Place
    prefix: bytes
    upto: int
    bytes_max: int
    batches: list[Batch]


@attrs.define
class ChangesRead:
    """The answer to `ReadChanges`: the rows, and the place up to which there are no others.

    With another status than GIVEN there are none: OLDER with the oldest zxid from which the log can be read, ELSEWHERE,
    or, if `is_damaged`, that it cannot be read at all.
    """

    status: PageStatus
    rows: list[Row] = attrs.Factory(list)
    place: Place = (0, 0)
    oldest: int = 0
    is_damaged: bool = False


@attrs.define
class LookBackSlice:
    """Read a little of which lists guarded paths up to this zxid, for at most so many paths; answer with `LookedBack`.

    Asked again until all is read. Never beside a `ReadChanges`.
    """

    upto: int
    count_max: int


@attrs.define
class LookedBack:
    """The answer to `LookBackSlice`: what was found once all is read, None before."""

    past: PastAcls | None


@attrs.define
class Waits:
    """What the next turn waits for. Seen from any thread."""

    for_durable: bool = True
    """What became durable begins it; else it comes with whatever does."""


StorageAnswer: TypeAlias = Event | TreeInstalled | SnapshotTaken | SnapshotUnusable | StorageFailed
"""What the storage answers."""
