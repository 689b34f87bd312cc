"""One connection without a socket: xids, pings, silence, and every way in which a server can be wrong."""

import pytest

from datatree.opcodes import OpCode
from datatree.requests import PathOnly
from tests.client.connection_frames import PASSWORD, STAT, frames, fresh, get, greeting, opened, welcome
from zab.client.core.connection import XID_MAX, Phase
from zab.client.core.exceptions import LongReplyError, PeerProtocolError
from zab.client.core.requests import Answered, ClientRequest, Event, Expired, Notified, Opened
from zab.jute.handshake import ConnectResponse
from zab.jute.replies import data_reply, notification, reply
from zab.wire.frames import frame


def test_the_greeting_is_the_first_thing_sent() -> None:
    connection = fresh()
    assert connection.take(0) == frame(greeting().encode())
    assert connection.take(0) == b""


def test_the_servers_answer_opens_the_connection() -> None:
    connection = fresh()
    assert list(connection.receive(welcome(), 0)) == [Opened(0x77, PASSWORD, 9000, False)]
    assert connection.phase is Phase.OPEN


def test_a_server_before_3_4_answers_without_the_read_only_byte() -> None:
    response = ConnectResponse(9000, 0x77, PASSWORD, has_read_only=False)
    assert list(fresh().receive(frame(response.encode()), 0)) == [Opened(0x77, PASSWORD, 9000, False)]


def test_a_timeout_of_zero_says_that_the_session_is_over() -> None:
    connection = fresh()
    assert list(connection.receive(frame(ConnectResponse.invalid().encode()), 0)) == [Expired()]
    assert connection.phase is Phase.GREETING


def test_requests_count_from_one_and_are_answered_in_order() -> None:
    connection = opened()
    first, second = get(b"/a"), get(b"/b")
    connection.send(first)
    connection.send(second)
    assert frames(connection.take(0)) == [
        (1, OpCode.GET_DATA, first.body),
        (2, OpCode.GET_DATA, second.body),
    ]
    assert connection.in_flight_count == 2
    answers = data_reply(1, 10, b"x", STAT) + reply(2, 11, -101)
    assert list(connection.receive(answers, 0)) == [
        Answered(first, 0, 10, (b"x", STAT)),
        Answered(second, -101, 11, None),
    ]
    assert connection.in_flight_count == 0


def test_xids_wrap_to_one() -> None:
    connection = opened()
    connection._next_xid = XID_MAX
    connection.send(get())
    connection.send(get())
    assert [xid for xid, _, _ in frames(connection.take(0))] == [XID_MAX, 1]


def test_answers_mean_the_same_byte_by_byte() -> None:
    stream = welcome() + data_reply(1, 10, b"x", STAT) + notification(3, b"/a", 12) + reply(2, 13, -101)

    def run(pieces: list[bytes]) -> list[Event]:
        connection = fresh()
        events: list[Event] = []
        for piece in pieces:
            for event in connection.receive(piece, 0):
                events.append(event)
                if isinstance(event, Opened):
                    connection.send(requests[0])
                    connection.send(requests[1])
        return events

    requests = [get(), get()]
    whole = run([stream])
    assert [type(event) for event in whole] == [Opened, Answered, Notified, Answered]
    assert run([stream[at : at + 1] for at in range(len(stream))]) == whole


def test_auth_and_watches_have_xids_of_their_own_and_do_not_disturb_the_order() -> None:
    connection = opened()
    auth: ClientRequest[None] = ClientRequest(OpCode.AUTH, b"", lambda _payload, _offset: None)
    connection.send_auth(auth)
    connection.restore_watches(OpCode.SET_WATCHES, b"watches")
    connection.send(get())
    assert [(xid, opcode) for xid, opcode, _ in frames(connection.take(0))] == [
        (-4, OpCode.AUTH),
        (-8, OpCode.SET_WATCHES),
        (1, OpCode.GET_DATA),
    ]
    events = list(connection.receive(reply(-8, 5) + data_reply(1, 6, None, STAT) + reply(-4, 0), 0))
    assert [event.request.opcode for event in events if isinstance(event, Answered)] == [OpCode.GET_DATA, OpCode.AUTH]


BROKEN = {
    "a length that cannot be": (b"\xff\xff\xff\x00", "frame length"),
    "a length above the limit": ((10_001).to_bytes(4, "big"), "announced an answer of 10,001 bytes"),
    "a reply without a header": (frame(b"abc"), "garbage"),
    "an answer to nothing": (reply(9, 1) + reply(9, 1), "xid 9"),
    "an answer to a later request": (reply(2, 1), "xid 2 instead of 1"),
    "an unknown negative xid": (reply(-7, 1), "xid -7"),
    "an auth answer to nothing": (reply(-4, 0), "xid -4"),
    "a watches answer to nothing": (reply(-8, 0), "xid -8"),
    "a body that is too short": (reply(1, 1, 0, b"\x00"), "garbage"),
    "an event of unknown type": (notification(9, b"/a", 1), "unknown type 9"),
    "an event without a path": (frame(reply(-1, 1)[4:] + b"\0\0\0\1\0\0\0\3\xff\xff\xff\xff"), "without a path"),
}


