"""Any bytes: they are requests, refusals, answers, or the one error that ends a connection."""

from __future__ import annotations

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.wire.some_messages import V2_REQUESTS, V3_REQUESTS, answers_to
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import Refused, ServerRequest, decode_run, encode_answer
from zab.ledger.wire.frames import FrameCutter, ProtocolError
from zab.ledger.wire.messages import (
    AddEntry,
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

V2_CODES = frozenset({0, 1, 2, 100, 101, 102, 103, 104, 105, 106})


@st.composite
def spoilt(draw: st.DrawFn, frame: bytes) -> bytes:
    """A frame with some bytes changed, cut or added."""
    data = bytearray(frame)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                data[at] = draw(st.sampled_from([0, 1, 2, 0x0A, 0x7F, 0x80, 0xFF]))
            case 1:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 2:
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=12))
        if not data:
            break
    return bytes(data)


def check_a_bookie(bodies: list[bytes]) -> None:
    found, error = decode_run(bodies)
    assert error is None or type(error) is ProtocolError
    assert (error is None) == (len(found) == len(bodies))
    for one, body in zip(found, bodies, strict=False):
        if isinstance(one, Refused):
            frame = one.frame
        else:
            assert isinstance(one, ServerRequest)
            check_request(one.request)
            frame = encode_answer(one.reply_to, answer_without(one.request, Status.UNKNOWN_LEDGER_STATE))
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
        if body[0] != 0x0A and frame[5] != 3 and not (body[0] == 0 and frame[7] == 3):
            assert int.from_bytes(frame[8:12], "big") in V2_CODES


def check_request(request: Request) -> None:
    """What a core may rely on."""
    match request:
        case AddEntry():
            assert request.ledger >= 0 <= request.entry
            assert len(request.key) == 20
            assert len(request.envelope) >= 32
            assert request.envelope[:16] == pack(">qq", request.ledger, request.entry)
        case ReadEntry():
            assert request.ledger >= 0
            assert request.entry >= -1
            assert len(request.key) == (20 if request.is_fencing else 0)
            assert request.wait_ms is None or request.wait_ms >= 0
            assert not request.wants_piggyback or (request.previous_lac is not None and request.entry == -1)
        case ReadBatch():
            assert min(request.ledger, request.first, request.count_max, request.size_max) >= 0
            assert len(request.key) == (20 if request.is_fencing else 0)
        case WriteLac():
            assert request.packet[:16] == pack(">qq", request.ledger, request.lac)
            assert request.ledger >= 0
            assert request.lac >= -1
        case ReadLac() | ForceLedger() | ListEntries():
            assert request.ledger >= 0


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_reach_a_bookie(bodies: list[bytes]) -> None:
    check_a_bookie(bodies)


@given(st.sampled_from([b"\x02\x01\0", b"\x02\x02\0", b"\x02\x03\0", b"\x02\x07\0", b"\0\0\0", b"\x0a"]), st.binary())
def test_bytes_that_begin_well_reach_a_bookie(head: bytes, rest: bytes) -> None:
    check_a_bookie([head + rest])


@given(V2_REQUESTS, st.data())
def test_spoilt_requests_of_v2(request: Request, data: st.DataObject) -> None:
    frame = ClientChannel(is_v2=True).encode(request)
    check_a_bookie([data.draw(spoilt(frame[4:]))])
    check_a_bookie(FrameCutter().feed(data.draw(spoilt(frame)))[0])


@given(V3_REQUESTS, st.data())
def test_spoilt_requests_of_v3(request: Request, data: st.DataObject) -> None:
    frame = ClientChannel(is_v2=False).encode(request)
    check_a_bookie([data.draw(spoilt(frame[4:]))])
    check_a_bookie(FrameCutter().feed(data.draw(spoilt(frame)))[0])


@given(st.booleans(), st.data())
def test_spoilt_answers(is_v2: bool, data: st.DataObject) -> None:
    channel = ClientChannel(is_v2)
    request = data.draw(V2_REQUESTS if is_v2 else V3_REQUESTS)
    (found,), _ = decode_run([channel.encode(request)[4:]])
    assert isinstance(found, ServerRequest)
    frame = encode_answer(found.reply_to, data.draw(answers_to(request, Status.OK, is_v2)))
    body = data.draw(spoilt(frame[4:]))
    answered, error = channel.feed(pack(">I", len(body)) + body)
    assert error is None or type(error) is ProtocolError
    for asked, answer in answered:
        assert asked == request
        assert type(answer) is type(answer_without(request, Status.OK))


@given(st.booleans(), st.binary(max_size=120), V2_REQUESTS)
def test_any_bytes_reach_a_client(is_v2: bool, data: bytes, request: Request) -> None:
    channel = ClientChannel(is_v2)
    if channel.can_send(request):
        channel.encode(request)
    _, error = channel.feed(data)
    assert error is None or type(error) is ProtocolError
