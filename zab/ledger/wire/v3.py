"""Version 3: protocol buffers (`v3_schema.py`), for what version 2 cannot say.

A request is a header and the message of its operation. An answer is the header of its request, a status, and the
message of the operation, which has the status again. **Every answer to a known operation has its message, with the ids
of the request, whatever the status is**: BookKeeper's clients take the ids from there, and report to the wrong entry
without. If the two statuses differ, the outer one counts unless it is OK.

A request of another header version than 3 is answered with "bad version"; one whose operation is not known with "bad
request" and no message, since nobody knows which. Fields that are not known are skipped. A flag or a write flag that is
not known means none.

Not here: which request an answer belongs to (`client_channel.py`), what else is refused (`codec.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import attrs

from zab.ledger.entries.ids import NONE
from zab.ledger.wire import v3_schema as schema
from zab.ledger.wire.availability import decode_runs, encode_runs
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    Authenticate,
    Authenticated,
    BookieInfo,
    BookieInfoWanted,
    EntriesListed,
    EntryRead,
    Forced,
    ForceLedger,
    GetBookieInfo,
    LacRead,
    LacWritten,
    ListEntries,
    ReadEntry,
    ReadLac,
    Request,
    StartTls,
    TlsStarted,
    WriteLac,
    answer_without,
)
from zab.ledger.wire.protobuf import parse, text_of
from zab.ledger.wire.status import Status

_pack_size: Final = Struct(">I").pack

_WAIT_MS_MAX: Final = (1 << 63) - 1
_WANTED: Final = BookieInfoWanted.CAPACITY | BookieInfoWanted.FREE


@attrs.frozen
class V3Reply:
    """What the answer to a request needs of it, other than ids."""

    operation: int
    transaction: int


# ------------------------------------------------------------------------------------------------------ on a bookie


def read_request(body: bytes) -> tuple[Request | None, V3Reply, Status]:
    """A request, where its answer goes, and OK or the status that refuses it. The request is None if its operation is
    not known. Raises ProtocolError if it cannot be answered."""
    envelope = parse(schema.REQUEST_CLASS, body)
    header = envelope.header
    operation = header.operation
    reply = V3Reply(operation, header.txnId)
    field = schema.REQUEST_FIELD.get(operation)
    if field is None:
        return None, reply, Status.BAD_REQUEST
    request = _REQUEST_OF[operation](getattr(envelope, field), header.priority > 0)
    if header.version != schema.VERSION:
        return request, reply, Status.BAD_VERSION
    return request, reply, Status.OK if envelope.HasField(field) else Status.BAD_REQUEST


def _add(message: Any, is_urgent: bool) -> Request:
    return AddEntry(
        message.ledgerId,
        message.entryId,
        message.masterKey,
        message.body,
        message.flag == schema.RECOVERY_ADD,
        message.writeFlags & schema.DEFERRED_SYNC != 0,
        is_urgent,
    )


def _read(message: Any, is_urgent: bool) -> Request:
    flag = message.flag
    if flag == schema.FENCE_LEDGER:
        return ReadEntry(message.ledgerId, message.entryId, message.masterKey, True, is_urgent)
    return ReadEntry(
        message.ledgerId,
        message.entryId,
        b"",
        False,
        is_urgent,
        message.previousLAC if message.HasField("previousLAC") else None,
        max(message.timeOut, 0) if message.HasField("timeOut") else None,
        flag == schema.ENTRY_PIGGYBACK,
    )


def _authenticate(message: Any, is_urgent: bool) -> Request:
    return Authenticate(text_of(message.authPluginName, "name of the plugin"), message.payload)


_REQUEST_OF: Final[dict[int, Callable[[Any, bool], Request]]] = {
    schema.ADD_ENTRY: _add,
    schema.READ_ENTRY: _read,
    schema.AUTH: _authenticate,
    schema.WRITE_LAC: lambda message, _: WriteLac(message.ledgerId, message.lac, message.masterKey, message.body),
    schema.READ_LAC: lambda message, _: ReadLac(message.ledgerId),
    schema.GET_BOOKIE_INFO: lambda message, _: GetBookieInfo(BookieInfoWanted(message.requested & _WANTED)),
    schema.START_TLS: lambda _, __: StartTls(),
    schema.FORCE_LEDGER: lambda message, _: ForceLedger(message.ledgerId),
    schema.LIST_ENTRIES: lambda message, _: ListEntries(message.ledgerId),
}


def answer_frame(reply: V3Reply, answer: Answer) -> bytes:
    """The answer as a whole frame."""
    response = _response(reply, answer.status)
    message = getattr(response, schema.RESPONSE_FIELD[reply.operation])
    message.SetInParent()
    operation, write = _WRITE_OF[type(answer)]
    assert operation == reply.operation, (answer, reply)
    write(message, answer)
    return _framed(response)


def answer_without_message(reply: V3Reply, status: Status) -> bytes:
    """The answer to a request whose operation is not known, or that came before a login, as a whole frame."""
    return _framed(_response(reply, status))


def _response(reply: V3Reply, status: Status) -> Any:
    response = schema.RESPONSE_CLASS()
    header = response.header
    header.version = schema.VERSION
    header.operation = reply.operation
    header.txnId = reply.transaction
    response.status = schema.CODE_OF[status]
    return response


def _framed(message: Any) -> bytes:
    body: bytes = message.SerializeToString()
    return _pack_size(len(body)) + body


def _write_added(message: Any, answer: Added) -> None:
    message.status = schema.CODE_OF[answer.status]
    message.ledgerId = answer.ledger
    message.entryId = answer.entry


def _write_entry_read(message: Any, answer: EntryRead) -> None:
    message.status = schema.CODE_OF[answer.status]
    message.ledgerId = answer.ledger
    message.entryId = answer.entry
    if answer.envelope:
        message.body = answer.envelope
    if answer.max_lac is not None:
        message.maxLAC = answer.max_lac
    if answer.lac_time_ms is not None:
        message.lacUpdateTimestamp = answer.lac_time_ms


def _write_status_of_ledger(message: Any, answer: LacWritten | Forced) -> None:
    message.status = schema.CODE_OF[answer.status]
    message.ledgerId = answer.ledger


def _write_lac_read(message: Any, answer: LacRead) -> None:
    message.status = schema.CODE_OF[answer.status]
    message.ledgerId = answer.ledger
    if answer.packet:
        message.lacBody = answer.packet
    if answer.envelope:
        message.lastEntryBody = answer.envelope


def _write_bookie_info(message: Any, answer: BookieInfo) -> None:
    message.status = schema.CODE_OF[answer.status]
    if answer.capacity is not None:
        message.totalDiskCapacity = answer.capacity
    if answer.free is not None:
        message.freeDiskSpace = answer.free


def _write_entries_listed(message: Any, answer: EntriesListed) -> None:
    message.status = schema.CODE_OF[answer.status]
    message.ledgerId = answer.ledger
    if answer.status is Status.OK:
        message.availabilityOfEntriesOfLedger = encode_runs(answer.runs)


def _write_tls_started(message: Any, answer: TlsStarted) -> None:
    """It has no fields, not even a status."""


def _write_authenticated(message: Any, answer: Authenticated) -> None:
    message.authPluginName = answer.plugin.encode()
    message.payload = answer.payload


_WRITE_OF: Final[dict[type[Answer], tuple[int, Callable[[Any, Any], None]]]] = {
    Added: (schema.ADD_ENTRY, _write_added),
    EntryRead: (schema.READ_ENTRY, _write_entry_read),
    LacWritten: (schema.WRITE_LAC, _write_status_of_ledger),
    LacRead: (schema.READ_LAC, _write_lac_read),
    Forced: (schema.FORCE_LEDGER, _write_status_of_ledger),
    BookieInfo: (schema.GET_BOOKIE_INFO, _write_bookie_info),
    EntriesListed: (schema.LIST_ENTRIES, _write_entries_listed),
    TlsStarted: (schema.START_TLS, _write_tls_started),
    Authenticated: (schema.AUTH, _write_authenticated),
}


def read_auth_message(data: bytes) -> Authenticate:
    """An AuthMessage by itself, as v2 has it. Raises ProtocolError."""
    message = parse(schema.AUTH_CLASS, data)
    return Authenticate(text_of(message.authPluginName, "name of the plugin"), message.payload)


def auth_message(plugin: str, payload: bytes) -> bytes:
    """An AuthMessage by itself, as v2 has it."""
    data: bytes = schema.AUTH_CLASS(authPluginName=plugin.encode(), payload=payload).SerializeToString()
    return data


# ------------------------------------------------------------------------------------------------------ in a client


def request_frame(request: Request, transaction: int) -> tuple[bytes, int]:
    """The request as a whole frame, and its operation."""
    operation, write = _ASK_OF[type(request)]
    envelope = schema.REQUEST_CLASS()
    header = envelope.header
    header.version = schema.VERSION
    header.operation = operation
    header.txnId = transaction
    if isinstance(request, AddEntry | ReadEntry) and request.is_urgent:
        header.priority = schema.PRIORITY_HIGH
    message = getattr(envelope, schema.REQUEST_FIELD[operation])
    message.SetInParent()
    write(message, request)
    return _framed(envelope), operation


def _ask_add(message: Any, request: AddEntry) -> None:
    message.ledgerId = request.ledger
    message.entryId = request.entry
    message.masterKey = request.key
    message.body = request.envelope
    if request.is_deferred:
        message.writeFlags = schema.DEFERRED_SYNC
    if request.is_recovery:
        message.flag = schema.RECOVERY_ADD


def _ask_read(message: Any, request: ReadEntry) -> None:
    message.ledgerId = request.ledger
    message.entryId = request.entry
    if request.is_fencing:
        message.masterKey = request.key
        message.flag = schema.FENCE_LEDGER
        return
    if request.previous_lac is not None:
        message.previousLAC = request.previous_lac
    if request.wait_ms is not None:
        message.timeOut = min(request.wait_ms, _WAIT_MS_MAX)
    if request.wants_piggyback:
        message.flag = schema.ENTRY_PIGGYBACK


def _ask_ledger(message: Any, request: ReadLac | ForceLedger | ListEntries) -> None:
    message.ledgerId = request.ledger


def _ask_write_lac(message: Any, request: WriteLac) -> None:
    message.ledgerId = request.ledger
    message.lac = request.lac
    message.masterKey = request.key
    message.body = request.packet


def _ask_bookie_info(message: Any, request: GetBookieInfo) -> None:
    message.requested = int(request.wants)


def _ask_tls(message: Any, request: StartTls) -> None:
    """It has no fields."""


def _ask_login(message: Any, request: Authenticate) -> None:
    message.authPluginName = request.plugin.encode()
    message.payload = request.payload


_ASK_OF: Final[dict[type[Request], tuple[int, Callable[[Any, Any], None]]]] = {
    AddEntry: (schema.ADD_ENTRY, _ask_add),
    ReadEntry: (schema.READ_ENTRY, _ask_read),
    WriteLac: (schema.WRITE_LAC, _ask_write_lac),
    ReadLac: (schema.READ_LAC, _ask_ledger),
    ForceLedger: (schema.FORCE_LEDGER, _ask_ledger),
    GetBookieInfo: (schema.GET_BOOKIE_INFO, _ask_bookie_info),
    ListEntries: (schema.LIST_ENTRIES, _ask_ledger),
    StartTls: (schema.START_TLS, _ask_tls),
    Authenticate: (schema.AUTH, _ask_login),
}


def read_response(body: bytes) -> tuple[V3Reply, Any]:
    """Whose answer this is, and the answer, for `answer_of`. Raises ProtocolError."""
    response = parse(schema.RESPONSE_CLASS, body)
    return V3Reply(response.header.operation, response.header.txnId), response


def answer_of(request: Request, response: Any) -> Answer:
    """What the answer says to its request. The ids are those of the request; only a piggyback has one of its own.
    Raises ProtocolError."""
    operation = response.header.operation
    field = schema.RESPONSE_FIELD[operation]
    message = getattr(response, field)
    code = response.status
    if code == 0 and operation not in (schema.START_TLS, schema.AUTH):
        if not response.HasField(field):
            raise ProtocolError(f"an answer to operation {operation} that is OK and has no message")
        code = message.status
    status = schema.STATUS_OF.get(code, Status.IO_ERROR)
    read = _ANSWER_OF.get(type(request))
    if read is None or not response.HasField(field):
        return answer_without(request, status)
    return read(request, status, message)


def _entry_read(request: ReadEntry, status: Status, message: Any) -> Answer:
    entry, envelope = request.entry, message.body if status is Status.OK else b""
    if request.wants_piggyback and status is Status.OK:
        entry = message.entryId
        following = NONE if request.previous_lac is None else request.previous_lac + 1
        if entry != (following if envelope else NONE):
            raise ProtocolError(f"entry {entry} came along instead of {following}")
    return EntryRead(
        status,
        request.ledger,
        entry,
        envelope,
        message.maxLAC if message.HasField("maxLAC") else None,
        message.lacUpdateTimestamp if message.HasField("lacUpdateTimestamp") else None,
    )


def _lac_read(request: ReadLac, status: Status, message: Any) -> Answer:
    return LacRead(status, request.ledger, message.lacBody, message.lastEntryBody)


def _bookie_info(request: GetBookieInfo, status: Status, message: Any) -> Answer:
    capacity = message.totalDiskCapacity if message.HasField("totalDiskCapacity") else None
    free = message.freeDiskSpace if message.HasField("freeDiskSpace") else None
    return BookieInfo(status, capacity, free)


def _entries_listed(request: ListEntries, status: Status, message: Any) -> Answer:
    if status is not Status.OK:
        return EntriesListed(status, request.ledger)
    return EntriesListed(status, request.ledger, decode_runs(message.availabilityOfEntriesOfLedger))


def _authenticated(request: Authenticate, status: Status, message: Any) -> Answer:
    return Authenticated(status, text_of(message.authPluginName, "name of the plugin"), message.payload)


_ANSWER_OF: Final[dict[type[Request], Callable[[Any, Status, Any], Answer]]] = {
    ReadEntry: _entry_read,
    ReadLac: _lac_read,
    GetBookieInfo: _bookie_info,
    ListEntries: _entries_listed,
    Authenticate: _authenticated,
}
