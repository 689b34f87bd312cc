"""The inputs and outputs of a `Peer`: two closed sets of classes, events and effects.

The peer does no I/O: `peer.step(now, event)` returns effects, which its host (`zab.server`, or `zab.simulator`) carries
out in order, and answers with events.

Two rules bind the host.

- Effects on storage (the classes in `STORAGE_EFFECTS`) go through one first-in first-out queue. They are carried out
  one after the other, each durably, and answered in that order by events with the same generation. A failure of
  one of them is final: the process ends. Of an answer from an older generation (C3 generations), the peer only notes
  the fact that it states.
- A link is an integer that names one connection of one process run, never reused. Links are first-in first-out; a link
  that breaks is reported once, by `QuorumLinkDown`, and delivers no message afterwards.
"""

from typing import TypeAlias

import attrs

from datatree.log.batch import Batch, Position
from datatree.log.session_keys import NamedKey
from datatree.log.zxid import Epoch, Zxid
from zab.protocol.features import ALL
from zab.protocol.membership import Membership
from zab.protocol.message import (
    Compare,
    Compared,
    Message,
    Notification,
    Ping,
    Request,
    Revalidate,
    Revalidated,
    Suspect,
    Sync,
    Synced,
    TreeOffered,
    TreeWanted,
    Verdict,
)
from zab.protocol.states import Phase, Space, State
from zab.quorum.ids import NO_LINK, Link, Route, ServerId

# ---------------------------------------------------------------------------------------------- events: into the peer


@attrs.define
class ElectionLinkUp:
    """Our election connection to a server is open; its handshake took this long."""

    sid: ServerId
    round_trip_ms: int


@attrs.define
class ElectionLinkDown:
    """The server refused our election connection, or it closed and could not be opened again."""

    sid: ServerId
    knows_us: bool = True
    """False if the server says, without proof, that this one is not in its configuration."""
    is_taken: bool = False
    """The server says, without proof, that another process has this server's id."""


@attrs.define
class NotificationReceived:
    """A server's vote arrived on the election port, with the configurations that it knows."""

    sid: ServerId
    notification: Notification
    in_force: bytes = b""
    """Empty before the first reconfiguration."""
    outstanding: bytes = b""
    """Empty where there is none."""
    is_proven: bool = False
    """The sender has proven to belong to the ensemble, by the members' secret or a certificate."""


@attrs.define
class QuorumLinkUp:
    """A quorum connection is open: we dialled a leader (`inbound` false), or a learner dialled us."""

    link: Link
    sid: ServerId
    inbound: bool
    features: int = ALL
    """The features (`zab.protocol.features`) that both ends have."""


@attrs.define
class QuorumLinkDown:
    """A quorum connection broke."""

    link: Link


@attrs.define
class DialFailed:
    """The quorum port of a server that we dialled cannot be reached, or the handshake failed."""

    sid: ServerId


@attrs.define
class MessageReceived:
    """A message arrived on a quorum link."""

    link: Link
    message: Message


@attrs.define
class Durable:
    """`AppendBatches` is done: the log is durable up to this zxid."""

    generation: int
    zxid: Zxid


@attrs.define
class LogCut:
    """`TruncateLog` or `ResetLog` is done, durably."""

    generation: int
    zxid: Zxid


@attrs.define
class LogDrained:
    """`DrainLog` is done: every storage effect before it is durable."""

    generation: int


@attrs.define
class EpochsSaved:
    """`SaveEpochs` is done, durably."""

    generation: int
    accepted: Epoch
    current: Epoch


@attrs.define
class MemberSaved:
    """`SaveMember` is done, durably: from its next start on, this member counts as synchronized."""

    generation: int


@attrs.define
class SnapshotInstalled:
    """`FetchSnapshot` is done: the snapshot is durable, the tree is it, and the log after it is empty."""

    generation: int
    zxid: Zxid
    chain: bytes
    begins: bool = False
    """It is the beginning of its lineage."""
    recorded: bool = False
    """The member record is still there."""
    config: bytes = b""
    """The data of `/zookeeper/config` in the tree; empty before the first reconfiguration."""


@attrs.define
class LogRead:
    """The answer to `ReadLog`: the last batch end at or below that zxid, and batches after it.

    `position` is None when the zxid is older than what the log keeps.
    """

    link: Link
    position: Position | None
    batches: list[Batch]


@attrs.define
class SnapshotOffered:
    """The answer to `OfferSnapshot`: the newest valid snapshot of this member, held until `ReleaseSnapshot`."""

    link: Link
    zxid: Zxid
    chain: bytes


