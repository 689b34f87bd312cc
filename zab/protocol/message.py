"""The messages between members, and their encoding.

One frame (`zab.wire.frames`) is one record (`zab.wire.records`): the type number, then the attributes below in their
order. The type numbers are ZooKeeper's packet numbers where it has the packet.

Not here: what a message means (the phase modules), how frames travel (`zab.host`), and the handshake before the first
of them (`zab.wire.handshake`).
"""

from struct import Struct
from typing import Any, ClassVar, TypeAlias, get_args

import attrs

from datatree.log.zxid import Epoch, Zxid
from zab.protocol.fields import (
    CHAIN,
    DIGEST,
    EPOCH,
    EPOCH_OR_NO_VOTE,
    HOLDS,
    IDENTITIES,
    LINK,
    SERVER_ID,
    STATE,
    ZXID,
    are_session_keys,
    is_lineage,
)
from zab.protocol.states import Holds, State
from zab.quorum.ids import Link, ServerId
from zab.wire.records import (
    COUNT,
    INT32,
    INT64,
    Codec,
    checked,
    is_bool,
    is_bytes,
    is_list_of,
    is_row,
    is_text,
)

DATA_FRAME_BYTES_MAX = 256 << 10
"""Proposals and requests above this are cut into several messages, between two batches or writes."""

FRAME_BYTES_MAX = 32 << 20
"""A frame between members. What a configuration allows must fit: a batch has less than `maxBatchBytes`, then one more
transaction, a request of `jute.maxbuffer` in which the ACLs became as large once more."""
JOINING_BYTES_MAX = 4096
"""Of what a learner says before UPTODATE."""

FRAME_SPARE_BYTES = 64 << 10
"""For all that stands around a batch in its frame."""

REASON_BYTES_MAX = 1024
CONFIG_BYTES_MAX = 64 << 10
"""Of the text of a configuration: 500 servers with long names."""


WRITE_HEAD = Struct(">qii")
"""In front of the body of a forwarded write: session id, cxid, opcode."""


@attrs.define
class Notification:
    """A vote, on the election port (fast leader election)."""

    TYPE: ClassVar[int] = 0
    state: State = checked(STATE, State)
    leader: ServerId = checked(SERVER_ID)
    zxid: Zxid = checked(ZXID)
    epoch: Epoch = checked(EPOCH)
    round: int = checked(COUNT)
    lineage: bytes = checked(is_lineage)
    amnesiac: bool = checked(is_bool)
    holds: Holds = checked(HOLDS, Holds)
    """What the sender holds, from nothing to batches."""
    marked: bool = checked(is_bool)
    """The sender holds nothing, and its operator said that it never did (B3 first start)."""
    leader_marked: bool = checked(is_bool)
    """So does the server that it votes for."""
    doubted: bool = checked(is_bool)
    """The sender's tree is wrong: its vote counts, and it must not lead (E6 wrong trees)."""


@attrs.define
class FollowerInfo:
    """CEPOCH of the paper: a learner's promise so far, and who it is. ZooKeeper's FOLLOWERINFO and OBSERVERINFO."""

    TYPE: ClassVar[int] = 11
    accepted_epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(is_lineage)
    holds: Holds = checked(HOLDS, Holds)
    amnesiac: bool = checked(is_bool)
    observer: bool = checked(is_bool)
    marked: bool = checked(is_bool)
    """As in `Notification`."""
    is_low: bool = checked(is_bool)
    """The disk of this learner is nearly full (`zab.protocol.disk_space`)."""


@attrs.define
class ObserverInfo:
    """An observer's FOLLOWERINFO, for the master that it has dialled in place of its leader."""

    TYPE: ClassVar[int] = 16
    leader: ServerId = checked(SERVER_ID)
    """Whom the observer takes for the leader."""
    accepted_epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(is_lineage)
    holds: Holds = checked(HOLDS, Holds)
    amnesiac: bool = checked(is_bool)
    is_low: bool = checked(is_bool)
    """As in `FollowerInfo`."""


@attrs.define
class LeaderInfo:
    """NEWEPOCH of the paper: the epoch that the prospective leader asks its learners to accept."""

    TYPE: ClassVar[int] = 17
    epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(CHAIN)


@attrs.define
class AckEpoch:
    """ACK-E of the paper: the epoch is accepted, durably; here is where my history ends.

    `epoch` is the learner's currentEpoch, or `NO_VOTE`.
    """

    TYPE: ClassVar[int] = 18
    epoch: Epoch = checked(EPOCH_OR_NO_VOTE)
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)


@attrs.define
class Diff:
    """Your history is a prefix of mine: what is missing follows."""

    TYPE: ClassVar[int] = 13
    zxid: Zxid = checked(ZXID)


