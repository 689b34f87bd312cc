"""Version 3: a published frame, every operation, and what is refused with which status."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.wire import v3_schema
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import Refused, ServerRequest, decode_request, encode_answer
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    BookieInfo,
    BookieInfoWanted,
    EntryRead,
    GetBookieInfo,
    LacRead,
    ReadBatch,
    ReadEntry,
    ReadLac,
    StartTls,
    TlsStarted,
)
from zab.ledger.wire.status import Status

DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key
ENVELOPE = DIGEST.pack(Entry(1, 0, -1, 5, b"hello"))
FENCING = bytes.fromhex(f"000000310a06080310011801a20626080110ffffffffffffffffff011a14{KEY.hex()}a00601")


def request_with(operation: int, version: int = 3, transaction: int = 7, **fields: Any) -> Any:
    message = v3_schema.REQUEST_CLASS()
    message.header.version = version
    message.header.operation = operation
    message.header.txnId = transaction
    if operation in v3_schema.REQUEST_FIELD:
        inner = getattr(message, v3_schema.REQUEST_FIELD[operation])
        inner.SetInParent()
        for name, value in fields.items():
            setattr(inner, name, value)
    return message


def body_with(operation: int, version: int = 3, **fields: Any) -> bytes:
    body: bytes = request_with(operation, version, **fields).SerializePartialToString()
    return body


def refused(body: bytes) -> tuple[Refused, Any]:
    found = decode_request(body)
    assert isinstance(found, Refused), found
    response = v3_schema.RESPONSE_CLASS.FromString(found.frame[4:])
    assert response.IsInitialized()
    assert response.status == v3_schema.CODE_OF[found.status]
    return found, response


def test_the_frame_of_a_fencing_read() -> None:
    request = ReadEntry(1, -1, KEY, is_fencing=True)
    assert ClientChannel(is_v2=False).encode(request) == FENCING
    found = decode_request(FENCING[4:])
    assert isinstance(found, ServerRequest)
    assert found.request == request


ADD_FIELDS = {"ledgerId": 1, "entryId": 0, "masterKey": KEY, "body": ENVELOPE}


@pytest.mark.parametrize(
    ("operation", "fields", "status"),
    [
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"entryId": 1}, Status.BAD_REQUEST),
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"ledgerId": 2}, Status.BAD_REQUEST),
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"entryId": -1}, Status.BAD_REQUEST),
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"masterKey": KEY[:-1]}, Status.BAD_REQUEST),
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"body": ENVELOPE[:31]}, Status.BAD_REQUEST),
        (v3_schema.ADD_ENTRY, ADD_FIELDS | {"body": b""}, Status.BAD_REQUEST),
        (v3_schema.READ_ENTRY, {"ledgerId": 1, "entryId": -2}, Status.BAD_REQUEST),
        (v3_schema.READ_ENTRY, {"ledgerId": -1, "entryId": 2}, Status.BAD_REQUEST),
        (v3_schema.READ_ENTRY, {"ledgerId": 1, "entryId": -1, "flag": 2}, Status.BAD_REQUEST),
        (v3_schema.READ_ENTRY, {"ledgerId": 1, "entryId": 3, "flag": 2, "previousLAC": 2}, Status.BAD_REQUEST),
        (v3_schema.READ_ENTRY, {"ledgerId": 1, "entryId": -1, "flag": 1}, Status.UNAUTHORIZED),
        (v3_schema.READ_ENTRY, {"ledgerId": 1, "entryId": 0, "flag": 1, "masterKey": b"key"}, Status.UNAUTHORIZED),
        (
            v3_schema.WRITE_LAC,
            {"ledgerId": 1, "lac": 6, "masterKey": KEY, "body": DIGEST.pack_lac(1, 7)},
            Status.BAD_REQUEST,
        ),
        (
            v3_schema.WRITE_LAC,
            {"ledgerId": 2, "lac": 7, "masterKey": KEY, "body": DIGEST.pack_lac(1, 7)},
            Status.BAD_REQUEST,
        ),
        (
            v3_schema.WRITE_LAC,
            {"ledgerId": 1, "lac": -2, "masterKey": KEY, "body": DIGEST.pack_lac(1, -2)},
            Status.BAD_REQUEST,
        ),
        (v3_schema.WRITE_LAC, {"ledgerId": 1, "lac": 7, "masterKey": KEY, "body": bytes(15)}, Status.BAD_REQUEST),
        (
            v3_schema.WRITE_LAC,
            {"ledgerId": 1, "lac": 7, "masterKey": b"", "body": DIGEST.pack_lac(1, 7)},
            Status.BAD_REQUEST,
        ),
        (v3_schema.READ_LAC, {"ledgerId": -5}, Status.BAD_REQUEST),
        (v3_schema.FORCE_LEDGER, {"ledgerId": -5}, Status.BAD_REQUEST),
        (v3_schema.LIST_ENTRIES, {"ledgerId": -5}, Status.BAD_REQUEST),
    ],
)
def test_what_no_bookie_could_do_is_refused_with_its_message(
    operation: int, fields: dict[str, Any], status: Status
) -> None:
    """Rule 5 of the wire, for the answers that no core makes."""
    found, response = refused(body_with(operation, **fields))
    assert found.status is status
    assert (response.header.operation, response.header.txnId) == (operation, 7)
    message = getattr(response, v3_schema.RESPONSE_FIELD[operation])
    assert message.status == response.status
    assert message.ledgerId == fields["ledgerId"]
    if operation in (v3_schema.ADD_ENTRY, v3_schema.READ_ENTRY):
        assert message.entryId == fields["entryId"]


@pytest.mark.parametrize("version", [1, 2, 4, -1])
def test_another_header_version_is_a_bad_version_with_its_message(version: int) -> None:
    found, response = refused(body_with(v3_schema.ADD_ENTRY, version, **ADD_FIELDS))
    assert found.status is Status.BAD_VERSION
    assert (response.addResponse.ledgerId, response.addResponse.status, response.header.version) == (1, 503, 3)


@pytest.mark.parametrize("operation", [0, 3, 4, 12, 99, -1])
def test_an_operation_that_is_not_known_is_a_bad_request_without_a_message(operation: int) -> None:
    found, response = refused(body_with(operation))
    assert (found.status, found.request) == (Status.BAD_REQUEST, None)
    assert (response.header.operation, response.header.txnId) == (operation, 7)
    assert [field.name for field, _ in response.ListFields()] == ["header", "status"]


def test_an_operation_without_its_message_is_a_bad_request() -> None:
    message = v3_schema.REQUEST_CLASS()
    message.header.version, message.header.operation, message.header.txnId = 3, v3_schema.ADD_ENTRY, 1
    found, response = refused(message.SerializeToString())
    assert found.status is Status.BAD_REQUEST
    assert response.addResponse.status == 404


@pytest.mark.parametrize("missing", ["ledgerId", "entryId", "masterKey", "body"])
def test_a_required_field_that_is_missing_ends_the_connection(missing: str) -> None:
    fields = {name: value for name, value in ADD_FIELDS.items() if name != missing}
    with pytest.raises(ProtocolError, match=missing):
        decode_request(body_with(v3_schema.ADD_ENTRY, **fields))


@pytest.mark.parametrize("field", ["version", "operation", "txnId"])
def test_a_header_that_lacks_a_field_ends_the_connection(field: str) -> None:
    message = request_with(v3_schema.READ_LAC, ledgerId=1)
    message.header.ClearField(field)
    with pytest.raises(ProtocolError, match=field):
        decode_request(message.SerializePartialToString())


def test_fields_that_are_not_known_are_skipped() -> None:
    """The logging context of BookKeeper's clients is among them, number 200."""
    body = body_with(v3_schema.READ_LAC, ledgerId=1) + _VarintBytes(200 << 3 | 2) + b"\x03abc"
    found = decode_request(body)
    assert isinstance(found, ServerRequest)
    assert found.request == ReadLac(1)


