"""Client sockets on the loopback interface; the test plays the service. One turn is one call of `turn`."""

import contextlib
import errno
import socket
import time

import pytest

from tests.host.loop.before_a_turn import next_timer, tell_what_is_ready
from tests.host.loop.service import (
    AT_ONCE,
    FAR_NS,
    WHEN_SENT,
    Server,
    count_in,
    give,
    readable,
    receive_exactly,
    running,
    waits,
)
from zab.host.loop import listener as listener_module
from zab.host.loop import sockets as module
from zab.host.loop.listener import PAUSE_MS
from zab.host.loop.poller import READ, WRITE
from zab.host.loop.sockets import BUDGET_BYTES_MAX, BUDGET_BYTES_MIN, CLOSING_MS, RECEIVE_BYTES
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected


@pytest.fixture
def server():
    with running(Server()) as server:
        yield server


# ------------------------------------------------------------------------------------------------------------ receiving


def test_ends_are_noticed_while_nobody_is_read_from(server):
    """A few ended connections with nothing to read are noticed in a turn; the others keep their input."""
    clients = [server.client() for _ in range(4)]
    clients[0][0].sendall(b"last words")
    for sock, _ in (clients[0], clients[1], clients[2]):
        sock.close()
    clients[3][0].sendall(b"here")
    found = []
    while count_in(server.clients.short) < 4:
        tell_what_is_ready(server.loop)
    for _ in range(3):
        server.clients.notice_ends(found)
    assert found == [ClientClosed(connection) for _, connection in clients[1:3]]
    assert server.clients.count == 2
    left = server.until(3)
    for event in (
        ClientBytes(clients[0][1], b"last words"),
        ClientClosed(clients[0][1]),
        ClientBytes(clients[3][1], b"here"),
    ):
        assert event in left


def test_so_many_are_looked_at_for_their_end_in_a_turn_and_the_others_next(server, monkeypatch):
    monkeypatch.setattr(module, "ENDS_MAX", 3)
    clients = [server.client() for _ in range(8)]
    for sock, _ in clients[:3]:
        sock.sendall(b"stays")
    for sock, _ in clients[3:]:
        sock.close()
    while count_in(server.clients.short) < 8:
        tell_what_is_ready(server.loop)
    found = []
    counts = []
    for _ in range(4):
        server.clients.notice_ends(found)
        counts.append(len(found))
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) <= 3
    assert {event.connection for event in found} == {connection for _, connection in clients[3:]}


def test_newcomer_is_announced_with_its_numeric_address(server):
    sock, connection = server.client()
    assert (connection.host, connection.port) == sock.getsockname()


def test_bytes_arrive_in_order_with_their_connection(server):
    sock, connection = server.client()
    sock.sendall(b"abc")
    assert server.until(1) == [ClientBytes(connection, b"abc")]
    sock.sendall(b"def")
    assert server.until(1) == [ClientBytes(connection, b"def")]


def test_end_of_a_client_is_told_once_and_its_socket_closes(server):
    sock, connection = server.client()
    found = server.socket_of(connection)
    sock.close()
    assert server.until(1) == [ClientClosed(connection)]
    assert found.socket.fileno() == -1
    assert server.turn() == []
    assert server.clients.count == 0


def test_a_connection_that_is_broken_off_has_ended_for_both(server):
    sock, connection = server.client()
    server.clients.break_off(connection)
    assert server.until(1) == [ClientClosed(connection)]
    assert sock.recv(1) == b""
    server.clients.break_off(connection)
    assert server.turn() == []


def test_reset_of_a_client_is_its_end(server):
    sock, connection = server.client()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
    assert server.until(1) == [ClientClosed(connection)]


def test_one_receive_takes_at_most_64_kib(server):
    sock, _ = server.client()
    sock.setblocking(False)
    sent = 0
    while sent < 200_000:
        sent += sock.send(bytes(200_000 - sent))
        for given in server.turn():
            assert len(given.data) <= RECEIVE_BYTES
            sent_all = given
    assert sent_all


def until(is_so, turn):
    for _ in range(20_000):
        if is_so():
            return
        turn()
    raise AssertionError("it never is")


def ready(server, *connections):
    """All of them have something to be read."""
    found = [server.socket_of(each) for each in connections]
    until(lambda: all(waits(each) for each in found), lambda: tell_what_is_ready(server.loop))


