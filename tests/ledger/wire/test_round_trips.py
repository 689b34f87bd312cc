"""Requests and answers through a connection: a client's channel, and a bookie's codec."""

from __future__ import annotations

from struct import unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.wire.some_messages import STATUSES, V2_REQUESTS, V3_REQUESTS, answers_to
from zab.ledger.wire import v3_schema
from zab.ledger.wire.client_channel import ClientChannel, needs_v2, needs_v3
from zab.ledger.wire.codec import ServerRequest, decode_request, decode_run, encode_answer, encode_answers
from zab.ledger.wire.frames import FrameCutter
from zab.ledger.wire.messages import Authenticate, GetBookieInfo, Request, StartTls, answer_without
from zab.ledger.wire.status import Status

ARRIVE_ON_V2 = frozenset({0, 1, 2, 100, 101, 102, 103, 104, 105, 106})
EXPECTED = {Status.UNREACHABLE: Status.IO_ERROR, Status.TIMED_OUT: Status.IO_ERROR}


def arrived(frame: bytes) -> ServerRequest:
    bodies, error = FrameCutter().feed(frame)
    assert error is None
    (body,) = bodies
    found = decode_request(body)
    assert isinstance(found, ServerRequest), found
    return found


@given(V2_REQUESTS)
def test_a_request_arrives_over_v2(request: Request) -> None:
    assert not needs_v3(request)
    assert arrived(ClientChannel(is_v2=True).encode(request)).request == request


@given(V3_REQUESTS)
def test_a_request_arrives_over_v3(request: Request) -> None:
    assert not needs_v2(request)
    assert arrived(ClientChannel(is_v2=False).encode(request)).request == request


@given(V2_REQUESTS, STATUSES, st.data())
def test_an_answer_arrives_over_v2_with_a_code_that_clients_know(
    request: Request, status: Status, data: st.DataObject
) -> None:
    """Rule 2 of the wire: no code outside {0, 1, 2, 100-106}; an unknown ledger state is an I/O error."""
    channel = ClientChannel(is_v2=True)
    _, reply_to = arrived(channel.encode(request))
    answer = data.draw(answers_to(request, status, is_v2=True))
    frame = encode_answer(reply_to, answer)
    found, error = channel.feed(frame)
    assert error is None
    if isinstance(request, Authenticate):
        assert found[0][1].status is Status.OK
        return
    assert unpack_from(">i", frame, 8)[0] in ARRIVE_ON_V2
    expected = answer
    if status is Status.UNKNOWN_LEDGER_STATE or not status.is_of_a_wire:
        expected = answer_without(request, Status.IO_ERROR)
    assert found == [(request, expected)]
    assert not len(channel)


@given(V3_REQUESTS, STATUSES, st.data())
def test_an_answer_arrives_over_v3_with_its_message(request: Request, status: Status, data: st.DataObject) -> None:
    """Rule 5 of the wire: the message of the operation is always there, with the ids and the status."""
    channel = ClientChannel(is_v2=False)
    _, reply_to = arrived(channel.encode(request))
    answer = data.draw(answers_to(request, status))
    frame = encode_answer(reply_to, answer)
    response = v3_schema.RESPONSE_CLASS.FromString(frame[4:])
    field = v3_schema.RESPONSE_FIELD[response.header.operation]
    assert response.HasField(field)
    message = getattr(response, field)
    assert message.IsInitialized()
    assert response.header.version == 3
    if not isinstance(request, StartTls | Authenticate):
        assert message.status == response.status == v3_schema.CODE_OF[status]
        assert isinstance(request, GetBookieInfo) or message.ledgerId == request.ledger
    if hasattr(request, "entry"):
        assert message.entryId == getattr(answer, "entry")  # noqa: B009 (only two kinds of answers have it)
    expected = answer if status.is_of_a_wire else answer_without(request, Status.IO_ERROR)
    assert channel.feed(frame) == ([(request, expected)], None)
    assert not len(channel)


@given(st.lists(V2_REQUESTS, max_size=6, unique_by=str), st.data())
def test_answers_over_v2_come_in_any_order_and_in_any_pieces(requests: list[Request], data: st.DataObject) -> None:
    channel = ClientChannel(is_v2=True)
    sent = [request for request in requests if channel.can_send(request) and not isinstance(request, Authenticate)]
    stream = b"".join([channel.encode(request) for request in sent if channel.can_send(request)])
    bodies, _ = FrameCutter().feed(stream)
    found, error = decode_run(bodies)
    assert error is None
    answers = [
        (one.reply_to, answer_without(one.request, Status.NO_ENTRY)) for one in found if isinstance(one, ServerRequest)
    ]
    back = encode_answers(data.draw(st.permutations(answers)))
    cut = data.draw(st.integers(0, len(back)))
    first, error = channel.feed(back[:cut])
    second, late = channel.feed(back[cut:])
    assert error is late is None
    assert len(first) + len(second) == len(answers)
    assert not len(channel)
    for request, answer in first + second:
        assert answer == answer_without(request, Status.NO_ENTRY)


@pytest.mark.parametrize("is_v2", [True, False])
def test_start_tls_is_v3_on_every_channel(is_v2: bool) -> None:
    """And what follows on a v2 channel is v2: the one way in which a connection has both."""
    channel = ClientChannel(is_v2)
    frame = channel.encode(StartTls())
    assert frame[4] == 0x0A
    request, reply_to = arrived(frame)
    back = encode_answer(reply_to, answer_without(request, Status.BAD_REQUEST))
    assert channel.feed(back) == ([(StartTls(), answer_without(StartTls(), Status.BAD_REQUEST))], None)
