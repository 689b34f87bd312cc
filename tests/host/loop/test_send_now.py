"""What another thread sends on a quorum link, beside the turns: at once, in order, and never on another connection."""

import threading
from functools import partial

import pytest

from tests.host.loop.beside_turns import acks_arrive_beside_turns
from tests.host.loop.link_server import Server
from tests.host.loop.service import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.protocol.events import QuorumLinkDown
from zab.protocol.message import Ack, Commit, Proposal


@pytest.fixture
def server():
    with running(Server()) as server:
        yield server


def elsewhere(call, *arguments):
    """In another thread, to its end."""
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_message_arrives_without_a_turn(server):
    other, link = server.linked()
    elsewhere(server.links.send_now, link, Ack(1, 5))
    assert other.hear() == Ack(1, 5)
    assert not server.links.has_unsent
    assert not server.loop._woken


def test_message_takes_its_place_among_those_of_the_turn(server):
    other, link = server.linked()
    server.links.send((link,), Ack(1, 5))
    server.links.send((link,), Commit(5))
    elsewhere(server.links.send_now, link, Ack(1, 6))
    server.turns(0)
    elsewhere(server.links.send_now, link, Ack(1, 7))
    assert [other.hear() for _ in range(4)] == [Ack(1, 5), Ack(1, 6), Commit(5), Ack(1, 7)]


def test_what_the_socket_does_not_take_is_left_to_the_next_turn(server):
    other, link = server.linked()
    found = server.links._links[link]
    taken = []

    def send_little(data):
        taken.append(bytes(data[:7]))
        return len(taken[-1])

    send, found.send = found.send, send_little
    server.loop._woken = False
    elsewhere(server.links.send_now, link, Ack(1, 5))
    assert server.links.has_unsent
    assert server.loop._woken
    elsewhere(server.links.send_now, link, Ack(1, 6))
    assert len(taken) == 1, "the second one waits after the rest of the first"
    send(taken[0])
    found.send = send
    server.turns(0)
    assert [other.hear(), other.hear()] == [Ack(1, 5), Ack(1, 6)]
    assert not server.links.has_unsent


def test_message_behind_a_full_socket_arrives(server):
    other, link = server.linked()
    for _ in range(40):
        server.links.send((link,), Proposal([bytes(200_000)]))
    server.turns(0)
    assert server.links.unsent_bytes(link), "the socket took all: nothing is tested"
    elsewhere(server.links.send_now, link, Ack(1, 5))
    heard = []
    while Ack(1, 5) not in heard or len(heard) < 41:
        heard.append(other.hear())
        server.turn()
    assert heard.index(Ack(1, 5)) < 40


@pytest.mark.parametrize("end", ["closed", "lost", "unknown", "not up"])
def test_nothing_is_sent_on_a_link_that_is_none(server, end):
    other, link = (server.dialled_by(2), 1) if end == "not up" else server.linked()
    if end == "not up":
        other.begin()
        assert server.turns(0) == []
    elif end == "closed":
        server.links.close(link, "enough")
    elif end == "lost":
        server.links.break_off(link, "enough")
    elsewhere(server.links.send_now, 77 if end == "unknown" else link, Ack(1, 5))
    if end == "not up":
        other.prove()
        server.turns()
        server.links.send((link,), Commit(9))
        server.turns(0)
        assert other.hear() == Commit(9)
    elif end != "unknown":
        server.turns(0)
        other.socket.settimeout(PATIENCE_SECONDS)
        assert other.socket.recv(100) == b""


def test_error_of_the_socket_is_the_end_of_the_link(server):
    _, link = server.linked()

    found = server.links._links[link]
    send = found.send

    def fail_once(_data):
        found.send = send
        raise OSError(105, "No buffer space available")

    found.send = fail_once
    elsewhere(server.links.send_now, link, Ack(1, 5))
    assert server.links.has_unsent
    assert server.turns() == [QuorumLinkDown(link)]


def test_socket_is_not_closed_while_another_thread_sends_on_it(server):
    """Its descriptor would be that of the next connection, and what is sent would go there."""
    _, link = server.linked()
    found = server.links._links[link]
    is_sending, may_send = threading.Event(), threading.Event()
    descriptors = []

    def send_slowly(data):
        is_sending.set()
        assert may_send.wait(PATIENCE_SECONDS)
        descriptors.append(found.socket.fileno())
        return len(data)

    found.send = send_slowly
    sender = threading.Thread(target=server.links.send_now, args=(link, Ack(1, 5)))
    sender.start()
    assert is_sending.wait(PATIENCE_SECONDS)
    descriptor = found.socket.fileno()
    server.links.break_off(link, "enough")
    closer = threading.Thread(target=server.loop._close_discarded)
    closer.start()
    closer.join(0.2)
    assert closer.is_alive()
    may_send.set()
    for thread in (sender, closer):
        thread.join(PATIENCE_SECONDS)
    assert descriptors == [descriptor]
    assert found.socket.fileno() == -1


def test_two_threads_that_send_at_once_keep_the_order_of_each(server):
    """Each frame has its seal and its number: one out of place would end the link."""
    other, link = server.linked()
    acks_arrive_beside_turns(server, other, link, partial(server.links.send_now, link))
