"""Effects on the files of a member, and the answers of storage and tasks."""

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
    """`TakeSnapshot` was given up, for this reason; its cursor is closed. The member goes on."""

    zxid: int
    reason: str


@attrs.define
class SnapshotFetched:
    """The file of `FetchSnapshot` or `FetchTree` is in its place, complete and synced."""

    fetch: FetchSnapshot | FetchTree


@attrs.define
class FetchFailed:
    """The snapshot cannot be fetched from that member now."""

    fetch: FetchSnapshot | FetchTree
    reason: str


@attrs.define
class SnapshotUnusable:
    """The fetched file is not the requested snapshot, or incomplete."""

    fetch: FetchSnapshot
    reason: str


@attrs.define
class StorageFailed:
    """Nothing more can be stored: final."""

    reason: str


@attrs.define
class SnapshotAsked:
    """The operator wants a snapshot of the current state."""


@attrs.define
class DamageFound:
    """A file of this member is damaged. `needs`: a snapshot at or above this zxid replaces it; 0: none is needed.
    `is_record`: it can be written again."""

    text: str
    needs: Zxid
    is_record: bool


@attrs.define
class TakeSnapshot:
    """Write the snapshot at this position from the cursor, when it is this member's turn; then close the cursor.

    Answer with `SnapshotTaken` or `SnapshotFailed`. There is at most one at a time.
    """

    zxid: int
    chain: bytes
    cursor: SnapshotCursor


@attrs.define
class FetchTree:
    """Fetch this snapshot from a server, to make a tree from it (`tree_fetch_path`); the log stays. Answer with
    `SnapshotFetched` or `FetchFailed`."""

    sid: ServerId
    zxid: Zxid
    chain: bytes
    lineage: bytes

    @property
    def header(self) -> SnapshotHeader:
        """The header of the file."""
        return SnapshotHeader(self.lineage, self.zxid, self.chain)


@attrs.define
class LookAtSpace:
    """Check the free space on the disk; answered with `SpaceChanged` if the level has changed."""


@attrs.define
class RollLog:
    """End the current log file: a snapshot begins here. Has no answer."""


@attrs.define
class RepairRecords:
    """Write the unreadable records of this member again, as they were last written. Has no answer."""


@attrs.define
class InstallSnapshot:
    """Install the snapshot of `FetchSnapshot`, which is in its place (`fetch_path`), complete and synced."""

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
"""The effects in the queue of the storage."""


@attrs.define
class TreeInstalled:
    """The tree of a fetched snapshot; comes directly before the peer's `SnapshotInstalled`."""

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
    """Read the changes after a place, within a path and up to a zxid; answer with `ChangesRead`.

    Reads these batches, or if there are none, at most `bytes_max` of the log files. One at a time.
    """

    place: Place
    prefix: bytes
    upto: int
    bytes_max: int
    batches: list[Batch]


@attrs.define
class ChangesRead:
    """The answer to `ReadChanges`: the rows, and the place up to which there are no others.

    There are no rows if the status is not GIVEN: OLDER has the oldest zxid from which the log can be read; ELSEWHERE;
    or, with `is_damaged`, the log cannot be read.
    """

    status: PageStatus
    rows: list[Row] = attrs.Factory(list)
    place: Place = (0, 0)
    oldest: int = 0
    is_damaged: bool = False


@attrs.define
class LookBackSlice:
    """Read a slice of the ACLs that paths had up to this zxid, for at most `count_max` paths; answer with `LookedBack`.

    Asked again until all is read. Never at the same time as a `ReadChanges`.
    """

    upto: int
    count_max: int


@attrs.define
class LookedBack:
    """The answer to `LookBackSlice`: the ACLs once all is read, None before."""

    past: PastAcls | None


@attrs.define
class Waits:
    """What the next turn waits for. Read by any thread."""

    for_durable: bool = True
    """Whether durability starts a turn; otherwise such answers wait for the next turn."""


StorageAnswer: TypeAlias = Event | TreeInstalled | SnapshotTaken | SnapshotUnusable | StorageFailed
"""The answers of the storage."""
