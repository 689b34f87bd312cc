"""A bookie's end of a connection: bodies of frames become requests, answers become frames.

    found, error = decode_run(bodies)     requests and refusals, up to the first body that ends the connection
    encode_answer(reply_to, answer)       one frame
    encode_answers(answers)               many frames as one piece, for what one sync of a journal makes answerable

`reply_to` has everything of a request that its answer needs and its meaning does not: version, operation, transaction.

What no bookie could do, whatever it stores, is refused here, with the frame that answers it. A request that is not
refused has ids that are not negative (except -1 in a read), a key of 20 bytes where it needs one, an envelope with a
whole header and the ids of the request, and a LAC packet of its ledger. What cannot be answered raises ProtocolError,
and ends the connection: bytes of no version, cut fields, an operation of v2 that is not served.

A read that would fence without a key, or with one of another size, is unauthorized, as with the wrong one; an add of it
is a bad request: BookKeeper's writers give up for good when they are unauthorized.

Not here: the sizes of frames (`frames.py`), logins, what a bookie answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from zab.ledger.entries.envelope import HEADER_BYTES, LAC_HEADER_BYTES, header_of, lac_header_of
from zab.ledger.entries.ids import NONE
from zab.ledger.entries.keys import KEY_BYTES
from zab.ledger.wire import v2, v3
from zab.ledger.wire.frames import ProtocolError, is_v3
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    Authenticated,
    BatchRead,
    EntryRead,
    ForceLedger,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    WriteLac,
    answer_without,
)
from zab.ledger.wire.status import Status
from zab.ledger.wire.v2 import V2Reply
from zab.ledger.wire.v3 import V3Reply

ReplyTo: TypeAlias = V2Reply | V3Reply
"""Where an answer goes, for `encode_answer` alone to understand."""


class ServerRequest(NamedTuple):
    """A request, and where its answer goes."""

    request: Request
    reply_to: ReplyTo


@attrs.frozen
class Refused:
    """A request that is answered without asking the bookie."""

    frame: bytes
    """The answer, a whole frame."""
    status: Status
    request: Request | None
    """None: its operation is not known."""


Decoded: TypeAlias = ServerRequest | Refused

_new: Final = tuple.__new__
_ADD_REPLY: Final = v2.reply_to(v2.VERSION, v2.ADD)


def decode_run(bodies: Iterable[bytes]) -> tuple[list[Decoded], ProtocolError | None]:
    """The requests of some frames, in order. If one raises ProtocolError, those before it and the error."""
    found: list[Decoded] = []
    add = found.append
    plain, unpack, envelope_at, size_min = v2.PLAIN_ADD, v2.unpack_add, v2.ENVELOPE_AT, v2.ENVELOPE_AT + HEADER_BYTES
    try:
        for body in bodies:
            if body[:4] == plain and len(body) >= size_min:
                # What a writer sends most, without a call for each of its parts.
                key, ledger, entry = unpack(body)
                if ledger >= 0 and entry >= 0:
                    add(_new(ServerRequest, (AddEntry(ledger, entry, key, body[envelope_at:]), _ADD_REPLY)))
                    continue
            add(decode_request(body))
    except ProtocolError as error:
        return found, error
    return found, None


def decode_request(body: bytes) -> Decoded:
    """The request in the body of a frame. Raises ProtocolError."""
    if is_v3(body):
        return _decode_v3(body)
    version, opcode, flags = v2.split_header(body)
    request: Request
    reply: V2Reply
    if opcode == v2.ADD:
        request, reply = v2.read_add(body, flags), v2.reply_to(version, opcode)
    elif opcode == v2.READ:
        request, reply = v2.read_read(body, version, flags), v2.reply_to(version, opcode)
    elif opcode == v2.BATCH_READ:
        request, reply = v2.read_batch(body, version, flags)
    elif opcode == v2.AUTH:
        return ServerRequest(v3.read_auth_message(body[v2.HEADER_BYTES :]), v2.reply_to(version, opcode))
    else:
        raise ProtocolError(f"the opcode {opcode} of v2 is not served")
    status = _REFUSALS[type(request)](request)
    if status is None:
        return ServerRequest(request, reply)
    return Refused(encode_answer(reply, answer_without(request, status)), status, request)


def _decode_v3(body: bytes) -> Decoded:
    request, reply, status = v3.read_request(body)
    if request is None:
        return Refused(v3.answer_without_message(reply, status), status, None)
    if status is Status.OK:
        check = _REFUSALS.get(type(request))
        refused = check(request) if check is not None else None
        if refused is None:
            return ServerRequest(request, reply)
        status = refused
    return Refused(v3.answer_frame(reply, answer_without(request, status)), status, request)


def encode_answer(reply_to: ReplyTo, answer: Answer) -> bytes:
    """The answer as a whole frame. A status that no wire knows leaves as an I/O error."""
    if isinstance(reply_to, V3Reply):
        return v3.answer_frame(reply_to, answer)
    if isinstance(answer, Added):
        return v2.added_frame(reply_to, answer)
    if isinstance(answer, EntryRead):
        return v2.entry_read_frame(reply_to, answer)
    if isinstance(answer, BatchRead):
        return v2.batch_read_frame(reply_to, answer)
    assert isinstance(answer, Authenticated), answer
    return v2.auth_frame(reply_to, v3.auth_message(answer.plugin, answer.payload))


def encode_answers(answers: Sequence[tuple[ReplyTo, Answer]]) -> bytes:
    """The answers as whole frames, in one piece."""
    return b"".join([encode_answer(reply_to, answer) for reply_to, answer in answers])


# ------------------------------------------------------------------------------------------------------- refusals


def _refuse_add(request: AddEntry) -> Status | None:
    envelope = request.envelope
    if (
        request.ledger < 0
        or request.entry < 0
        or len(request.key) != KEY_BYTES
        or len(envelope) < HEADER_BYTES
        or header_of(envelope)[:2] != (request.ledger, request.entry)
    ):
        return Status.BAD_REQUEST
    return None


def _refuse_read(request: ReadEntry) -> Status | None:
    if request.ledger < 0 or request.entry < NONE:
        return Status.BAD_REQUEST
    if request.wants_piggyback and (request.previous_lac is None or request.entry != NONE):
        return Status.BAD_REQUEST
    return _refuse_fence(request)


def _refuse_batch(request: ReadBatch) -> Status | None:
    if request.ledger < 0 or request.first < 0:
        return Status.BAD_REQUEST
    return _refuse_fence(request)


def _refuse_fence(request: ReadEntry | ReadBatch) -> Status | None:
    return Status.UNAUTHORIZED if request.is_fencing and len(request.key) != KEY_BYTES else None


def _refuse_write_lac(request: WriteLac) -> Status | None:
    packet = request.packet
    if (
        request.ledger < 0
        or request.lac < NONE
        or len(request.key) != KEY_BYTES
        or len(packet) < LAC_HEADER_BYTES
        or lac_header_of(packet) != (request.ledger, request.lac)
    ):
        return Status.BAD_REQUEST
    return None


def _refuse_ledger(request: ReadLac | ForceLedger | ListEntries) -> Status | None:
    return Status.BAD_REQUEST if request.ledger < 0 else None


_REFUSALS: Final[dict[type[Request], Callable[[Any], Status | None]]] = {
    AddEntry: _refuse_add,
    ReadEntry: _refuse_read,
    ReadBatch: _refuse_batch,
    WriteLac: _refuse_write_lac,
    ReadLac: _refuse_ledger,
    ForceLedger: _refuse_ledger,
    ListEntries: _refuse_ledger,
}