@pytest.mark.parametrize("size", [100, RECEIVE_BYTES], ids=["little", "much"])
def test_budget_is_shared_round_robin(server, size):
    """A connection that was not served in this turn is first in the next one, however much the others have."""
    clients = [server.client() for _ in range(4)]
    server.clients._budget_bytes = size
    for sock, connection in clients:
        sock.sendall(bytes(size))
        ready(server, connection)
    served = []
    for _ in range(4):
        first, *_ = server.turn()
        served.append(first.connection)
        # Anyone who was served has more at once.
        [sock] = [sock for sock, connection in clients if connection is first.connection]
        sock.sendall(b"more")
        ready(server, first.connection)
    assert set(served) == {connection for _, connection in clients}
    assert server.clients.has_news


def test_client_of_another_address_does_not_wait_for_a_crowd(server):
    """One is read from after one of the crowd, though all of these were there before it."""
    crowd = [server.client(source="127.0.0.2") for _ in range(20)]
    sock, connection = server.client(source="127.0.0.3")
    server.clients._budget_bytes = 2
    for each, its_connection in crowd:
        each.sendall(b"x")
        ready(server, its_connection)
    sock.sendall(b"y")
    ready(server, connection)
    assert ClientBytes(connection, b"y") in server.turn()
    assert len(server.until(19)) == 19, "the crowd goes on"


def stands_in_the_long_line(server, connection):
    return server.socket_of(connection).line is server.clients.long


def in_the_long_line(server, count):
    """Clients who gave all that was asked of them, and have more to say."""
    found = []
    for sock, connection in [server.client() for _ in range(count)]:
        sock.setblocking(False)

        def say(sock=sock):
            with contextlib.suppress(BlockingIOError):
                while True:
                    sock.send(bytes(1 << 20))

        until(lambda it=connection: stands_in_the_long_line(server, it), lambda say=say: (say(), server.turn()))
        say()
        found.append(connection)
    ready(server, *found)
    return found


def test_who_has_little_to_say_does_not_wait_for_those_with_much(server):
    """Forty clients with megabytes under way were read from first, 64 KiB each and one or two in a turn."""
    server.clients._budget_bytes = RECEIVE_BYTES
    sock, connection = server.client()
    in_the_long_line(server, 8)
    sock.sendall(b"little")
    ready(server, connection)
    assert server.turn()[0] == ClientBytes(connection, b"little")


def test_who_has_much_to_say_goes_on_beside_any_number_with_little(server):
    small = [server.client() for _ in range(8)]
    many = in_the_long_line(server, 2)
    server.clients._budget_bytes = 4
    for sock, _ in small:
        sock.sendall(b"little")
    ready(server, *[connection for _, connection in small])
    served = [given.connection for _ in range(2) for given in server.turn()]
    assert set(many) <= set(served)
    assert len(served) == 4


def test_whoever_gives_less_is_back_in_the_short_line(server):
    server.clients._budget_bytes = RECEIVE_BYTES
    sock, connection = server.client()
    sock.sendall(bytes(RECEIVE_BYTES))
    until(lambda: stands_in_the_long_line(server, connection), server.turn)
    sock.sendall(b"little")
    until(lambda: not stands_in_the_long_line(server, connection), server.turn)


def test_turn_that_is_late_already_takes_in_one_connection_only(server):
    clients = [server.client() for _ in range(3)]
    for sock, _ in clients:
        sock.sendall(b"x")
    time.sleep(0.02)
    assert len(server.turn(until_ns=0)) == 1
    assert len(server.turn(until_ns=FAR_NS)) == 2


def test_budget_follows_how_long_turns_take(server):
    clients = server.clients
    assert clients._budget_bytes == BUDGET_BYTES_MIN
    clients.adapt_budget(1_000_000)
    assert clients._budget_bytes == BUDGET_BYTES_MIN, "a short turn that left nothing says nothing"
    clients._was_short = True
    for _ in range(50):
        clients.adapt_budget(1_000_000)
    assert clients._budget_bytes == BUDGET_BYTES_MAX
    clients.adapt_budget(5_000_000)
    assert clients._budget_bytes < BUDGET_BYTES_MAX
    for _ in range(50):
        clients.adapt_budget(50_000_000)
    assert clients._budget_bytes == BUDGET_BYTES_MIN