@attrs.define
class NothingToOffer:
    """The answer to `OfferSnapshot` if there is no valid snapshot above that zxid that the log continues."""

    link: Link
    above: Zxid


@attrs.define
class SnapshotWithdrawn:
    """The snapshot offered on this link is no longer held: the log after it exceeds `maxPinnedLogBytes`."""

    link: Link
    zxid: Zxid


@attrs.define
class Propose:
    """The leader's member has transactions, numbered from `next_zxid()`: make them a batch and broadcast it."""

    body: bytes
    count: int
    time: int
    flags: int
    applied: int
    digest: int
    digest_version: int


@attrs.define
class SyncRequested:
    """The leader's member asks for confirmation that a quorum still follows it; the token names the question."""

    token: int


@attrs.define
class Doubted:
    """The member's tree is wrong, for this reason: it must not lead. Or it is right again, and it may."""

    doubted: bool
    reason: str


@attrs.define
class LeadYielded:
    """Other members are likelier to have the right tree, for this reason: one of them should lead, unless only this
    member has all that a leader needs."""

    reason: str


@attrs.define
class HandOver:
    """An authorized client asked that this voter lead. If that is impossible, nothing changes."""

    heir: ServerId


@attrs.define
class ObserverRefused:
    """The leader's member refuses what came from the observer on this route, for this reason."""

    route: Route
    reason: str


@attrs.define
class SecretNamed:
    """The newest secret by which members prove who they are has this name; empty if they prove nothing."""

    name: bytes


@attrs.define
class SpaceChanged:
    """The room on this member's disk has reached this level."""

    space: Space


@attrs.define
class TimePassed:
    """`next_deadline()` is reached."""


Event: TypeAlias = (
    ElectionLinkUp
    | ElectionLinkDown
    | NotificationReceived
    | QuorumLinkUp
    | QuorumLinkDown
    | DialFailed
    | MessageReceived
    | Durable
    | LogCut
    | LogDrained
    | EpochsSaved
    | MemberSaved
    | SnapshotInstalled
    | LogRead
    | SnapshotOffered
    | NothingToOffer
    | SnapshotWithdrawn
    | Propose
    | SyncRequested
    | Doubted
    | LeadYielded
    | HandOver
    | ObserverRefused
    | SecretNamed
    | SpaceChanged
    | TimePassed
)

# -------------------------------------------------------------------------------------------- effects: out of the peer


@attrs.define
class SendNotification:
    """Send this vote, and the configurations that this member knows, on the election connection to a server; only the
    newest vote to each server matters."""

    sid: ServerId
    notification: Notification
    in_force: bytes = b""
    """Empty before the first reconfiguration."""
    outstanding: bytes = b""
    """Empty where there is none."""


@attrs.define
class ConnectQuorum:
    """Dial the quorum port of this server, or its port for observers; answer with `QuorumLinkUp` or `DialFailed`.
    Snapshots are fetched from it through the same port."""

    sid: ServerId
    as_observer: bool = False


@attrs.define
class Send:
    """Send one message on each of these quorum links."""

    links: tuple[Link, ...]
    message: Message


@attrs.define
class CloseLink:
    """Close a quorum link once what was sent on it is gone; no `QuorumLinkDown` follows."""

    link: Link
    reason: str


@attrs.define
class AppendBatches:
    """Append these batches to the log, unchanged and in order. Once they are durable, and not before, send `then`;
    answer with `Durable`."""

    generation: int
    batches: list[Batch]
    then: Send | None = None
    """If several appends of one generation follow each other, only the last `then` is sent: it is cumulative."""


@attrs.define
class TruncateLog:
    """Cut the log after this position, newest files first; answer with `LogCut`."""

    generation: int
    zxid: Zxid
    chain: bytes
    conflict: bool = False
    """What is cut differs from the leader's history at the same zxid: keep it until an operator has seen it (A5
    conflicts)."""


@attrs.define
class ResetLog:
    """Set all local history aside: an empty log and an empty tree of this lineage at zxid 0; answer with `LogCut`."""

    generation: int
    lineage: bytes


@attrs.define
class FetchSnapshot:
    """Fetch this snapshot from a server over a connection of its own and install it; answer with `SnapshotInstalled`.

    A transfer without progress for syncLimit closes the quorum link instead.
    """

    generation: int
    sid: ServerId
    zxid: Zxid
    chain: bytes
    lineage: bytes
    conflict: bool = False
    """Like `TruncateLog.conflict`, for the log that the snapshot replaces."""
    keeps_record: bool = False
    """This member was synchronized with this lineage, and the snapshot contains all that it ever acknowledged: keep its
    member record. Otherwise remove the record before anything is replaced (B1 member record)."""