@pytest.mark.parametrize(("sent", "complaint"), BROKEN.values(), ids=BROKEN)
def test_a_server_that_breaks_the_protocol_is_found_out(sent: bytes, complaint: str) -> None:
    connection = opened()
    request = get()
    connection.send(request)
    with pytest.raises(PeerProtocolError, match=complaint):
        list(connection.receive(sent, 0))
    assert connection.end() == [request]


def test_an_answer_that_is_too_long_is_told_from_garbage() -> None:
    connection = opened()
    first, second = get(), get()
    connection.send(first)
    connection.send(second)
    list(connection.receive(data_reply(1, 10, b"x", STAT), 0))
    assert connection.oldest is second
    with pytest.raises(LongReplyError, match="announced an answer of 1,073,741,824 bytes, and reply_bytes_max is"):
        list(connection.receive(b"\x40\0\0\0", 0))


def test_events_before_the_garbage_are_not_lost() -> None:
    connection = opened()
    connection.send(get())
    events = connection.receive(data_reply(1, 10, b"x", STAT) + b"\xff\xff\xff\x00", 0)
    assert isinstance(next(events), Answered)
    with pytest.raises(PeerProtocolError):
        next(events)
    assert connection.end() == []


def test_a_refused_restoration_of_watches_ends_the_connection() -> None:
    connection = opened()
    connection.restore_watches(OpCode.SET_WATCHES2, b"")
    with pytest.raises(PeerProtocolError, match="restore watches"):
        list(connection.receive(reply(-8, 1, -6), 0))


def test_the_end_returns_what_has_no_answer_in_order() -> None:
    connection = opened()
    requests = [get() for _ in range(3)]
    for request in requests:
        connection.send(request)
    list(connection.receive(data_reply(1, 1, b"", STAT), 0))
    assert connection.end() == requests[1:]
    assert connection.phase is Phase.ENDED
    assert connection.unsent_bytes == 0


def test_unsent_bytes_are_counted_until_they_are_taken() -> None:
    connection = opened()
    request = get()
    connection.send(request)
    assert connection.unsent_bytes == 12 + len(request.body)
    assert len(connection.take(0)) == 12 + len(request.body)
    assert connection.unsent_bytes == 0


# The session timeout is 9000 ms here, so the read timeout 6000 and a ping is due after 3000.


def test_an_idle_connection_pings_at_half_of_the_read_timeout() -> None:
    connection = opened(now=100)
    assert connection.next_deadline == 3100
    connection.poll(3099)
    assert connection.take(3099) == b""
    connection.poll(3100)
    assert frames(connection.take(3100)) == [(-2, OpCode.PING, b"")]
    assert list(connection.receive(reply(-2, 4), 3101)) == []
    assert connection.next_deadline == 6100


def test_long_sessions_ping_every_ten_seconds() -> None:
    connection = fresh()
    connection.take(0)
    list(connection.receive(welcome(90_000), 0))
    assert connection.next_deadline == 10_000


def test_a_busy_connection_does_not_ping() -> None:
    connection = opened()
    connection.send(ClientRequest(OpCode.SYNC, PathOnly(b"/").encode(), lambda _payload, _offset: None))
    connection.take(2000)
    connection.poll(3500)
    assert connection.take(3500) == b""


def test_silence_for_the_read_timeout_ends_the_connection() -> None:
    connection = opened()
    connection.poll(3000)
    connection.take(3000)
    assert connection.next_deadline == 6000
    connection.poll(5999)
    with pytest.raises(PeerProtocolError, match="silent for 6000 ms"):
        connection.poll(6000)


def test_a_server_that_does_not_answer_the_greeting_is_given_up() -> None:
    connection = fresh()
    assert connection.next_deadline == 1000
    with pytest.raises(PeerProtocolError, match="silent for 1000 ms"):
        connection.poll(1000)


def test_a_server_is_proven_to_know_of_the_client_at_the_time_of_what_it_answered() -> None:
    connection = fresh(10)
    connection.take(10)
    assert connection.proven_at is None
    list(connection.receive(welcome(), 300))
    assert connection.proven_at == 10, "when it was greeted, not when it answered"
    connection.send(get())
    connection.take(400)
    connection.send(get())
    connection.take(500)
    list(connection.receive(data_reply(1, 5, b"", STAT), 600))
    assert connection.proven_at == 400
    list(connection.receive(data_reply(2, 5, b"", STAT), 700))
    assert connection.proven_at == 400, "one question at a time proves it"


def test_the_answer_of_a_ping_proves_it_for_the_oldest_ping() -> None:
    connection = opened()
    for now in (3000, 5999):
        connection.poll(now)
        connection.take(now)
    list(connection.receive(notification(1, b"/a", 5), 5999))
    connection.poll(8999)
    assert connection.proven_at == 0
    list(connection.receive(reply(-2, 1), 9000))
    assert connection.proven_at == 3000
    list(connection.receive(reply(-2, 1), 9001))
    assert connection.proven_at == 3000, "whose answer this is cannot be told"
