"""Version 2: fixed offsets, for what a client does most. Big-endian; offsets are those of the frame's body.

| request | after the header (4 bytes) |
|---|---|
| ADD | key (20), envelope; the ids are those of the envelope |
| READ | ledger (8), entry (8), key (20) if it fences |
| BATCH READ | ledger (8), first entry (8), request id (8), count (4), bytes (8), key (20) if it fences |
| AUTH | an AuthMessage of v3 |

| answer | after the header |
|---|---|
| ADD, READ | code (4), ledger (8), entry (8), envelope if an entry was read |
| BATCH READ | code (4), ledger (8), first entry (8), request id (8), then each entry: its size (4), envelope |
| AUTH | an AuthMessage of v3 |

The header is version, opcode and flags, of 1, 1 and 2 bytes; in version 0 all of it is the opcode. An answer has the
version and the opcode of its request, and no flags. Versions 0 and 1 have no key in reads.

**Only the codes 0, 1, 2 and 100 to 106 may leave here.** On any other code BookKeeper's clients throw, and close the
connection with every request on it. Code 107, an unknown ledger state, has a name there and is no exception: it leaves
as an I/O error, which proves as little.

Not here: which request an answer belongs to (`client_channel.py`), what is refused (`codec.py`).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import attrs

from zab.ledger.entries.keys import KEY_BYTES
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import Added, AddEntry, BatchRead, EntryRead, ReadBatch, ReadEntry
from zab.ledger.wire.status import Status

ADD: Final = 1
READ: Final = 2
AUTH: Final = 3
BATCH_READ: Final = 7

FENCES: Final = 1
RECOVERS: Final = 2
IS_URGENT: Final = 4

VERSION: Final = 2
"""What our clients send."""

CODE_OF: Final = {
    Status.OK: 0,
    Status.NO_LEDGER: 1,
    Status.NO_ENTRY: 2,
    Status.BAD_REQUEST: 100,
    Status.IO_ERROR: 101,
    Status.UNAUTHORIZED: 102,
    Status.BAD_VERSION: 103,
    Status.FENCED: 104,
    Status.READ_ONLY: 105,
    Status.TOO_MANY_REQUESTS: 106,
    Status.UNKNOWN_LEDGER_STATE: 101,
    Status.UNREACHABLE: 101,
    Status.TIMED_OUT: 101,
}
"""The code that leaves for a status."""

STATUS_OF: Final = {
    **{code: status for status, code in CODE_OF.items() if code != 101},
    101: Status.IO_ERROR,
    107: Status.UNKNOWN_LEDGER_STATE,
}
"""What is understood: any code that is not here is an I/O error, which proves nothing."""

ENVELOPE_AT: Final = 4 + KEY_BYTES
IDS_BYTES: Final = 16
ANSWER_BYTES: Final = 24
"""The body of an answer without an entry."""

_HEADER: Final = Struct(">I")
HEADER_BYTES: Final = _HEADER.size
_ADD: Final = Struct(f">4x{KEY_BYTES}sqq")
_READ: Final = Struct(">Iqq")
_BATCH: Final = Struct(">Iqqqiq")
_IDS: Final = Struct(">qq")
_ANSWER: Final = Struct(">Iiqq")
_ANSWER_FRAME: Final = Struct(">IIiqq")
_BATCH_ANSWER: Final = Struct(">Iiqqq")
_BATCH_ANSWER_FRAME: Final = Struct(">IIiqqq")
_READ_FRAME: Final = Struct(">IIqq")
_BATCH_FRAME: Final = Struct(">IIqqqiq")
_ADD_FRAME: Final = Struct(">II")

_ANSWER_FRAME_BYTES: Final = _ANSWER_FRAME.size

PLAIN_ADD: Final = _HEADER.pack(VERSION << 24 | ADD << 16)
"""The header of an add of version 2 without flags."""
unpack_add: Final = _ADD.unpack_from
"""Key, ledger and entry of the body of an add."""
pack_answer: Final = _ANSWER_FRAME.pack
"""An answer to an add: its size, header, code, ledger and entry."""


@attrs.frozen
class V2Reply:
    """What the answer to a request needs of it, other than ids: its header, and the request id of a batch read."""

    header: int
    """Version and opcode, as they are written."""
    request_id: int = 0


def header_of(version: int, opcode: int) -> int:
    """The header of a request or an answer without flags."""
    return version << 24 | opcode << 16 if version else opcode


_REPLIES: Final = {
    (version, opcode): V2Reply(header_of(version, opcode)) for version in (0, 1, 2) for opcode in (ADD, READ, AUTH)
}
"""What most requests share."""


def split_header(body: bytes) -> tuple[int, int, int]:
    """Version, opcode and flags. Raises ProtocolError."""
    if len(body) < _HEADER.size:
        raise ProtocolError(f"a v2 frame of {len(body)} bytes")
    (word,) = _HEADER.unpack_from(body)
    version = word >> 24
    return (version, word >> 16 & 0xFF, word & 0xFFFF) if version else (0, word, 0)


# ------------------------------------------------------------------------------------------------------ on a bookie


def reply_to(version: int, opcode: int) -> V2Reply:
    """The reply of a request that is no batch read."""
    return _REPLIES[version, opcode]


def read_add(body: bytes, flags: int) -> AddEntry:
    """The request to add, its ids as they are in its envelope. Raises ProtocolError if it has no ids."""
    if len(body) < ENVELOPE_AT + IDS_BYTES:
        raise ProtocolError(f"a request to add of {len(body)} bytes has no ids")
    ledger, entry = _IDS.unpack_from(body, ENVELOPE_AT)
    key = body[4:ENVELOPE_AT]
    envelope = body[ENVELOPE_AT:]
    if not flags:
        return AddEntry(ledger, entry, key, envelope)
    return AddEntry(ledger, entry, key, envelope, flags & RECOVERS != 0, False, flags & IS_URGENT != 0)


def read_read(body: bytes, version: int, flags: int) -> ReadEntry:
    """The request to read. Raises ProtocolError."""
    if len(body) < _READ.size:
        raise ProtocolError(f"a request to read of {len(body)} bytes")
    _, ledger, entry = _READ.unpack_from(body)
    if not flags:
        return ReadEntry(ledger, entry)
    key = _fencing_key(body, _READ.size, version, flags)
    return ReadEntry(ledger, entry, key, flags & FENCES != 0, flags & IS_URGENT != 0)


def read_batch(body: bytes, version: int, flags: int) -> tuple[ReadBatch, V2Reply]:
    """The request to read a batch, and where its answer goes. Raises ProtocolError."""
    if len(body) < _BATCH.size:
        raise ProtocolError(f"a request to read a batch of {len(body)} bytes")
    _, ledger, first, request_id, count, size = _BATCH.unpack_from(body)
    key = _fencing_key(body, _BATCH.size, version, flags)
    request = ReadBatch(ledger, first, max(count, 0), max(size, 0), key, flags & FENCES != 0, flags & IS_URGENT != 0)
    return request, V2Reply(header_of(version, BATCH_READ), request_id)


def _fencing_key(body: bytes, at: int, version: int, flags: int) -> bytes:
    if not flags & FENCES or version < 2:
        return b""
    if len(body) < at + KEY_BYTES:
        raise ProtocolError(f"a request that fences, of {len(body)} bytes, has no key")
    return body[at : at + KEY_BYTES]


def added_frame(reply: V2Reply, answer: Added) -> bytes:
    """The answer as a whole frame."""
    return _ANSWER_FRAME.pack(ANSWER_BYTES, reply.header, CODE_OF[answer.status], answer.ledger, answer.entry)


def entry_read_frame(reply: V2Reply, answer: EntryRead) -> bytes:
    """The answer as a whole frame, with the entry if its status is OK."""
    envelope = answer.envelope if answer.status is Status.OK else b""
    size = ANSWER_BYTES + len(envelope)
    return _ANSWER_FRAME.pack(size, reply.header, CODE_OF[answer.status], answer.ledger, answer.entry) + envelope


def entry_read_head(reply: V2Reply, answer: EntryRead) -> bytes:
    """The answer with an entry as a whole frame, without the entry, which follows it."""
    assert answer.status is Status.OK
    return _ANSWER_FRAME.pack(ANSWER_BYTES + len(answer.envelope), reply.header, 0, answer.ledger, answer.entry)


def batch_read_frame(reply: V2Reply, answer: BatchRead) -> bytes:
    """The answer as a whole frame, with the entries if its status is OK."""
    pieces = [b""]
    if answer.status is Status.OK:
        for envelope in answer.envelopes:
            pieces += (_HEADER.pack(len(envelope)), envelope)
    size = _BATCH_ANSWER.size + sum(map(len, pieces))
    pieces[0] = _BATCH_ANSWER_FRAME.pack(
        size, reply.header, CODE_OF[answer.status], answer.ledger, answer.first, reply.request_id
    )
    return b"".join(pieces)


def auth_frame(reply: V2Reply, message: bytes) -> bytes:
    """An AuthMessage as a whole frame, of a request or an answer."""
    return _ADD_FRAME.pack(_HEADER.size + len(message), reply.header) + message


# ------------------------------------------------------------------------------------------------------ in a client


def add_request_frame(request: AddEntry) -> bytes:
    """The request as a whole frame. Its ids are those of its envelope; `is_deferred` cannot be said."""
    flags = (RECOVERS if request.is_recovery else 0) | (IS_URGENT if request.is_urgent else 0)
    size = ENVELOPE_AT + len(request.envelope)
    head = _ADD_FRAME.pack(size, VERSION << 24 | ADD << 16 | flags)
    return b"".join((head, request.key, request.envelope))


def read_request_frame(request: ReadEntry) -> bytes:
    """The request as a whole frame; a long poll cannot be said."""
    flags = _read_flags(request)
    key = request.key if request.is_fencing else b""
    word = VERSION << 24 | READ << 16 | flags
    return _READ_FRAME.pack(_READ.size + len(key), word, request.ledger, request.entry) + key


def batch_request_frame(request: ReadBatch, request_id: int) -> bytes:
    """The request as a whole frame."""
    key = request.key if request.is_fencing else b""
    head = _BATCH_FRAME.pack(
        _BATCH.size + len(key),
        VERSION << 24 | BATCH_READ << 16 | _read_flags(request),
        request.ledger,
        request.first,
        request_id,
        request.count_max,
        request.size_max,
    )
    return head + key


def _read_flags(request: ReadEntry | ReadBatch) -> int:
    return (FENCES if request.is_fencing else 0) | (IS_URGENT if request.is_urgent else 0)


def read_answer(body: bytes) -> tuple[Status, int, int, bytes]:
    """Status, ledger, entry and envelope of the answer to an add or a read. Raises ProtocolError."""
    if len(body) < ANSWER_BYTES:
        raise ProtocolError(f"an answer of {len(body)} bytes")
    _, code, ledger, entry = _ANSWER.unpack_from(body)
    return STATUS_OF.get(code, Status.IO_ERROR), ledger, entry, b"" if code else body[ANSWER_BYTES:]


def read_batch_answer(body: bytes) -> tuple[int, Status, tuple[bytes, ...]]:
    """Request id, status and envelopes of the answer to a batch read. Raises ProtocolError."""
    if len(body) < _BATCH_ANSWER.size:
        raise ProtocolError(f"an answer to a batch read of {len(body)} bytes")
    _, code, _, _, request_id = _BATCH_ANSWER.unpack_from(body)
    envelopes = []
    at = _BATCH_ANSWER.size
    end = at if code else len(body)
    while at < end:
        if at + _HEADER.size > end:
            raise ProtocolError("the size of an entry is cut")
        (size,) = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        if size > end - at:
            raise ProtocolError(f"an entry of {size} bytes, of which {end - at} are there")
        envelopes.append(body[at : at + size])
        at += size
    return request_id, STATUS_OF.get(code, Status.IO_ERROR), tuple(envelopes)


def add_answers(data: bytes) -> tuple[list[tuple[int, int, int]], int]:
    """The answers to adds that `data` begins with, each as code, ledger and entry; and where the first frame begins
    that is no answer to an add, or is not whole.

    The answers of a group commit arrive together, 28 bytes each: this reads them without cutting them into frames.
    """
    count = len(data) // _ANSWER_FRAME_BYTES
    end = count * _ANSWER_FRAME_BYTES
    found = []
    for size, header, code, ledger, entry in _ANSWER_FRAME.iter_unpack(memoryview(data)[:end]):
        if size != ANSWER_BYTES or header != _ADD_ANSWER:
            break
        found.append((code, ledger, entry))
    return found, len(found) * _ANSWER_FRAME_BYTES


_ADD_ANSWER: Final = header_of(VERSION, ADD)
