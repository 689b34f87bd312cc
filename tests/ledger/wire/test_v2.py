"""Version 2: the published frames, the header of every version, and what is refused with which code."""

from __future__ import annotations

from struct import pack

import pytest

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import Refused, ServerRequest, decode_request, encode_answer, encode_answers
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Authenticate,
    Authenticated,
    BatchRead,
    EntryRead,
    ReadBatch,
    ReadEntry,
    Request,
)
from zab.ledger.wire.status import Status

DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key
ENVELOPE = DIGEST.pack(Entry(1, 0, -1, 5, b"hello"))
KEY_HEX = "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
ZERO = "0000000000000000"
ONE = "0000000000000001"
NONE_HEX = "ffffffffffffffff"
ADD_HEX = f"0000004102010000{KEY_HEX}{ONE}{ZERO}{NONE_HEX}0000000000000005e3a5f74d68656c6c6f"


def decoded(body: bytes) -> ServerRequest:
    found = decode_request(body)
    assert isinstance(found, ServerRequest), found
    return found


def refused(body: bytes) -> Refused:
    found = decode_request(body)
    assert isinstance(found, Refused), found
    return found


@pytest.mark.parametrize(
    ("request_", "frame"),
    [
        (AddEntry(1, 0, KEY, ENVELOPE), ADD_HEX),
        (ReadEntry(1, 0), f"0000001402020000{ONE}{ZERO}"),
        (ReadEntry(1, -1, KEY, is_fencing=True), f"0000002802020001{ONE}{NONE_HEX}{KEY_HEX}"),
        (
            ReadBatch(1, 0, 10, 1 << 20),
            f"0000002802070000{ONE}{ZERO}00000000000000010000000a0000000000100000",
        ),
        (AddEntry(1, 0, KEY, ENVELOPE, is_recovery=True, is_urgent=True), ADD_HEX.replace("02010000", "02010006")),
        (ReadEntry(1, -1, KEY, is_fencing=True, is_urgent=True), f"0000002802020005{ONE}{NONE_HEX}{KEY_HEX}"),
    ],
)
def test_frames_of_requests(request_: Request, frame: str) -> None:
    data = bytes.fromhex(frame)
    assert ClientChannel(is_v2=True).encode(request_) == data
    assert decoded(data[4:]).request == request_


def test_frames_of_answers() -> None:
    add = decoded(bytes.fromhex(ADD_HEX)[4:]).reply_to
    assert encode_answer(add, Added(Status.OK, 1, 0)).hex() == f"000000180201000000000000{ONE}{ZERO}"
    read = decoded(bytes.fromhex(f"02020001{ONE}{NONE_HEX}{KEY_HEX}")).reply_to
    assert encode_answer(read, EntryRead(Status.NO_LEDGER, 1, -1)).hex() == f"000000180202000000000001{ONE}{NONE_HEX}"
    found = encode_answer(read, EntryRead(Status.OK, 1, -1, ENVELOPE, max_lac=7))
    assert found.hex() == f"{24 + len(ENVELOPE):08x}0202000000000000{ONE}{NONE_HEX}{ENVELOPE.hex()}"
    both = encode_answers([(add, Added(Status.OK, 1, 0)), (read, EntryRead(Status.NO_LEDGER, 1, -1))])
    assert len(both) == 56


def test_a_batch_from_request_to_answer() -> None:
    """The request id of the request comes back, in errors, too."""
    body = pack(">Iqqqiq", 0x02070000, 1, 0, 9, 10, 1 << 20)
    request, reply_to = decoded(body)
    assert request == ReadBatch(1, 0, 10, 1 << 20)
    head = pack(">Iiqqq", 0x02070000, 0, 1, 0, 9)
    sized = pack(">I", len(ENVELOPE)) + ENVELOPE
    expected = pack(">I", 32 + 2 * len(sized)) + head + 2 * sized
    assert encode_answer(reply_to, BatchRead(Status.OK, 1, 0, (ENVELOPE, ENVELOPE))) == expected
    error = pack(">IIiqqq", 32, 0x02070000, 101, 1, 0, 9)
    assert encode_answer(reply_to, BatchRead(Status.UNKNOWN_LEDGER_STATE, 1, 0, (ENVELOPE,))) == error


def test_counts_and_sizes_below_0_are_no_limit_and_the_first_entry() -> None:
    request = decoded(pack(">Iqqqiq", 0x02070000, 1, 0, 9, -1, -1)).request
    assert request == ReadBatch(1, 0, 0, 0)