@pytest.mark.parametrize("flag", [0, 3, 1 << 20, -1])
def test_a_flag_that_is_not_known_means_none(flag: int) -> None:
    read = decode_request(body_with(v3_schema.READ_ENTRY, ledgerId=1, entryId=2, flag=flag))
    assert isinstance(read, ServerRequest)
    assert read.request == ReadEntry(1, 2)
    add = decode_request(body_with(v3_schema.ADD_ENTRY, **ADD_FIELDS, flag=flag, writeFlags=2))
    assert isinstance(add, ServerRequest)
    assert add.request == AddEntry(1, 0, KEY, ENVELOPE)


def test_a_fencing_read_is_no_long_poll() -> None:
    fields = {"masterKey": KEY, "flag": 1, "previousLAC": 3, "timeOut": 100}
    found = decode_request(body_with(v3_schema.READ_ENTRY, ledgerId=1, entryId=2, **fields))
    assert isinstance(found, ServerRequest)
    assert found.request == ReadEntry(1, 2, KEY, is_fencing=True)


def test_a_wait_below_0_is_none() -> None:
    found = decode_request(body_with(v3_schema.READ_ENTRY, ledgerId=1, entryId=-1, previousLAC=3, timeOut=-100))
    assert isinstance(found, ServerRequest)
    assert found.request == ReadEntry(1, -1, previous_lac=3, wait_ms=0)


