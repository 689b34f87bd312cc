"""Quorum links on real sockets: greeting, frames, order, limits. One turn is one call of `turn`."""

import socket
import time

import pytest
import trio

from zab.events import DialFailed, MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.host import links as links_module
from zab.host.links import GREETING_MS, Links
from zab.host.listener import open_listener
from zab.host.loop import Loop
from zab.member.dialect import QUORUM_DIALECT, cut
from zab.member.snapshot_request import SnapshotRequest
from zab.message import (
    DATA_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    PROTOCOL_VERSION,
    WRITE_HEAD,
    Ack,
    Commit,
    Confirm,
    Confirmed,
    Hello,
    Ping,
    Proposal,
    Refused,
    Request,
    decode,
    encode,
)
from zab.server.greeting import Greeting
from zab.wire.frames import frame


def framed(message):
    return frame(encode(message))


class Server:
    """Server 1 with its quorum port, and sockets of others that dial it."""

    def __init__(self):
        self.loop = Loop()
        self.handed_over = []
        greeting = Greeting(1, [1, 2, 3], lambda *what: self.handed_over.append(what))
        self.links = Links(self.loop, QUORUM_DIALECT, greeting.hello(), greeting.greeted)
        listening = open_listener("127.0.0.1", 0)
        self.address = listening.getsockname()
        self.links.listen(listening)
        self.opened = []

    def turn(self):
        for key, mask in self.loop._selector.select(0):
            if key.data.interest:
                key.data.on_ready(mask)
        events = []
        self.links.receive(events)
        self.links.flush()
        self.links.accept(links_module.now_ms())
        self.loop._close_discarded()
        return events

    def turns(self, wanted=1):
        """Turns until this many events came; a few more show that no further one does."""
        events = []
        deadline = time.monotonic() + 60
        while len(events) < wanted and time.monotonic() < deadline:
            events += self.turn()
        for _ in range(3):
            time.sleep(0.001)
            events += self.turn()
        return events

    def dialled_by(self, sid, hello=True):
        """The other end of an inbound connection."""
        sock = socket.create_connection(self.address)
        sock.settimeout(60)
        self.opened.append(sock)
        if hello:
            sock.sendall(framed(Hello(PROTOCOL_VERSION, sid)))
        return sock

    def dials(self, sid):
        """The other end of a connection that we opened."""
        ours, theirs = socket_pair()
        theirs.settimeout(60)
        self.opened.append(theirs)
        self.links.adopt(ours, sid)
        return theirs

    def linked(self, sid=2):
        """An inbound link that is up: (the other end, its number)."""
        sock = self.dialled_by(sid)
        [up] = self.turns()
        assert isinstance(receive(sock), Hello)
        return sock, up.link


def socket_pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
    return one, other


def receive_exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        assert piece, "closed"
        data += piece
    return data


def receive(sock):
    return decode(receive_exactly(sock, int.from_bytes(receive_exactly(sock, 4), "big")))


@pytest.fixture
def server():
    server = Server()
    yield server
    for sock in server.opened:
        sock.close()

    async def close():
        server.loop.close()

    trio.run(close)


# ------------------------------------------------------------------------------------------------------------- greeting


def test_inbound_link_is_up_after_the_greeting_and_greets_back(server):
    sock = server.dialled_by(2)
    assert server.turns() == [QuorumLinkUp(1, 2, True)]
    assert receive(sock) == Hello(PROTOCOL_VERSION, 1)


def test_outbound_link_greets_first_and_is_up_after_the_answer(server):
    theirs = server.dials(3)
    assert server.turns(0) == []
    assert receive(theirs) == Hello(PROTOCOL_VERSION, 1)
    theirs.sendall(framed(Hello(PROTOCOL_VERSION, 3)))
    assert server.turns() == [QuorumLinkUp(1, 3, False)]