@pytest.mark.parametrize(("version", "word"), [(0, 0x00000002), (1, 0x01020000), (2, 0x02020000)])
def test_an_answer_has_the_version_and_the_opcode_of_its_request(version: int, word: int) -> None:
    """In version 0 the whole header is the opcode."""
    request, reply_to = decoded(pack(">Iqq", word, 1, 5))
    assert request == ReadEntry(1, 5)
    assert encode_answer(reply_to, EntryRead(Status.NO_ENTRY, 1, 5)) == pack(">IIiqq", 24, word, 2, 1, 5)
    head = pack(">I", version << 24 | 3 << 16 if version else 3)
    login = decoded(head + b"\n\0\x12\0").reply_to
    assert encode_answer(login, Authenticated(Status.OK, "p", b"x"))[4:8] == head


def test_flags_do_not_exist_in_version_0() -> None:
    with pytest.raises(ProtocolError, match=r"opcode"):
        decode_request(pack(">Iqq", 0x00020001, 1, 5))


def test_a_fence_of_version_1_has_no_key_and_is_unauthorized() -> None:
    found = refused(pack(">Iqq", 0x01020001, 1, -1) + KEY)
    assert found.status is Status.UNAUTHORIZED
    assert found.frame == pack(">IIiqq", 24, 0x01020000, 102, 1, -1)


def test_logins_are_messages_of_v3() -> None:
    frame = ClientChannel(is_v2=True).encode(Authenticate("sasl", b"token"))
    assert frame == pack(">II", 17, 0x02030000) + b"\n\x04sasl\x12\x05token"
    assert decoded(frame[4:]).request == Authenticate("sasl", b"token")


@pytest.mark.parametrize(
    "body",
    [
        pack(">I", 0x02010000) + KEY + ENVELOPE[:31],
        pack(">I", 0x02010000) + KEY + pack(">qqqq", 1, -1, -2, 0),
        pack(">I", 0x02010000) + KEY + pack(">qqqq", -1, 1, 0, 0),
        pack(">Iqq", 0x02020000, 1, -2),
        pack(">Iqq", 0x02020000, -1, 0),
        pack(">Iqqqiq", 0x02070000, 1, -1, 9, 1, 1),
        pack(">Iqqqiq", 0x02070000, -1, 1, 9, 1, 1),
    ],
)
def test_bad_ids_and_short_entries_are_bad_requests(body: bytes) -> None:
    found = refused(body)
    assert found.status is Status.BAD_REQUEST
    assert found.frame[4:12] == body[:4] + pack(">i", 100)


@pytest.mark.parametrize("size", [3, 4, 23, 24, 39])
def test_an_add_without_ids_ends_the_connection(size: int) -> None:
    body = pack(">I", 0x02010000) + KEY + ENVELOPE
    with pytest.raises(ProtocolError, match=rf"of {size} bytes"):
        decode_request(body[:size])


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (pack(">Iqq", 0x02020000, 1, 5), 19),
        (pack(">Iqq", 0x02020001, 1, 5) + KEY, 39),
        (pack(">Iqqqiq", 0x02070000, 1, 5, 9, 1, 1), 39),
        (pack(">Iqqqiq", 0x02070001, 1, 5, 9, 1, 1) + KEY, 59),
    ],
)
def test_reads_that_are_cut_end_the_connection(body: bytes, size: int) -> None:
    decode_request(body)
    with pytest.raises(ProtocolError, match=rf"{size} bytes"):
        decode_request(body[:size])


@pytest.mark.parametrize("opcode", [0, 4, 5, 6, 8, 255])
def test_opcodes_that_are_only_names_end_the_connection(opcode: int) -> None:
    with pytest.raises(ProtocolError, match=rf"opcode {opcode} "):
        decode_request(pack(">BBHqq", 2, opcode, 0, 1, 5))


@pytest.mark.parametrize("first", [3, 9, 11, ord("G"), 255])
def test_a_first_byte_of_no_version_ends_the_connection(first: int) -> None:
    """Rule 1 of the wire: each frame by its first byte."""
    with pytest.raises(ProtocolError, match=r"no version"):
        decode_request(bytes([first]) + bytes(30))
    with pytest.raises(ProtocolError, match=r"empty"):
        decode_request(b"")
