"""The messages between members, and their encoding.

One frame is a 4-byte big-endian length and one CBOR array `[type, field, …]` in the order of the attributes below. The
type numbers are ZooKeeper's packet numbers where it has the packet. The first frame on every link, in both directions,
is a `Hello` with the protocol version.

Everything that arrives is checked here, once: a frame that is not exactly one known message with fields of the right
kind and range raises `MessageError`, and the link that it came on is closed by whoever owns it. Nothing else is harmed.

Not here: what a message means (the phase modules), and how frames travel (`zab.server`).
"""

from collections.abc import Callable
from operator import attrgetter
from struct import Struct
from typing import Any, ClassVar, TypeAlias, get_args

import attrs
import cbor2

PROTOCOL_VERSION = 1

DATA_FRAME_BYTES_MAX = 256 << 10
"""Proposals and requests above this are cut into several messages, between two batches or writes."""

FRAME_BYTES_MAX = 32 << 20
"""A frame between members. What a configuration allows must fit: a batch has less than `maxBatchBytes`, then one more
transaction, a request of `jute.maxbuffer` in which the ACLs became as large once more."""

FRAME_SPARE_BYTES = 64 << 10
"""For all that stands around a batch in its frame."""

REASON_BYTES_MAX = 1024

WRITE_HEAD = Struct(">qii")
"""In front of the body of a forwarded write: session id, cxid, opcode."""


class MessageError(Exception):
    """The bytes are no message of this protocol."""


Check: TypeAlias = Callable[[object], bool]