def test_link_numbers_are_never_used_again(server):
    numbers = []
    for _ in range(3):
        sock, link = server.linked()
        numbers.append(link)
        sock.close()
        server.turns()
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(
    "first",
    [
        Hello(PROTOCOL_VERSION + 1, 2),
        Hello(PROTOCOL_VERSION, 1),
        Hello(PROTOCOL_VERSION, 9),
        Commit(1),
    ],
    ids=["other version", "our own id", "not in the ensemble", "no greeting"],
)
def test_wrong_first_message_closes_an_inbound_connection_without_an_event(server, first):
    sock = server.dialled_by(2, hello=False)
    sock.sendall(framed(first))
    assert server.turns(0) == []
    assert sock.recv(1) == b""


def test_another_server_than_the_one_dialled_is_a_failed_dial(server):
    theirs = server.dials(3)
    server.turns(0)
    theirs.sendall(framed(Hello(PROTOCOL_VERSION, 2)))
    assert server.turns() == [DialFailed(3)]


def test_dialled_server_that_closes_before_its_greeting_is_a_failed_dial(server):
    server.dials(3).close()
    assert server.turns() == [DialFailed(3)]


def test_dial_that_failed_elsewhere_is_reported(server):
    server.links.dial_failed(3)
    assert not server.links.is_idle
    assert server.turns() == [DialFailed(3)]


def test_connection_that_does_not_greet_is_closed_in_time(server, monkeypatch):
    sock = server.dialled_by(2, hello=False)
    server.turns(0)
    deadline = server.links.next_deadline()
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline - 1)
    assert server.turns(0) == []
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline)
    assert server.turns(0) == []
    assert sock.recv(1) == b""
    assert server.links.next_deadline() is None
    assert GREETING_MS == 5_000


def test_strangers_are_limited(server, monkeypatch):
    monkeypatch.setattr(links_module, "STRANGERS_MAX", 3)
    known, _ = server.linked()
    strangers = [server.dialled_by(2, hello=False) for _ in range(4)]
    server.turns(0)
    strangers[0].settimeout(0.05)
    with pytest.raises(TimeoutError):
        strangers[0].recv(1)
    assert strangers[3].recv(1) == b""
    strangers[0].settimeout(60)
    strangers[0].sendall(framed(Hello(PROTOCOL_VERSION, 3)))
    assert [type(event) for event in server.turns()] == [QuorumLinkUp]
    known.close()


REQUEST = SnapshotRequest(1, 2, bytes(16), 77, bytes(range(16)), 5)
REQUEST_BYTES = b"\x87\x18\xc8\x01\x02\x50" + bytes(16) + b"\x18\x4d\x50" + bytes(range(16)) + b"\x05"


def test_request_for_a_snapshot_as_the_first_frame_hands_the_socket_over(server):
    sock = server.dialled_by(2, hello=False)
    sock.sendall(frame(REQUEST_BYTES))
    assert server.turns(0) == []
    [(handed, request)] = server.handed_over
    assert request == REQUEST
    assert handed.fileno() >= 0
    handed.close()
    assert server.links.next_deadline() is None


def test_request_for_a_snapshot_is_no_answer_to_a_dial(server):
    theirs = server.dials(3)
    server.turns(0)
    theirs.sendall(frame(REQUEST_BYTES))
    assert server.turns() == [DialFailed(3)]
    assert server.handed_over == []


def test_request_for_a_snapshot_is_no_message_of_a_link(server):
    sock, link = server.linked()
    sock.sendall(frame(REQUEST_BYTES))
    assert server.turns() == [QuorumLinkDown(link)]


def test_large_message_right_after_a_greeting_is_received(server):
    """The limit of a stranger's first frame is not that of what follows it."""
    sock = server.dialled_by(2, hello=False)
    message = Proposal([bytes(10_000)])
    sock.sendall(framed(Hello(PROTOCOL_VERSION, 2)) + framed(message) + framed(Commit(1)))
    assert server.turns(3) == [QuorumLinkUp(1, 2, True), MessageReceived(1, message), MessageReceived(1, Commit(1))]