def test_paused_connection_leaves_the_poller_once_there_is_something_to_read_and_comes_back(server):
    sock, connection = server.client()
    connection.paused = True
    server.turn(dirty=[connection])
    sock.sendall(b"waits")
    readable(server.socket_of(connection).socket)
    assert server.turn() == []
    assert server.socket_of(connection).interest == 0
    assert not server.clients.has_news
    connection.paused = False
    server.turn(dirty=[connection])
    assert server.until(1) == [ClientBytes(connection, b"waits")]


def test_pause_that_ends_before_anything_comes_is_none_for_the_poller(server, monkeypatch):
    sock, connection = server.client()
    changes = []
    monkeypatch.setattr(server.loop, "watch", lambda *change: changes.append(change))
    for paused in (True, False):
        connection.paused = paused
        server.turn(dirty=[connection])
    assert changes == []
    sock.sendall(b"goes on")
    assert server.until(1) == [ClientBytes(connection, b"goes on")]


def one_to_read_and_one_that_knocks(server):
    """The connection that is known, after both have sent."""
    sock, connection = server.client()
    sock.sendall(b"first")
    new = socket.create_connection(server.address)
    server.opened.append(new)
    new.sendall(b"second")
    [listener] = server.clients._listeners
    readable(listener.socket)
    readable(server.socket_of(connection).socket)
    return connection


def test_new_connection_is_read_from_in_the_turn_that_accepts_it_after_all_others(server):
    connection = one_to_read_and_one_that_knocks(server)
    first, connected, second = server.turn()
    assert first == ClientBytes(connection, b"first")
    assert isinstance(connected, ClientConnected)
    assert second == ClientBytes(connected.connection, b"second")


def test_turn_without_room_reads_from_no_new_connection(server):
    connection = one_to_read_and_one_that_knocks(server)
    assert server.turn(until_ns=0) == [ClientBytes(connection, b"first")]
    connected, second = server.turn()
    assert isinstance(connected, ClientConnected)
    assert second == ClientBytes(connected.connection, b"second")


def test_connection_paused_in_the_turn_it_became_readable_in_is_not_read(server):
    sock, connection = server.client()
    other, other_connection = server.client()
    server.clients._budget_bytes = 1
    sock.sendall(b"1")
    other.sendall(b"2")
    time.sleep(0.02)
    [first] = server.turn()
    left = other_connection if first.connection is connection else connection
    left.paused = True
    server.turn(dirty=[left])
    assert server.turn() == []
    assert not server.clients.has_news


# -------------------------------------------------------------------------------------------------------------- sending


def test_output_of_a_turn_is_one_send(server, monkeypatch):
    _, connection = server.client()
    sizes = []

    def send(data):
        sizes.append(len(data))
        return len(data)

    monkeypatch.setattr(server.socket_of(connection), "send", send)
    give(connection, *[b"reply"] * 100)
    server.clients.flush([connection], server.now)
    assert sizes == [500]
    assert (connection.out, connection.out_bytes, connection.unsent_bytes) == ([], 0, 0)


def test_write_interest_only_while_something_is_unsent(server):
    sock, connection = server.client(receive_buffer_bytes=4096)
    payload = bytes(range(256)) * 40_000
    give(connection, payload)
    server.turn(dirty=[connection])
    found = server.socket_of(connection)
    assert found.interest == READ | WRITE
    assert 0 < connection.unsent_bytes < len(payload)
    received = bytearray()
    while len(received) < len(payload):
        received += sock.recv(1 << 16)
        server.turn()
    assert bytes(received) == payload
    server.turn()
    assert connection.unsent_bytes == 0
    assert found.interest == READ


def test_output_behind_unsent_output_keeps_its_order(server):
    sock, connection = server.client(receive_buffer_bytes=4096)
    pieces = [bytes([number]) * 300_000 for number in range(20)]
    for piece in pieces:
        give(connection, piece)
        server.turn(dirty=[connection])
    received = bytearray()
    while len(received) < 6_000_000:
        received += sock.recv(1 << 16)
        server.turn()
    assert bytes(received) == b"".join(pieces)


def test_unsent_output_of_a_client_that_never_reads_is_told_to_the_service(server):
    """What it does about it (pause, then close) is bounded by that number."""
    _, connection = server.client(receive_buffer_bytes=4096)
    total = 0
    for _ in range(40):
        give(connection, bytes(200_000))
        total += 200_000
        server.turn(dirty=[connection])
    assert connection.unsent_bytes > total - 6_000_000
    connection.paused = True
    server.turn(dirty=[connection])
    assert server.socket_of(connection).interest & WRITE
    connection.closing = AT_ONCE
    server.turn(dirty=[connection])
    assert server.clients.count == 0