def _is_int(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _is_bytes(low: int, high: int) -> Check:
    return lambda value: type(value) is bytes and low <= len(value) <= high


def _is_list_of(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def _is_row(*checks: Check) -> Check:
    def holds(value: object) -> bool:
        return (
            type(value) is list and len(value) == len(checks) and all(c(v) for c, v in zip(checks, value, strict=True))
        )

    return holds


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= REASON_BYTES_MAX


_2_31, _2_63 = 1 << 31, 1 << 63

INT32 = _is_int(-_2_31, _2_31 - 1)
INT64 = _is_int(-_2_63, _2_63 - 1)
SERVER_ID = _is_int(0, (1 << 63) - 1)
ZXID = _is_int(0, (1 << 63) - 1)
EPOCH = _is_int(0, (1 << 31) - 1)
EPOCH_OR_NONE = _is_int(-1, (1 << 31) - 1)
COUNT = _is_int(0, (1 << 63) - 1)
DIGEST = _is_int(0, (1 << 64) - 1)
HOLDS = _is_int(0, 3)
CHAIN = _is_bytes(16, 16)
IDENTITIES = _is_list_of(_is_row(_is_bytes(0, 256), _is_bytes(0, 4096)))


def _lineage(value: object) -> bool:
    return value == b"" or CHAIN(value)


def _field(check: Check) -> Any:
    return attrs.field(metadata={"check": check})


@attrs.define
class Hello:
    """First on every link, both ways: who speaks, and in which version."""

    TYPE: ClassVar[int] = 100
    version: int = _field(COUNT)
    sid: int = _field(SERVER_ID)


@attrs.define
class Notification:
    """A vote, on the election port (fast leader election)."""

    TYPE: ClassVar[int] = 0
    state: int = _field(_is_int(0, 3))
    leader: int = _field(SERVER_ID)
    zxid: int = _field(ZXID)
    epoch: int = _field(EPOCH)
    round: int = _field(COUNT)
    lineage: bytes = _field(_lineage)
    amnesiac: bool = _field(_is_bool)
    holds: int = _field(HOLDS)
    """What the sender holds, from nothing to batches (`zab.history`)."""
    marked: bool = _field(_is_bool)
    """The sender holds nothing, and its operator said that it never did (B3)."""
    leader_marked: bool = _field(_is_bool)
    """So does the server that it votes for."""


@attrs.define
class FollowerInfo:
    """CEPOCH of the paper: a learner's promise so far, and who it is. ZooKeeper's FOLLOWERINFO and OBSERVERINFO."""

    TYPE: ClassVar[int] = 11
    accepted_epoch: int = _field(EPOCH)
    lineage: bytes = _field(_lineage)
    holds: int = _field(HOLDS)
    amnesiac: bool = _field(_is_bool)
    observer: bool = _field(_is_bool)
    marked: bool = _field(_is_bool)
    """As in `Notification`."""


@attrs.define
class LeaderInfo:
    """NEWEPOCH of the paper: the epoch that the prospective leader asks its learners to accept."""

    TYPE: ClassVar[int] = 17
    epoch: int = _field(EPOCH)
    lineage: bytes = _field(CHAIN)


@attrs.define
class AckEpoch:
    """ACK-E of the paper: the epoch is accepted, durably; here is where my history ends.

    `epoch` is the learner's currentEpoch, or -1 when it had accepted this epoch before (then it is no vote for it).
    """

    TYPE: ClassVar[int] = 18
    epoch: int = _field(EPOCH_OR_NONE)
    zxid: int = _field(ZXID)
    chain: bytes = _field(CHAIN)


@attrs.define
class Diff:
    """Your history is a prefix of mine: what is missing follows."""

    TYPE: ClassVar[int] = 13
    zxid: int = _field(ZXID)


@attrs.define
class Trunc:
    """Cut your history after this position, which we both have; what is missing follows."""

    TYPE: ClassVar[int] = 14
    zxid: int = _field(ZXID)
    chain: bytes = _field(CHAIN)
    conflict: bool = _field(_is_bool)
    """Where your history ends, I have other bytes at the same zxid (A5)."""


@attrs.define
class Snap:
    """Take this snapshot in place of your history; answer with `Installed`, then the rest follows."""

    TYPE: ClassVar[int] = 15
    zxid: int = _field(ZXID)
    chain: bytes = _field(CHAIN)
    conflict: bool = _field(_is_bool)
    """As in `Trunc`."""


@attrs.define
class Installed:
    """The snapshot of `Snap` is durable and is my history now."""

    TYPE: ClassVar[int] = 23
    zxid: int = _field(ZXID)


@attrs.define
class Proposal:
    """Batches, in order, exactly as they were first built."""

    TYPE: ClassVar[int] = 2
    batches: list[bytes] = _field(_is_list_of(_is_bytes(1, FRAME_BYTES_MAX)))


@attrs.define
class NewLeader:
    """NEWLEADER of the paper: with everything up to `zxid` in your log, I lead epoch `epoch`."""

    TYPE: ClassVar[int] = 10
    epoch: int = _field(EPOCH)
    zxid: int = _field(ZXID)


@attrs.define
class Ack:
    """Everything up to `zxid` is durable here. With counter 0: ACK-LD, the answer to NEWLEADER of that epoch."""

    TYPE: ClassVar[int] = 3
    epoch: int = _field(EPOCH)
    zxid: int = _field(ZXID)


@attrs.define
class UpToDate:
    """COMMIT-LD of the paper: the epoch is established, and this is its high-water mark now."""

    TYPE: ClassVar[int] = 12
    zxid: int = _field(ZXID)


@attrs.define
class Commit:
    """The high-water mark is at `zxid` (cumulative)."""

    TYPE: ClassVar[int] = 4
    zxid: int = _field(ZXID)


@attrs.define
class Ping:
    """A sign of life. The learner's answer carries its touched sessions and the digest of its tree at `applied`."""

    TYPE: ClassVar[int] = 5
    zxid: int = _field(ZXID)
    applied: int = _field(ZXID)
    digest: int = _field(DIGEST)
    touched: list[list[int]] = _field(_is_list_of(_is_row(INT64, INT32)))
    """Rows of session id and timeout in milliseconds."""


@attrs.define
class Confirm:
    """Do you still follow me? (linearizable sync; the first acknowledgement of an amnesiac)"""

    TYPE: ClassVar[int] = 20
    round: int = _field(COUNT)


@attrs.define
class Confirmed:
    """I do: I have accepted no epoch above yours."""

    TYPE: ClassVar[int] = 21
    round: int = _field(COUNT)


@attrs.define
class Refused:
    """Why this link is about to be closed, in words."""

    TYPE: ClassVar[int] = 22
    reason: str = _field(_is_text)


@attrs.define
class Request:
    """Writes of a learner's clients, of one turn, in their order.

    Each row: the identities of a connection, as pairs of scheme and id, and writes that follow each other with them. A
    write is its `WRITE_HEAD` and its body.
    """

    TYPE: ClassVar[int] = 1
    rows: list[list[Any]] = _field(_is_list_of(_is_row(IDENTITIES, _is_list_of(_is_bytes(16, FRAME_BYTES_MAX)))))


@attrs.define
class Revalidate:
    """A client came back to this learner with a session: is it alive, and mine from now on?"""

    TYPE: ClassVar[int] = 6
    session: int = _field(INT64)
    timeout_ms: int = _field(INT32)


@attrs.define
class Revalidated:
    """The leader's verdict on `Revalidate`."""

    TYPE: ClassVar[int] = 24
    session: int = _field(INT64)
    valid: bool = _field(_is_bool)


@attrs.define
class Sync:
    """Clients of this learner asked for `sync`; the tag names their place in its queues."""

    TYPE: ClassVar[int] = 7
    tag: int = _field(COUNT)


@attrs.define
class Synced:
    """A quorum still follows the leader; the sync is done when you have applied `zxid`."""

    TYPE: ClassVar[int] = 25
    tag: int = _field(COUNT)
    zxid: int = _field(ZXID)


Message: TypeAlias = (
    Hello
    | Notification
    | FollowerInfo
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
    | Refused
    | Request
    | Revalidate
    | Revalidated
    | Sync
    | Synced
)

URGENT: frozenset[type[Message]] = frozenset({Ack, Ping, Confirm, Confirmed})
"""What does not wait on a link for proposals and requests (H2). An ACK of NEWLEADER is an `Ack` like those that follow
it, so none overtakes it."""

MESSAGES: tuple[type[Message], ...] = get_args(Message)

_FIELDS: dict[type[Message], tuple[str, ...]] = {
    kind: tuple(field.name for field in attrs.fields(kind)) for kind in MESSAGES
}
_VALUES: dict[type[Message], Callable[[Message], Any]] = {
    kind: attrgetter("TYPE", *names) for kind, names in _FIELDS.items()
}
_BY_TYPE: dict[int, tuple[type[Message], tuple[Check, ...]]] = {
    kind.TYPE: (kind, tuple(field.metadata["check"] for field in attrs.fields(kind))) for kind in MESSAGES
}
assert len(_BY_TYPE) == len(MESSAGES), "two messages share a type number"


def encode(message: Message) -> bytes:
    """One message as CBOR, without the frame's length."""
    return cbor2.dumps(_VALUES[type(message)](message))


def decode(frame: bytes) -> Message:
    """One message from the CBOR of a frame; `MessageError` says what is wrong with it."""
    try:
        array = cbor2.loads(frame)
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise MessageError(f"not CBOR: {error}") from error
    if type(array) is not list or not array or type(array[0]) is not int:
        raise MessageError("a message is an array that starts with its type")
    if array[0] not in _BY_TYPE:
        raise MessageError(f"unknown message type {array[0]}")
    kind, checks = _BY_TYPE[array[0]]
    if len(array) - 1 != len(checks):
        raise MessageError(f"{kind.__name__} has {len(checks)} fields, not {len(array) - 1}")
    del array[0]
    for index, value in enumerate(array):
        if not checks[index](value):
            raise MessageError(f"{kind.__name__}.{_FIELDS[kind][index]} is out of range")
    return kind(*array)