def test_first_frame_above_the_limit_of_strangers_is_refused_by_its_length_alone(server):
    sock = server.dialled_by(2, hello=False)
    sock.sendall((4097).to_bytes(4, "big"))
    assert server.turns(0) == []
    assert sock.recv(1) == b""


# ------------------------------------------------------------------------------------------------------------ receiving


def test_messages_arrive_in_order_however_they_are_cut(server):
    sock, link = server.linked()
    messages = [Ack(1, 2), Commit(3), Request([[[], [WRITE_HEAD.pack(1, 2, 3) + b"body"]]]), Confirm(4)]
    stream = b"".join(map(framed, messages))
    events = []
    for index in range(len(stream)):
        sock.sendall(stream[index : index + 1])
        time.sleep(0.0002)
        events += server.turn()
    events += server.turns(len(messages) - len(events))
    assert events == [MessageReceived(link, message) for message in messages]


def test_all_links_are_read_in_one_turn_up_to_two_mebibytes_each(server):
    first, first_link = server.linked(2)
    second, second_link = server.linked(3)
    message = Proposal([bytes(100)])
    first.sendall(framed(message) * 2000)
    second.sendall(framed(Ack(1, 2)))
    time.sleep(0.05)
    events = server.turn()
    assert events.count(MessageReceived(first_link, message)) == 2000
    assert MessageReceived(second_link, Ack(1, 2)) in events


def test_messages_before_the_end_are_delivered_and_nothing_after_it(server):
    sock, link = server.linked()
    sock.sendall(framed(Ack(1, 2)) + framed(Ack(1, 3)))
    sock.close()
    assert server.turns(3) == [
        MessageReceived(link, Ack(1, 2)),
        MessageReceived(link, Ack(1, 3)),
        QuorumLinkDown(link),
    ]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\0\0\0\x01\xff",
        b"\0\0\0\x02\x81\x19",
    ],
    ids=["no length", "negative length", "too long", "no CBOR", "cut CBOR"],
)
def test_bytes_that_are_no_message_break_that_link_and_no_other(server, garbage):
    good, good_link = server.linked(3)
    bad, bad_link = server.linked(2)
    bad.sendall(framed(Ack(1, 1)) + garbage)
    good.sendall(framed(Ack(1, 2)))
    events = server.turns(3)
    assert sorted(events, key=repr) == sorted(
        [MessageReceived(bad_link, Ack(1, 1)), QuorumLinkDown(bad_link), MessageReceived(good_link, Ack(1, 2))],
        key=repr,
    )
    assert bad.recv(1000) == b""


# -------------------------------------------------------------------------------------------------------------- sending


def test_one_message_goes_to_several_links_and_gone_ones_are_skipped(server):
    first, first_link = server.linked(2)
    second, second_link = server.linked(3)
    server.links.send((first_link, 99, second_link), Commit(7))
    server.turns(0)
    assert receive(first) == Commit(7)
    assert receive(second) == Commit(7)


def test_everything_of_a_turn_is_one_send(server, monkeypatch):
    _sock, link = server.linked()
    for zxid in range(10):
        server.links.send((link,), Commit(zxid))
    found = server.links._links[link]
    sizes = []

    class Counting:
        def send(self, data):
            sizes.append(len(data))
            return len(data)

    monkeypatch.setattr(found, "socket", Counting())
    server.links.flush()
    assert sizes == [len(framed(Commit(0))) * 10]


def test_acknowledgements_pings_and_confirmations_overtake_data_and_keep_their_order(server):
    """H2: behind 100 KB of forwarded requests an acknowledgement would come too late."""
    sock, link = server.linked()
    ping = Ping(1, 1, 1, [])
    sent = [Request([[[], [bytes(100_000)]]]), Ack(1, 5), ping, Commit(5), Confirm(1), Confirmed(1), Ack(1, 6)]
    for message in sent:
        server.links.send((link,), message)
    server.turns(0)
    arrived = [receive(sock) for _ in sent]
    assert arrived == [Ack(1, 5), ping, Confirm(1), Confirmed(1), Ack(1, 6), sent[0], Commit(5)]


