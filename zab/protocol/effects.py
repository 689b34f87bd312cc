"""The outputs of a `Peer`: a closed set of classes. Its host carries them out in order.

Effects on storage (the classes in `STORAGE_EFFECTS`) go through one first-in first-out queue. They are carried out
one after the other, each durably, and answered in that order by events with the same generation. A failure of
one of them is final: the process ends. Of an answer from an older generation (C3 generations), the peer only notes
the fact that it states.
"""

from typing import TypeAlias

import attrs

from datatree.log.batch import Batch
from datatree.log.session_keys import NamedKey
from datatree.log.zxid import Epoch, Zxid
from zab.protocol.member_message import (
    Compare,
    Compared,
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
from zab.protocol.membership import Membership
from zab.protocol.message import Message, Notification, Ping
from zab.protocol.states import Phase, State
from zab.quorum.ids import NO_LINK, Link, ServerId


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