def test_broken_client_found_while_sending_is_its_end(server):
    sock, connection = server.client()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
    time.sleep(0.01)
    give(connection, b"reply")
    server.clients.flush([connection], server.now)
    assert server.clients.has_news
    assert server.until(1) == [ClientClosed(connection)]


# -------------------------------------------------------------------------------------------------------------- closing


def test_closing_once_sent_gives_the_client_everything_even_if_it_wrote_more(server):
    """A close with unread bytes resets the connection, and the reset overtakes the last answers."""
    sock, connection = server.client()
    sock.sendall(b"never read" * 1000)
    give(connection, b"last words")
    connection.closing = WHEN_SENT
    server.clients.flush([connection], server.now)
    server.turn()
    assert receive_exactly(sock, 10) == b"last words"
    assert sock.recv(1) == b""
    sock.close()
    deadline = time.monotonic() + 60
    while server.clients.count:
        assert time.monotonic() < deadline
        assert server.turn() == []


def test_closing_once_sent_does_not_wait_for_ever(server):
    _, connection = server.client(receive_buffer_bytes=4096)
    give(connection, bytes(10_000_000))
    connection.closing = WHEN_SENT
    server.turn(dirty=[connection])
    assert next_timer(server.loop) == server.now + CLOSING_MS
    server.now += CLOSING_MS - 1
    server.turn()
    assert server.clients.count == 1
    server.now += 1
    server.turn()
    assert server.clients.count == 0
    assert next_timer(server.loop) is None


def test_each_that_does_not_close_is_closed_at_its_time(server):
    for _ in range(3):
        _, connection = server.client()
        connection.closing = WHEN_SENT
        server.turn(dirty=[connection])
        server.now += 100
    counts = []
    for _ in range(3):
        server.now = next_timer(server.loop)
        server.turn()
        counts.append(server.clients.count)
    assert counts == [2, 1, 0]
    assert next_timer(server.loop) is None


def test_closing_at_once_drops_output(server):
    sock, connection = server.client()
    give(connection, b"never")
    connection.closing = AT_ONCE
    server.turn(dirty=[connection])
    assert sock.recv(10) == b""
    assert server.clients.count == 0


def test_flush_of_a_connection_that_is_gone_does_nothing(server):
    sock, connection = server.client()
    sock.close()
    server.until(1)
    give(connection, b"late")
    server.turn(dirty=[connection])
    assert server.clients.count == 0


def test_accept_that_is_paused_has_a_deadline_and_resumes(server, monkeypatch):
    [listener] = server.clients._listeners
    monkeypatch.setattr(listener_module, "now_ms", lambda: 5000 - PAUSE_MS)
    listener._pause(OSError(errno.EMFILE, "out of descriptors"))
    assert next_timer(server.loop) == 5000
    server.now = 4999
    server.turn()
    assert listener.interest == 0
    server.now = 5000
    server.turn()
    assert listener.interest == READ
    assert next_timer(server.loop) is None
    assert module.TURN_MS == 4


@pytest.mark.parametrize("how", [AT_ONCE, WHEN_SENT])
def test_connections_that_end_at_once_are_closed_a_few_in_a_turn(server, monkeypatch, how):
    monkeypatch.setattr(module, "CLOSED_MAX", 3)
    clients = [server.client() for _ in range(10)]
    for _, connection in clients:
        connection.closing = how
    counts = [10]
    dirty = [connection for _, connection in clients]
    while server.clients.has_unsent or dirty:
        server.turn(dirty)
        dirty = []
        counts.append(
            sum(bool(server.clients._closing.get(client) is None) for client in server.clients._sockets.values())
        )
    assert counts == [10, 7, 4, 1, 0]
    if how == WHEN_SENT:
        server.now += CLOSING_MS
        left = []
        while server.clients.count:
            server.turn()
            left.append(server.clients.count)
            server.now += 1
        assert left == [7, 4, 1, 0]


def test_what_is_left_to_be_closed_begins_the_next_turn(server, monkeypatch):
    monkeypatch.setattr(module, "CLOSED_MAX", 1)
    clients = [server.client() for _ in range(2)]
    for _, connection in clients:
        connection.closing = AT_ONCE
    server.turn([connection for _, connection in clients])
    assert server.clients.has_news
    server.turn()
    assert server.clients.count == 0
    assert not server.clients.has_news