@attrs.define
class SaveEpochs:
    """Replace acceptedEpoch, then currentEpoch; answer with `EpochsSaved`."""

    generation: int
    accepted: Epoch
    current: Epoch


@attrs.define
class SaveMember:
    """Write the record that this member holds a synchronized history of the lineage; answer with `MemberSaved`."""

    generation: int
    lineage: bytes


@attrs.define
class SaveSessionKeys:
    """Replace the keys of session passwords of this lineage. It has no answer: the answer to the next effect in the
    queue implies it."""

    lineage: bytes
    keys: list[NamedKey]


@attrs.define
class DrainLog:
    """Answer with `LogDrained` when every storage effect before this one is done."""

    generation: int


@attrs.define
class ReadLog:
    """Read at most this many bytes of batches after this zxid from the log files, for a link; answer with `LogRead`.

    The host may delay the answer while the link has much to send: this is the transfer's flow control.
    """

    link: Link
    zxid: Zxid
    bytes_max: int


@attrs.define
class OfferSnapshot:
    """Choose a snapshot above this zxid for a learner to fetch, and answer with `SnapshotOffered` or `NothingToOffer`.
    Hold it, and the log after it, until `ReleaseSnapshot`."""

    link: Link
    above: Zxid


@attrs.define
class ReleaseSnapshot:
    """The learner of this link needs no more files: the snapshot of `OfferSnapshot`, chosen already or not, may be
    deleted."""

    link: Link


@attrs.define
class Deliver:
    """Apply these batches, in order: they are committed, and durable here."""

    batches: list[Batch]


@attrs.define
class MarkMoved:
    """The high-water mark that this member knows is now `zxid`."""

    zxid: Zxid


@attrs.define
class RoleChanged:
    """State or phase changed. `serving` says whether clients are served; `leader` is None without a leader."""

    state: State
    phase: Phase
    leader: ServerId | None
    serving: bool


@attrs.define
class AnswerPing:
    """The leader pinged: send `Ping` with the touched sessions and the digest on this link."""

    link: Link


@attrs.define
class LearnerDropped:
    """A learner that served clients was dropped. Discard what still waits on its link, except for news of sessions,
    which came in time (G1 expiry last)."""

    link: Link


@attrs.define
class SyncConfirmed:
    """A quorum confirmed, after the question was asked, that it follows us; the history ended at `zxid` then."""

    token: int
    zxid: Zxid


MessageForMember: TypeAlias = (
    Request
    | Revalidate
    | Revalidated
    | Sync
    | Synced
    | Ping
    | Suspect
    | Compare
    | Compared
    | Verdict
    | TreeWanted
    | TreeOffered
)


@attrs.define
class MembershipsChanged:
    """The known configurations have changed (`zab.protocol.membership`): this member may have to reach the servers in
    all of them."""

    in_force: Membership
    outstanding: Membership | None
    heard: tuple[Membership, ...]


@attrs.define
class MemberMessage:
    """A message for the member, not for the protocol (`MessageForMember`)."""

    link: Link
    sid: ServerId
    message: MessageForMember
    behind: Link = NO_LINK
    """For an observer that follows through a master: its link to the master; `link` is the master's."""


@attrs.define
class Halt:
    """This member must not continue: it keeps its files, reports the reason, and stops."""

    reason: str


@attrs.define
class Trace:
    """What happened and why, as one sentence, for the log of the server and of the simulator."""

    text: str


STORAGE_EFFECTS = (
    *(AppendBatches, TruncateLog, ResetLog, FetchSnapshot),
    *(SaveEpochs, SaveMember, SaveSessionKeys, DrainLog),
)

Effect: TypeAlias = (
    SendNotification
    | ConnectQuorum
    | Send
    | CloseLink
    | AppendBatches
    | TruncateLog
    | ResetLog
    | FetchSnapshot
    | SaveEpochs
    | SaveMember
    | SaveSessionKeys
    | DrainLog
    | ReadLog
    | OfferSnapshot
    | ReleaseSnapshot
    | Deliver
    | MarkMoved
    | RoleChanged
    | AnswerPing
    | LearnerDropped
    | SyncConfirmed
    | MembershipsChanged
    | MemberMessage
    | Halt
    | Trace
)
