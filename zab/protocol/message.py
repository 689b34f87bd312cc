"""The messages between members, and their encoding.

One frame (`zab.wire.frames`) is one record (`zab.wire.records`): the type number, then the attributes below in their
order. The type numbers are ZooKeeper's packet numbers where it has the packet.

Not here: what a message means (the phase modules), links (`zab.host`), and the handshake before the first message
(`zab.wire.handshake`).
"""

from typing import ClassVar, TypeAlias, get_args

import attrs

from datatree.log.zxid import Epoch, Zxid
from zab.protocol import member_message as mmsg
from zab.protocol.fields import (
    CHAIN,
    DIGEST,
    EPOCH,
    EPOCH_OR_NO_VOTE,
    HOLDS,
    LINK,
    SERVER_ID,
    STATE,
    ZXID,
    are_session_keys,
    is_lineage,
)
from zab.protocol.frame_limits import FRAME_BYTES_MAX
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

REASON_BYTES_MAX = 1024
CONFIG_BYTES_MAX = 64 << 10
"""The longest text of a configuration: 500 servers with long names."""


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
    """The sender holds nothing, and its operator declared that it never did (B3 first start)."""
    leader_marked: bool = checked(is_bool)
    """The server that it votes for is marked."""
    doubted: bool = checked(is_bool)
    """The sender's tree is wrong: its vote counts, but it must not lead (E6 wrong trees)."""


@attrs.define
class FollowerInfo:
    """The paper's CEPOCH: a learner's promise so far, and its state. ZooKeeper's FOLLOWERINFO and OBSERVERINFO."""

    TYPE: ClassVar[int] = 11
    accepted_epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(is_lineage)
    holds: Holds = checked(HOLDS, Holds)
    amnesiac: bool = checked(is_bool)
    observer: bool = checked(is_bool)
    marked: bool = checked(is_bool)
    """See `Notification`."""
    is_low: bool = checked(is_bool)
    """The disk of this learner is nearly full (`zab.protocol.disk_space`)."""


@attrs.define
class ObserverInfo:
    """An observer's FOLLOWERINFO to the master that it has dialled instead of its leader."""

    TYPE: ClassVar[int] = 16
    leader: ServerId = checked(SERVER_ID)
    """The server that the observer considers the leader."""
    accepted_epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(is_lineage)
    holds: Holds = checked(HOLDS, Holds)
    amnesiac: bool = checked(is_bool)
    is_low: bool = checked(is_bool)
    """See `FollowerInfo`."""


@attrs.define
class LeaderInfo:
    """The paper's NEWEPOCH: the epoch that the prospective leader asks its learners to accept."""

    TYPE: ClassVar[int] = 17
    epoch: Epoch = checked(EPOCH)
    lineage: bytes = checked(CHAIN)


@attrs.define
class AckEpoch:
    """The paper's ACK-E: I have accepted the epoch, durably; my history ends here.

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
    """At the zxid where your history ends, I have different bytes (A5 conflicts)."""


@attrs.define
class Snap:
    """Replace your history by this snapshot; answer with `Installed`, then the rest follows."""

    TYPE: ClassVar[int] = 15
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)
    conflict: bool = checked(is_bool)
    """See `Trunc`."""


@attrs.define
class Installed:
    """The snapshot of `Snap` is durable, and is now my history."""

    TYPE: ClassVar[int] = 23
    zxid: Zxid = checked(ZXID)


@attrs.define
class Proposal:
    """Batches, in order, exactly as they were first built."""

    TYPE: ClassVar[int] = 2
    batches: list[bytes] = checked(is_list_of(is_bytes(1, FRAME_BYTES_MAX)))


@attrs.define
class NewLeader:
    """The paper's NEWLEADER: with everything up to `zxid` in your log, I lead epoch `epoch`."""

    TYPE: ClassVar[int] = 10
    epoch: Epoch = checked(EPOCH)
    zxid: Zxid = checked(ZXID)
    founder: bool = checked(is_bool)
    """You count although you are an amnesiac, because the ensemble has never lived (B3 first start)."""


@attrs.define
class Ack:
    """Everything up to `zxid` is durable here. With counter 0, this is ACK-LD, the answer to that epoch's NEWLEADER."""

    TYPE: ClassVar[int] = 3
    epoch: Epoch = checked(EPOCH)
    zxid: Zxid = checked(ZXID)


