"""What goes into a `Peer` and what comes out of it: two closed sets of classes, each with one line of meaning.

The peer never does anything: `peer.step(now, event)` returns effects, and its host (`zab.server`, or `zab.simulator`)
carries them out, in order, and answers with events.

Two rules bind the host.

- Effects on storage (the classes in `STORAGE_EFFECTS`) go through one first-in first-out queue. They are carried out
  one after the other, each durably, and are answered in that order by an event with the same generation. A failure of
  one of them is final: the process ends. The peer ignores answers of an older generation (C3 generations),
  except for the fact that they state.
- A link is an integer that names one connection of one process run, never reused. Links are first-in first-out; a link
  that breaks is reported once, by `QuorumLinkDown`, and nothing of it is delivered afterwards.
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
    """Our election connection to a server is open, and its greeting took this long there and back."""

    sid: ServerId
    round_trip_ms: int


@attrs.define
class ElectionLinkDown:
    """The server refused our election connection, or it closed and could not be opened again."""

    sid: ServerId
    knows_us: bool = True
    """It may: nothing came that says, without proof, that this server is in no configuration of it."""
    is_taken: bool = False
    """It says, without proof, that another process is this server."""


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
    """The sender has proven to be of the ensemble, by a secret or a certificate of the members."""


@attrs.define
class QuorumLinkUp:
    """A quorum connection is open: we dialled a leader (`inbound` false), or a learner dialled us."""

    link: Link
    sid: ServerId
    inbound: bool
    features: int = ALL
    """Of `zab.protocol.features`, those that both ends have."""


@attrs.define
class QuorumLinkDown:
    """A quorum connection broke."""

    link: Link


@attrs.define
class DialFailed:
    """The quorum port of a server that we dialled cannot be reached, or it did not greet us."""

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
    """`SaveMember` is done, durably: this member counts as synchronized from its next start on."""

    generation: int


@attrs.define
class SnapshotInstalled:
    """`FetchSnapshot` is done: the snapshot is durable, the tree is it, and the log after it is empty."""

    generation: int
    zxid: Zxid
    chain: bytes
    begins: bool = False
    """It is what its lineage began with."""
    recorded: bool = False
    """The member record is still there."""
    config: bytes = b""
    """The data of `/zookeeper/config` in the tree; empty before the first reconfiguration."""


@attrs.define
class LogRead:
    """The answer to `ReadLog`: the last batch end at or below the zxid asked for, and batches after it.

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
    """The answer to `OfferSnapshot` where there is no valid snapshot above that zxid from which the log goes on."""

    link: Link
    above: Zxid


@attrs.define
class SnapshotWithdrawn:
    """What was offered on this link is not held any more: the log after it takes more than `maxPinnedLogBytes`."""

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
    """The leader's member wants to know that a quorum still follows it, from now on; the token names the question."""

    token: int


@attrs.define
class Doubted:
    """The member's tree is wrong, for this reason: it may not lead. Or it is right again, and may."""

    doubted: bool
    reason: str


@attrs.define
class LeadYielded:
    """Others are likelier to have the right tree than this member, for this reason: one of them is to lead, unless
    this member alone has all that a leader needs."""

    reason: str


@attrs.define
class HandOver:
    """Somebody who may has asked that this voter leads. Where it cannot be done, everything stays as it is."""

    heir: ServerId


@attrs.define
class ObserverRefused:
    """The leader's member cannot believe what came from the observer of this route, for this reason."""

    route: Route
    reason: str


@attrs.define
class SecretNamed:
    """The newest secret by which members prove who they are has this name; empty: they prove nothing."""

    name: bytes


@attrs.define
class SpaceChanged:
    """So much room is on the disk of this member now."""

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
    newest one to each server matters."""

    sid: ServerId
    notification: Notification
    in_force: bytes = b""
    """Empty before the first reconfiguration."""
    outstanding: bytes = b""
    """Empty where there is none."""


@attrs.define
class ConnectQuorum:
    """Dial the quorum port of this server, or the one where it is a master of observers; answer with `QuorumLinkUp` or
    `DialFailed`. What is fetched from it comes through the same port."""

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
    """Append these batches to the log, unchanged and in order. Once they are durable, and not before, send what is to
    be sent then; answer with `Durable`."""

    generation: int
    batches: list[Batch]
    then: Send | None = None
    """Of appends of one generation that follow each other, only the last one is sent: it is cumulative."""


@attrs.define
class TruncateLog:
    """Cut the log after this position, newest files first; answer with `LogCut`."""

    generation: int
    zxid: Zxid
    chain: bytes
    conflict: bool = False
    """What is cut differs from the leader's history at the same zxid: it is kept until somebody has seen it (A5
    conflicts)."""


@attrs.define
class ResetLog:
    """Set all local history aside: an empty log and an empty tree of this lineage at zxid 0; answer with `LogCut`."""

    generation: int
    lineage: bytes


@attrs.define
class FetchSnapshot:
    """Fetch this snapshot from a server over a connection of its own and install it; answer with `SnapshotInstalled`.

    A transfer that makes no progress for syncLimit closes the quorum link instead.
    """

    generation: int
    sid: ServerId
    zxid: Zxid
    chain: bytes
    lineage: bytes
    conflict: bool = False
    """As in `TruncateLog`, of the log that the snapshot takes the place of."""
    keeps_record: bool = False
    """This member was synchronized with this lineage, and the snapshot holds all that it ever acknowledged: its member
    record stays. Otherwise the record goes before anything is replaced (B1 member record)."""


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
    """Replace the keys of session passwords of this lineage. Has no answer: what comes after it in the queue says that
    it is done."""

    lineage: bytes
    keys: list[NamedKey]


@attrs.define
class DrainLog:
    """Answer with `LogDrained` when every storage effect before this one is done."""

    generation: int


@attrs.define
class ReadLog:
    """Read at most this many bytes of batches after this zxid from the log files, for a link; answer with `LogRead`.

    The host may wait with the answer while the link has much to send: it is the transfer's flow control.
    """

    link: Link
    zxid: Zxid
    bytes_max: int


@attrs.define
class OfferSnapshot:
    """Choose the snapshot above this zxid that a learner shall fetch, and answer with `SnapshotOffered` or
    `NothingToOffer`. It and the log after it are held until `ReleaseSnapshot`."""

    link: Link
    above: Zxid


@attrs.define
class ReleaseSnapshot:
    """The learner of this link needs no files any more: what `OfferSnapshot` has chosen, or is choosing, may go."""

    link: Link


@attrs.define
class Deliver:
    """Apply these batches, in order: they are committed, and durable here."""

    batches: list[Batch]


@attrs.define
class MarkMoved:
    """The high-water mark that this member knows is at `zxid` now."""

    zxid: Zxid


@attrs.define
class RoleChanged:
    """State or phase changed. `serving` says whether clients are served; `leader` is None while there is none."""

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
    """A learner that served clients is none any more. What still waits on its link is not looked at, but for what it
    says of sessions: that was in time (G1 expiry last)."""

    link: Link


@attrs.define
class SyncConfirmed:
    """A quorum confirmed, after the question, that it follows us; the history went up to `zxid` when it was asked."""

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
    """What is known of configurations has changed (`zab.protocol.membership`): the servers of all of them may have to
    be reached."""

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
    """Of an observer that follows through a master: its link there; `link` is the master's."""


@attrs.define
class Halt:
    """This member must not go on: it keeps its files, says why, and stops."""

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