@attrs.define
class Trunc:
    """Cut your history after this position, which we both have; what is missing follows."""

    TYPE: ClassVar[int] = 14
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)
    conflict: bool = checked(is_bool)
    """Where your history ends, I have other bytes at the same zxid (A5 conflicts)."""


@attrs.define
class Snap:
    """Take this snapshot in place of your history; answer with `Installed`, then the rest follows."""

    TYPE: ClassVar[int] = 15
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)
    conflict: bool = checked(is_bool)
    """As in `Trunc`."""


@attrs.define
class Installed:
    """The snapshot of `Snap` is durable and is my history now."""

    TYPE: ClassVar[int] = 23
    zxid: Zxid = checked(ZXID)


@attrs.define
class Proposal:
    """Batches, in order, exactly as they were first built."""

    TYPE: ClassVar[int] = 2
    batches: list[bytes] = checked(is_list_of(is_bytes(1, FRAME_BYTES_MAX)))


@attrs.define
class NewLeader:
    """NEWLEADER of the paper: with everything up to `zxid` in your log, I lead epoch `epoch`."""

    TYPE: ClassVar[int] = 10
    epoch: Epoch = checked(EPOCH)
    zxid: Zxid = checked(ZXID)
    founder: bool = checked(is_bool)
    """You count although you are an amnesiac, since the ensemble has never lived (B3 first start)."""


@attrs.define
class Ack:
    """Everything up to `zxid` is durable here. With counter 0: ACK-LD, the answer to NEWLEADER of that epoch."""

    TYPE: ClassVar[int] = 3
    epoch: Epoch = checked(EPOCH)
    zxid: Zxid = checked(ZXID)


@attrs.define
class UpToDate:
    """COMMIT-LD of the paper: the epoch is established, and this is its high-water mark now."""

    TYPE: ClassVar[int] = 12
    zxid: Zxid = checked(ZXID)


@attrs.define
class Commit:
    """The high-water mark is at `zxid` (cumulative)."""

    TYPE: ClassVar[int] = 4
    zxid: Zxid = checked(ZXID)


@attrs.define
class Ping:
    """A sign of life. The learner's answer carries its touched sessions and the digest of its tree at `applied`."""

    TYPE: ClassVar[int] = 5
    zxid: int = checked(ZXID)
    applied: int = checked(ZXID)
    digest: int = checked(DIGEST)
    touched: list[list[int]] = checked(is_list_of(is_row(INT64, INT32)))
    """Rows of session id and timeout in milliseconds."""
    is_low: bool = checked(is_bool)
    """A learner's disk is nearly full; or those of so many that the leader has no quorum with room."""


@attrs.define
class Confirm:
    """Do you still follow me? (linearizable sync; the return of an amnesiac)"""

    TYPE: ClassVar[int] = 20
    round: int = checked(COUNT)


@attrs.define
class Confirmed:
    """I do: I have accepted no epoch above yours."""

    TYPE: ClassVar[int] = 21
    round: int = checked(COUNT)


@attrs.define
class Readmit:
    """To an amnesiac that is synchronized: a quorum without you has confirmed me in this round, which began after you
    were. Record that you are a member."""

    TYPE: ClassVar[int] = 26
    round: int = checked(COUNT)


@attrs.define
class Readmitted:
    """That is recorded, durably: my acknowledgements count."""

    TYPE: ClassVar[int] = 27
    round: int = checked(COUNT)


@attrs.define
class Refused:
    """Why this link is about to be closed, in words."""

    TYPE: ClassVar[int] = 22
    reason: str = checked(is_text(REASON_BYTES_MAX))


@attrs.define
class Request:
    """Writes of a learner's clients, of one turn, in their order.

    Each row: the identities of a connection, as pairs of scheme and id, and writes that follow each other with them. A
    write is its `WRITE_HEAD` and its body.
    """

    TYPE: ClassVar[int] = 1
    rows: list[list[Any]] = checked(is_list_of(is_row(IDENTITIES, is_list_of(is_bytes(16, FRAME_BYTES_MAX)))))


@attrs.define
class Revalidate:
    """A client came back to this learner with a session: is it alive, and mine from now on? The tag names the
    connection on which it came."""

    TYPE: ClassVar[int] = 6
    tag: int = checked(COUNT)
    session: int = checked(INT64)
    timeout_ms: int = checked(INT32)


@attrs.define
class Revalidated:
    """The leader's verdict on the `Revalidate` with this tag. What came through older connections of that session was
    proposed up to this zxid, though it may be sent to the learner later: in a renewal it is."""

    TYPE: ClassVar[int] = 24
    tag: int = checked(COUNT)
    valid: bool = checked(is_bool)
    fence: Zxid = checked(ZXID)


@attrs.define
class Sync:
    """Clients of this learner asked for `sync`; the tag names their place in its queues."""

    TYPE: ClassVar[int] = 7
    tag: int = checked(COUNT)