@attrs.define
class UpToDate:
    """The paper's COMMIT-LD: the epoch is established, with this high-water mark now."""

    TYPE: ClassVar[int] = 12
    zxid: Zxid = checked(ZXID)


@attrs.define
class Commit:
    """The high-water mark is at `zxid` (cumulative)."""

    TYPE: ClassVar[int] = 4
    zxid: Zxid = checked(ZXID)


@attrs.define
class Ping:
    """A heartbeat. The learner's answer carries its touched sessions and the digest of its tree at `applied`."""

    TYPE: ClassVar[int] = 5
    zxid: int = checked(ZXID)
    applied: int = checked(ZXID)
    digest: int = checked(DIGEST)
    touched: list[list[int]] = checked(is_list_of(is_row(INT64, INT32)))
    """Rows of session id and timeout in milliseconds."""
    is_low: bool = checked(is_bool)
    """The learner's disk is nearly full; from a leader: no quorum has room."""


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
    """To a synchronized amnesiac: a quorum without you has confirmed me in this round, which began after your
    synchronization. Record that you are a member."""

    TYPE: ClassVar[int] = 26
    round: int = checked(COUNT)


@attrs.define
class Readmitted:
    """I have recorded that, durably: my acknowledgements count."""

    TYPE: ClassVar[int] = 27
    round: int = checked(COUNT)


@attrs.define
class Refused:
    """Why this link is about to be closed, in words."""

    TYPE: ClassVar[int] = 22
    reason: str = checked(is_text(REASON_BYTES_MAX))


@attrs.define
class SessionKeys:
    """The keys of session passwords: the key in use, and the previous one, each with its name. Encrypted, and only sent
    on links whose other end has proven who it is."""

    TYPE: ClassVar[int] = 34
    keys: list[list[bytes]] = checked(are_session_keys, is_secret=True)


@attrs.define
class HandOver:
    """I elect, and so should you: this voter is to lead."""

    TYPE: ClassVar[int] = 35
    heir: ServerId = checked(SERVER_ID)


@attrs.define
class Attach:
    """This observer is synchronized, and follows through me; `link` names its link to me, in this run of my process."""

    TYPE: ClassVar[int] = 37
    link: Link = checked(LINK, Link)
    sid: ServerId = checked(SERVER_ID)


@attrs.define
class Attached:
    """A quorum has confirmed me since I heard of the observer on this link of yours: let it serve clients. What it
    sends through any other server no longer counts."""

    TYPE: ClassVar[int] = 38
    link: Link = checked(LINK, Link)


@attrs.define
class Detach:
    """The observer on this link of the master is no longer attached. From the master: it is gone. From the leader: it
    follows elsewhere, or broke the protocol; drop it."""

    TYPE: ClassVar[int] = 39
    link: Link = checked(LINK, Link)


@attrs.define
class Relayed:
    """Between master and leader: a message from, or to, the observer on this link of the master."""

    TYPE: ClassVar[int] = 40
    link: Link = checked(LINK, Link)
    message: bytes = checked(is_bytes(1, FRAME_BYTES_MAX))
    """Encoded as it is on a link."""


@attrs.define
class Config:
    """On the election port, before a vote: the configurations that the sender knows, if any besides that of its
    file."""

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
    | mmsg.Request
    | mmsg.Revalidate
    | mmsg.Revalidated
    | mmsg.Sync
    | mmsg.Synced
    | mmsg.Suspect
    | mmsg.Compare
    | mmsg.Compared
    | mmsg.Verdict
    | mmsg.TreeWanted
    | mmsg.TreeOffered
    | SessionKeys
    | HandOver
    | Attach
    | Attached
    | Detach
    | Relayed
    | Config
)

URGENT: frozenset[type[Message]] = frozenset({Ack, Ping, Confirm, Confirmed})
"""Messages that overtake proposals and requests on a link (H2 turn budget). An ACK of NEWLEADER is an `Ack` like those
that follow it, so none of them overtakes it."""

SECRET: frozenset[type[Message]] = frozenset({SessionKeys})
"""Messages that are encrypted, and only sent to a server that has proven who it is."""

MESSAGES: tuple[type[Message], ...] = get_args(Message)

_CODEC: Codec[Message] = Codec(MESSAGES)
encode = _CODEC.encode
decode = _CODEC.decode