def test_urgent_message_waits_for_no_more_than_what_is_joined_already(server):
    sock, link = server.linked()
    for _ in range(64):
        server.links.send((link,), Proposal([bytes(DATA_FRAME_BYTES_MAX - 100)]))
    server.turns(0)
    assert server.links.unsent_bytes(link) > 1 << 20, "the socket took all: nothing is tested"
    server.links.send((link,), Ack(1, 1))
    before = 0
    while not isinstance(receive(sock), Ack):
        before += 1
        server.turn()
    assert before < 60


def test_large_proposals_are_cut_between_batches():
    batches = [bytes([number]) * 100_000 for number in range(6)]
    pieces = cut(Proposal(batches))
    assert [batch for piece in pieces for batch in piece.batches] == batches
    assert [len(piece.batches) for piece in pieces] == [2, 2, 2]
    assert cut(Proposal([bytes(DATA_FRAME_BYTES_MAX + 1)])) == [Proposal([bytes(DATA_FRAME_BYTES_MAX + 1)])]


def test_write_interest_only_while_something_is_unsent(server):
    sock, link = server.linked()
    found = server.links._links[link]
    assert found.interest == links_module.READ
    for _ in range(40):
        server.links.send((link,), Proposal([bytes(200_000)]))
    server.turns(0)
    assert found.interest == links_module.READ | links_module.WRITE
    received = 0
    while received < 40:
        receive(sock)
        received += 1
        server.turn()
    server.turns(0)
    assert found.interest == links_module.READ
    assert server.links.unsent_bytes(link) == 0


def test_link_whose_other_side_does_not_read_is_broken_at_the_limit(server, monkeypatch):
    monkeypatch.setattr(links_module, "UNSENT_BYTES_MAX", 1 << 20)
    _sock, link = server.linked()
    for _ in range(100):
        server.links.send((link,), Proposal([bytes(200_000)]))
    assert server.turns() == [QuorumLinkDown(link)]
    server.links.send((link,), Commit(1))
    assert server.turns(0) == []


def test_send_on_a_reset_link_is_reported_once(server):
    sock, link = server.linked()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
    server.links.send((link,), Commit(1))
    server.links.flush()
    events = server.turns()
    assert events == [QuorumLinkDown(link)]


# -------------------------------------------------------------------------------------------------------------- closing


def test_closing_link_sends_what_was_queued_and_reports_nothing(server):
    sock, link = server.linked()
    server.links.send((link,), Refused("not leading"))
    server.links.close(link, "not leading")
    server.links.send((link,), Commit(1))
    sock.sendall(framed(Ack(1, 1)))
    assert server.turns(0) == []
    assert receive(sock) == Refused("not leading")
    assert sock.recv(1) == b""
    sock.close()
    assert server.turns(0) == []
    assert link not in server.links._links


def test_last_words_survive_unread_bytes_of_the_other_side(server):
    """A close with unread bytes resets the connection, and the reset overtakes what was sent."""
    sock, link = server.linked()
    server.links.send((link,), Refused("replaced"))
    server.links.close(link, "replaced")
    server.links.flush()
    sock.sendall(framed(Ack(1, 1)) * 100)
    server.turns(0)
    assert receive(sock) == Refused("replaced")


def test_closing_link_that_cannot_send_is_closed_in_time(server, monkeypatch):
    _sock, link = server.linked()
    for _ in range(100):
        server.links.send((link,), Proposal([bytes(200_000)]))
    server.links.close(link, "not leading")
    server.turns(0)
    assert link in server.links._links
    deadline = server.links.next_deadline()
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline)
    assert server.turns(0) == []
    assert link not in server.links._links