@attrs.define
class Synced:
    """A quorum still follows the leader; the sync is done when you have applied `zxid`."""

    TYPE: ClassVar[int] = 25
    tag: int = checked(COUNT)
    zxid: Zxid = checked(ZXID)


@attrs.define
class Compare:
    """Which digest has your tree at this batch end? With `replay`: a tree that you make anew from your own files."""

    TYPE: ClassVar[int] = 28
    zxid: Zxid = checked(ZXID)
    replay: bool = checked(is_bool)


@attrs.define
class Suspect:
    """A batch says another digest at this batch end than my tree had: I serve no clients until I know who is right."""

    TYPE: ClassVar[int] = 31
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)


@attrs.define
class Compared:
    """The digest of my tree at this batch end; with `replay` of one that I made anew."""

    TYPE: ClassVar[int] = 29
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)
    known: bool = checked(is_bool)
    """False: it counts for nobody. With a digest: my tree is known to be wrong; with 0: I do not know."""
    replay: bool = checked(is_bool)


@attrs.define
class Verdict:
    """A quorum of voters has this digest at this batch end: every other tree is wrong (E6 wrong trees)."""

    TYPE: ClassVar[int] = 30
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)


@attrs.define
class TreeWanted:
    """My tree is wrong, and my files lead to no other: which snapshot do you have above this zxid?"""

    TYPE: ClassVar[int] = 32
    above: Zxid = checked(ZXID)


@attrs.define
class TreeOffered:
    """This one: fetch it. Your log goes on from it."""

    TYPE: ClassVar[int] = 33
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)


@attrs.define
class SessionKeys:
    """What the passwords of sessions are made with: the key in use, and the one before, each with its name. Only on
    links whose other end has proven who it is, and encrypted."""

    TYPE: ClassVar[int] = 34
    keys: list[list[bytes]] = checked(are_session_keys, is_secret=True)


@attrs.define
class HandOver:
    """I elect, and so are you: this voter is to lead."""

    TYPE: ClassVar[int] = 35
    heir: ServerId = checked(SERVER_ID)


@attrs.define
class Attach:
    """This observer is synchronized, and follows through me; `link` names its link to me, of this run of my process."""

    TYPE: ClassVar[int] = 37
    link: Link = checked(LINK, Link)
    sid: ServerId = checked(SERVER_ID)


@attrs.define
class Attached:
    """A quorum has confirmed me since I was told of the observer on this link of yours: let it serve clients. What it
    said through anybody else counts no more."""

    TYPE: ClassVar[int] = 38
    link: Link = checked(LINK, Link)


@attrs.define
class Detach:
    """The observer on this link of the master is not attached any more. From the master: it is gone. From the leader:
    it follows elsewhere, or broke the protocol; let it go."""

    TYPE: ClassVar[int] = 39
    link: Link = checked(LINK, Link)


@attrs.define
class Relayed:
    """Between master and leader: what the observer on this link of the master has said, or is to be told."""

    TYPE: ClassVar[int] = 40
    link: Link = checked(LINK, Link)
    message: bytes = checked(is_bytes(1, FRAME_BYTES_MAX))
    """Encoded as it is on a link."""


@attrs.define
class Config:
    """On the election port, before a vote: the configurations that its sender knows, unless it knows none but that of
    its file."""

    TYPE: ClassVar[int] = 36
    in_force: bytes = checked(is_bytes(0, CONFIG_BYTES_MAX))
    outstanding: bytes = checked(is_bytes(0, CONFIG_BYTES_MAX))
    """Empty where there is none."""


Message: TypeAlias = (
    Notification
    | FollowerInfo
    | ObserverInfo
    | LeaderInfo
    | AckEpoch
    | Diff
    | Trunc
    | Snap
    | Installed
    | Proposal
    | NewLeader
    | Ack
    | UpToDate
    | Commit
    | Ping
    | Confirm
    | Confirmed
    | Readmit
    | Readmitted
    | Refused
    | Request
    | Revalidate
    | Revalidated
    | Sync
    | Synced
    | Suspect
    | Compare
    | Compared
    | Verdict
    | TreeWanted
    | TreeOffered
    | SessionKeys
    | HandOver
    | Attach
    | Attached
    | Detach
    | Relayed
    | Config
)

URGENT: frozenset[type[Message]] = frozenset({Ack, Ping, Confirm, Confirmed})
"""What does not wait on a link for proposals and requests (H2 turn budget). An ACK of NEWLEADER is an `Ack` like those
that follow it, so none overtakes it."""

SECRET: frozenset[type[Message]] = frozenset({SessionKeys})
"""What nobody may read who only listens, and nobody is sent who has not proven who it is."""

MESSAGES: tuple[type[Message], ...] = get_args(Message)

_CODEC: Codec[Message] = Codec(MESSAGES)
encode = _CODEC.encode
decode = _CODEC.decode
