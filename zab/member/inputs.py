"""The inputs of a `Member` besides the events of its peer, its effects besides those of its peer, and what its turn
(`zab.member.turn`) adds to both.

One step of the member takes all inputs of one turn. Effects are answered with later inputs, as `zab.protocol.events`
says for those of the peer.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from datatree.cursor import SnapshotCursor
from datatree.log.batch import Batch, Position
from datatree.log.zxid import Zxid
from datatree.past_acls import PastAcls
from datatree.recovery.rebuild import Start
from datatree.snapshot import SnapshotHeader
from datatree.tree import DataTree
from zab.jute.change_pages import PageStatus
from zab.member.audit import Record
from zab.member.change_rows import Place, Row
from zab.member.connection import ClientConnection
from zab.member.kerberos import LoginStep
from zab.member.sasl_users import Users
from zab.member.spans import Span
from zab.member.surroundings import Surroundings
from zab.protocol.events import (
    AppendBatches,
    DrainLog,
    Effect,
    Event,
    FetchSnapshot,
    ResetLog,
    SaveEpochs,
    SaveMember,
    SaveSessionKeys,
    TruncateLog,
)
from zab.quorum.ids import Link, ServerId

# ------------------------------------------------------------------------------------------------------------- inputs


@attrs.define
class ClientConnected:
    """A client's socket is open."""

    connection: ClientConnection


@attrs.define
class ClientBytes:
    """A client sent these bytes."""

    connection: ClientConnection
    data: bytes


@attrs.define
class ClientClosed:
    """A client closed its connection, or it broke."""

    connection: ClientConnection


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
class TreeInstalled:
    """The tree of a snapshot that was fetched; directly before the peer's `SnapshotInstalled`."""

    tree: DataTree


@attrs.define
class TreeRebuilt:
    """`RebuildTree` is done: the tree at its end, and the digest that it had at the position asked for."""

    rebuild: RebuildTree
    tree: DataTree
    digest: int


@attrs.define
class RebuildFailed:
    """No file leads to such a tree; why each one does not."""

    rebuild: RebuildTree
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
class SnapshotChosen:
    """The answer to `ChooseSnapshot`; None: there is no snapshot above that zxid."""

    link: Link
    above: Zxid
    position: Position | None


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
class LookedBack:
    """The answer to `LookBackSlice`: what was found once all is read, None before."""

    past: PastAcls | None


@attrs.define
class UsersRead:
    """Who may log in by SASL from now on. Who has logged in stays."""

    users: Users = attrs.field(repr=False)


@attrs.define
class DamageFound:
    """A file of this member is not what was written; a snapshot at or above `needs`, if that is not 0, takes its place.
    `is_record`: it can be written again."""

    text: str
    needs: Zxid
    is_record: bool


@attrs.define
class LoginStepped:
    """A worker is done with a token of a login by Kerberos; None: the login has failed."""

    connection: ClientConnection
    xid: int
    step: LoginStep | None


@attrs.define
class SnapshotAsked:
    """The operator wants a snapshot of the state as it is now."""


@attrs.define
class LookedAround:
    """The answer to `LookAround`."""

    surroundings: Surroundings


Input: TypeAlias = (
    Event
    | ClientConnected
    | ClientBytes
    | ClientClosed
    | SnapshotTaken
    | SnapshotFailed
    | TreeInstalled
    | TreeRebuilt
    | RebuildFailed
    | SnapshotFetched
    | FetchFailed
    | SnapshotChosen
    | ChangesRead
    | LookedBack
    | UsersRead
    | LoginStepped
    | SnapshotAsked
    | LookedAround
    | DamageFound
)

# ---------------------------------------------------------------------------- answers for the turn alone


@attrs.define
class SnapshotUnusable:
    """What was fetched is not the snapshot that was asked for, or not whole."""

    fetch: FetchSnapshot
    reason: str


@attrs.define
class StorageFailed:
    """Nothing can be stored any more: final."""

    reason: str


FOR_THE_TURN: Final = (SnapshotUnusable, StorageFailed)
Answer: TypeAlias = Input | SnapshotUnusable | StorageFailed
"""What storage and tasks answer."""

# ------------------------------------------------------------------------------------------------------------ effects


@attrs.define
class TakeSnapshot:
    """Write the snapshot at this position out of the cursor, when this member's turn has come; then close the cursor.

    Answer with `SnapshotTaken` or `SnapshotFailed`. There is at most one at a time.
    """

    zxid: int
    chain: bytes
    cursor: SnapshotCursor


@attrs.define
class RebuildTree:
    """Make the tree at `until` anew, from `start`, or from this member's own files, so that it had this digest at
    `zxid`; None: whatever it had (`datatree.recovery.rebuild`). Answer with `TreeRebuilt` or `RebuildFailed`.

    Snapshots that lead to another digest are set aside.
    """

    zxid: Zxid
    digest: int | None
    until: Zxid
    start: Start | None = None


@attrs.define
class ChooseSnapshot:
    """Choose the newest valid snapshot of this member above a zxid; answer with `SnapshotChosen`."""

    link: Link
    above: Zxid


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
class KeepSnapshot:
    """What `FetchTree` brought leads to the right tree: it is a snapshot of this member's now. Has no answer."""

    header: SnapshotHeader


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
class LookAtSpace:
    """Look at how much room the disk has; answered with `SpaceChanged`, if it is another level than before."""


@attrs.define
class LookBackSlice:
    """Read a little of which lists guarded paths up to this zxid, for at most so many paths; answer with `LookedBack`.

    Asked again until all is read. Never beside a `ReadChanges`.
    """

    upto: int
    count_max: int


@attrs.define
class LookAround:
    """Look at what is around this member; answered with `LookedAround`. One at a time."""


@attrs.define
class WriteAudit:
    """Write these records into the audit log. Has no answer."""

    records: list[Record]


@attrs.define
class ExportSpans:
    """Tell whoever collects them of these spans. Has no answer."""

    spans: list[Span]


@attrs.define
class Warn:
    """Tell the operator of something to be seen to. Has no answer."""

    text: str


MemberEffect: TypeAlias = (
    Effect
    | TakeSnapshot
    | RebuildTree
    | ChooseSnapshot
    | FetchTree
    | KeepSnapshot
    | LookAtSpace
    | ReadChanges
    | LookBackSlice
    | LookAround
    | WriteAudit
    | ExportSpans
    | Warn
)

# ---------------------------------------------------------------------------------- effects that the turn adds


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
