"""The messages of a link between two brokers, and what a broker is told about its links.

Who has something to ask dials a link; the other one answers on the same link.

    FollowerAsked         a request of Kafka's protocol that a follower sends to a leader: Fetch, ListOffsets
    FollowerAnswered      its answer, in the order of the requests
    Asked, Answered       what a broker asks its controller, for itself or for a client; answered in any order
    Told, Taken           what a controller tells a broker, in order, and that it has arrived
    Ended, Marked         how a transaction ends in a partition, for the leader of it, and what became of the marker
    Verifying, Verified   whether partitions are part of a transaction, for its coordinator, and what that says

A payload begins with one byte that says which it is. The records of a `FollowerAnswered` are parts of files until the
turn has read them. All others overtake it on their link, so that a controller's words do not wait for data.

Only brokers that have proven who they are have links (`zab.wire.handshake`): clients are served none of this.

Limits: `LINK_BYTES_MAX`, one message, above the largest batch that is replicated; `SAID_BYTES_MAX`, a message that is
no answer to a follower.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import ToBroker
from zab.partition.controller.requests import Answer, Request, StopReplicaAnswered
from zab.partition.links.structure import dumps, loads
from zab.partition.transactions.marker import Marker
from zab.partition.transactions.requests import Verify
from zab.wire.file_slice import FileSlice
from zab.wire.handshake import Purposes
from zab.wire.link_protocol import LinkProtocol
from zab.wire.records import MessageError

LINK_BYTES_MAX: Final = 48 << 20
SAID_BYTES_MAX: Final = 32 << 20
_HEAD: Final = Struct(">Bqq")


@frozen
class FollowerAsked:
    """A request as Kafka frames it, without its length."""

    payload: bytes


@frozen
class FollowerAnswered:
    """An answer as Kafka frames it, with its length; in pieces, which are bytes or parts of files."""

    pieces: tuple[bytes | FileSlice, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all pieces."""
        return sum(map(len, self.pieces))


@frozen
class Asked:
    """A question; `number` is the asker's name for it."""

    number: int
    request: Request


@frozen
class Answered:
    """The answer to the question of this number."""

    number: int
    answer: Answer


@frozen
class Told:
    """What the controller says. Numbers rise from message to message of one controller to one broker epoch; this one
    says all that came after the message of number `after`."""

    number: int
    after: int
    message: ToBroker


@frozen
class Taken:
    """The message of this number has arrived. `error`: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, or that it cannot be
    taken yet, BROKER_NOT_AVAILABLE: it is sent again. `stopped`: what became of a StopReplica that deletes."""

    number: int
    error: ErrorCode = ErrorCode.NONE
    stopped: StopReplicaAnswered | None = None


@frozen
class Ended:
    """Write this marker, as the leader of its partition."""

    number: int
    marker: Marker


@frozen
class Marked:
    """NONE: the marker of this number is committed."""

    number: int
    error: ErrorCode


@frozen
class Verifying:
    """Say, as the coordinator of the transaction, whether these partitions are part of it."""

    number: int
    asked: Verify


@frozen
class Verified:
    """NONE for each partition of the question that is."""

    number: int
    errors: tuple[ErrorCode, ...]


Message: TypeAlias = (
    FollowerAsked | FollowerAnswered | Asked | Answered | Told | Taken | Ended | Marked | Verifying | Verified
)

_ASKED, _ANSWERED, _QUESTION, _REPLY, _ORDER, _TAKEN, _ENDED, _MARKED, _VERIFYING, _VERIFIED = range(1, 11)
_AS_THEY_ARE: Final = {_TAKEN: Taken, _ENDED: Ended, _MARKED: Marked, _VERIFYING: Verifying, _VERIFIED: Verified}
_KINDS: Final = {kind: number for number, kind in _AS_THEY_ARE.items()}


def encode(message: Message) -> bytes:
    """The payload of a message; the records of an answer are bytes by now."""
    match message:
        case FollowerAsked(payload):
            return bytes([_ASKED]) + payload
        case FollowerAnswered(pieces):
            return b"".join([bytes([_ANSWERED]), *(piece for piece in pieces if isinstance(piece, bytes))])
        case Asked(number, request):
            return _HEAD.pack(_QUESTION, number, 0) + dumps(request)
        case Answered(number, answer):
            return _HEAD.pack(_REPLY, number, 0) + dumps(answer)
        case Told(number, after, told):
            return _HEAD.pack(_ORDER, number, after) + dumps(told)
        case Taken(number) | Ended(number) | Marked(number) | Verifying(number) | Verified(number):
            return _HEAD.pack(_KINDS[type(message)], number, 0) + dumps(message)


def decode(payload: bytes) -> Message:
    """The message that a payload is. Raises MessageError."""
    kind = payload[0] if payload else 0
    if kind == _ASKED:
        return FollowerAsked(payload[1:])
    if kind == _ANSWERED:
        return FollowerAnswered((payload[1:],))
    if not _HEAD.size <= len(payload) <= SAID_BYTES_MAX:
        raise MessageError(f"{len(payload)} bytes of kind {kind} are no message between brokers")
    _, number, after = _HEAD.unpack_from(payload)
    data = payload[_HEAD.size :]
    if kind == _QUESTION:
        return Asked(number, loads(Request, data))
    if kind == _REPLY:
        return Answered(number, loads(Answer, data))
    if kind == _ORDER:
        return Told(number, after, loads(ToBroker, data))
    if kind in _AS_THEY_ARE:
        message: Message = loads(_AS_THEY_ARE[kind], data)
        return message
    raise MessageError(f"{kind} is no kind of message between brokers")


# --------------------------------------------------------------------------------------------- what a broker is told


@frozen
class LinkUp:
    """A link to this broker, which has proven who it is. `is_inbound`: the other one has dialled."""

    link: int
    broker_id: int
    is_inbound: bool


@frozen
class LinkReceived:
    """A message has arrived on this link."""

    link: int
    message: Message


@frozen
class LinkDown:
    """The link is gone; this broker has not closed it."""

    link: int


@frozen
class DialFailed:
    """No link to this broker came of a dial."""

    broker_id: int


FromLinks: TypeAlias = LinkUp | LinkReceived | LinkDown | DialFailed

LINK_PROTOCOL: Final[LinkProtocol[Message, FromLinks]] = LinkProtocol(
    encode=encode,
    decode=decode,
    frame_bytes_max=LINK_BYTES_MAX,
    joining_bytes_max=LINK_BYTES_MAX,
    admitting=frozenset(),
    urgent=frozenset({FollowerAsked, Asked, Answered, Told, Taken, Ended, Marked, Verifying, Verified}),
    uncut_bytes_max=LINK_BYTES_MAX,
    up=lambda link, broker_id, is_inbound, _features: LinkUp(link, broker_id, is_inbound),
    received=LinkReceived,
    down=LinkDown,
    refused=DialFailed,
)
PURPOSES: Final = Purposes(link=1, at_link_port=frozenset({1}), life_bytes=0)