def test_any_priority_above_0_is_high() -> None:
    for priority in (1, 100):
        message = request_with(v3_schema.READ_ENTRY, ledgerId=1, entryId=2)
        message.header.priority = priority
        found = decode_request(message.SerializeToString())
        assert isinstance(found, ServerRequest)
        assert found.request == ReadEntry(1, 2, is_urgent=True)


def test_only_what_is_asked_of_a_bookie_is_known_to_it() -> None:
    found = decode_request(body_with(v3_schema.GET_BOOKIE_INFO, requested=0x7FFF_FFFE))
    assert isinstance(found, ServerRequest)
    assert found.request == GetBookieInfo(BookieInfoWanted.FREE)
    frame = encode_answer(found.reply_to, BookieInfo(Status.OK, free=5))
    info = v3_schema.RESPONSE_CLASS.FromString(frame[4:]).getBookieInfoResponse
    assert (info.freeDiskSpace, info.HasField("totalDiskCapacity")) == (5, False)


# ---------------------------------------------------------------------------------------------------- in a client


def answered(request: Any, **changes: Any) -> tuple[list[Any], ProtocolError | None]:
    """What a channel makes of an answer that this bookie changes first."""
    channel = ClientChannel(is_v2=False)
    found = decode_request(channel.encode(request)[4:])
    assert isinstance(found, ServerRequest)
    answer = changes.pop("answer")
    response = v3_schema.RESPONSE_CLASS.FromString(encode_answer(found.reply_to, answer)[4:])
    inner = getattr(response, v3_schema.RESPONSE_FIELD[response.header.operation])
    for name, value in changes.items():
        if name == "without_message":
            response.ClearField(v3_schema.RESPONSE_FIELD[response.header.operation])
        elif name == "outer":
            response.status = value
        else:
            setattr(inner, name, value)
    body = response.SerializeToString()
    return channel.feed(len(body).to_bytes(4, "big") + body)


ADD = AddEntry(1, 0, KEY, ENVELOPE)
OK = Added(Status.OK, 1, 0)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [(0, 504, Status.FENCED), (504, 0, Status.FENCED), (504, 502, Status.FENCED), (9999, 0, Status.IO_ERROR)],
)
def test_the_outer_status_counts_unless_it_is_ok(outer: int, inner: int, expected: Status) -> None:
    found, error = answered(ADD, answer=OK, outer=outer, status=inner)
    assert error is None
    assert found == [(ADD, Added(expected, 1, 0))]


def test_an_answer_that_is_ok_and_has_no_message_ends_the_connection() -> None:
    found, error = answered(ADD, answer=OK, without_message=True)
    assert not found
    assert "no message" in str(error)


def test_a_refusal_without_its_message_has_the_ids_of_the_request() -> None:
    found, error = answered(ADD, answer=OK, without_message=True, outer=502)
    assert (found, error) == ([(ADD, Added(Status.UNAUTHORIZED, 1, 0))], None)


def test_an_answer_names_other_ids_in_vain() -> None:
    found, _ = answered(ADD, answer=OK, ledgerId=77, entryId=88)
    assert found == [(ADD, OK)]


POLL = ReadEntry(1, -1, previous_lac=4, wait_ms=100, wants_piggyback=True)


@pytest.mark.parametrize(("entry", "envelope"), [(6, ENVELOPE), (-1, ENVELOPE), (5, b"")])
def test_an_entry_that_was_not_asked_for_does_not_come_with_a_long_poll(entry: int, envelope: bytes) -> None:
    found, error = answered(POLL, answer=EntryRead(Status.OK, 1, entry, envelope, 9))
    assert not found
    assert "instead of 5" in str(error)


def test_a_read_of_the_explicit_lac_may_be_of_nothing() -> None:
    nothing = LacRead(Status.OK, 1)
    assert answered(ReadLac(1), answer=nothing) == ([(ReadLac(1), nothing)], None)


def test_the_answer_to_start_tls_has_no_status_of_its_own() -> None:
    started = TlsStarted(Status.OK)
    assert answered(StartTls(), answer=started) == ([(StartTls(), started)], None)


def test_v3_has_no_batches() -> None:
    channel = ClientChannel(is_v2=False)
    assert not channel.can_send(ReadBatch(1, 0, 10, 100))
