"""Clients over TLS on the loopback interface; the test plays the service, as in `test_sockets`."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time

import pytest

from tests.host.loop.before_a_turn import next_timer, tell_what_is_ready
from tests.host.loop.service import (
    FAR_NS,
    WHEN_SENT,
    Server,
    count_in,
    give,
    receive_exactly,
    running,
)
from tests.host.tls.holders import certificates, holder, member
from tests.rigs.certificates import client_context, server_context
from tests.rigs.key_updates import Sealer, client_secret
from zab.host.loop import handshakes as module
from zab.host.loop.handshakes import HANDSHAKE_MS
from zab.host.loop.sockets import TlsSocket
from zab.host.tls.engine import NO_TLS
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_socket import SEAL_BYTES_MAX
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected

__all__ = ["certificates", "holder", "member"]

MIB = 1 << 20


@pytest.fixture
def policy(member) -> TlsPolicy:
    return TlsPolicy(server_context(member))


@pytest.fixture
def server(policy):
    with running(Server(policy)) as server:
        yield server


@pytest.fixture
def both(member):
    """A port for both kinds."""
    with running(Server(TlsPolicy(server_context(member), takes_plain=True))) as server:
        yield server


@pytest.fixture
def said(caplog, monkeypatch):
    """What the journal says, all of it."""
    monkeypatch.setattr(logging.getLogger("zab"), "propagate", True)
    monkeypatch.setattr(module.of_strangers._repeats, "_sentences", {})
    return caplog


def dial(server: Server) -> socket.socket:
    sock = socket.create_connection(server.address, timeout=60)
    server.opened.append(sock)
    return sock


def until(server: Server, what) -> list:
    inputs: list = []
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, inputs
        inputs += server.turn()
    return inputs


def secured(server: Server, context: ssl.SSLContext):
    """(the client's end, its connection). The client's side of the handshake is taken by turns with the server's."""
    return shaken(server, dial(server), context)


def shaken(server: Server, sock: socket.socket, context: ssl.SSLContext):
    """As `secured`, on a connection that is open."""
    sock.setblocking(False)
    tls = context.wrap_socket(
        sock, server_hostname="localhost", do_handshake_on_connect=False, suppress_ragged_eofs=False
    )
    server.opened.append(tls)
    deadline = time.monotonic() + 60
    inputs: list = []
    is_done = False
    while not (is_done and inputs):
        assert time.monotonic() < deadline
        if not is_done:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                is_done = True
        inputs += server.turn()
    [connected] = inputs
    assert isinstance(connected, ClientConnected)
    tls.setblocking(True)
    tls.settimeout(60)
    return tls, connected.connection


def test_service_hears_of_a_client_when_its_handshake_is_done(server, holder):
    sock = dial(server)
    until(server, lambda: server.clients.handshakes.count == 1)
    assert server.clients.count == 0
    sock.close()
    until(server, lambda: server.clients.handshakes.count == 0)
    assert server.clients.handshakes.failed_count == 0, "it looked whether the port is open"
    _, connection = secured(server, client_context(holder))
    assert connection.host == "127.0.0.1"
    assert isinstance(server.socket_of(connection), TlsSocket)
    assert server.clients.handshakes.count == 0


def test_bytes_go_both_ways(server, holder):
    tls, connection = secured(server, client_context(holder))
    tls.sendall(b"request")
    assert server.until(1) == [ClientBytes(connection, b"request")]
    give(connection, b"ans", b"wer")
    server.turn(dirty=[connection])
    assert receive_exactly(tls, 6) == b"answer"
    assert connection.unsent_bytes == 0


def test_more_than_the_kernel_takes_arrives_in_order(server, holder):
    tls, connection = secured(server, client_context(holder))
    data = b"".join(number.to_bytes(4, "big") for number in range(2 * MIB))
    for at in range(0, len(data), 3 * SEAL_BYTES_MAX // 2):
        give(connection, data[at : at + 3 * SEAL_BYTES_MAX // 2])
    server.turn(dirty=[connection])
    assert connection.unsent_bytes > 0
    tls.settimeout(0.01)
    received = bytearray()
    deadline = time.monotonic() + 60
    while len(received) < len(data):
        assert time.monotonic() < deadline
        with contextlib.suppress(TimeoutError):
            received += tls.recv(MIB)
        server.turn()
    assert bytes(received) == data
    assert connection.unsent_bytes == 0


def test_what_is_decrypted_and_not_given_yet_makes_another_turn_come_at_once(server, holder):
    tls, _ = secured(server, client_context(holder))
    server.clients._budget_bytes = 1
    tls.sendall(bytes(10_000))
    [first] = server.until(1)
    assert len(first.data) == 4096
    assert server.clients.has_news
    rest = [given.data for _ in range(5) for given in server.turn()]
    assert sum(map(len, rest)) == 10_000 - 4096
    assert not server.clients.has_news


def test_records_without_data_count_in_what_a_turn_takes(server, holder, tmp_path):
    context = client_context(holder)
    context.keylog_filename = str(tmp_path / "keys")
    said = []
    for _ in range(2):
        tls, _ = secured(server, context)
        sealer = Sealer(client_secret(tmp_path / "keys"))
        said.append((tls, b"".join(sealer.key_update() for _ in range(20))))
    for tls, records in said:
        socket.socket.send(tls, records)
    clients = server.clients
    deadline = time.monotonic() + 60
    while count_in(clients.short) < 2:
        assert time.monotonic() < deadline
        tell_what_is_ready(server.loop)
    clients._budget_bytes = 100
    clients.receive([], FAR_NS)
    assert count_in(clients.short) == 1
    assert clients.has_news
    clients.receive([], FAR_NS)
    assert not clients.has_news


def test_paused_connection_gets_what_was_decrypted_before_when_it_goes_on(server, holder):
    tls, connection = secured(server, client_context(holder))
    server.clients._budget_bytes = 1
    tls.sendall(bytes(6000))
    server.until(1)
    connection.paused = True
    server.clients.flush([connection], server.now)
    assert server.turn() == []
    assert not server.clients.has_news
    connection.paused = False
    server.turn(dirty=[connection])
    assert server.clients.has_news
    assert len(server.until(1)[0].data) == 6000 - 4096


def test_goodbye_of_a_client_is_its_end_after_what_it_said(server, holder):
    tls, connection = secured(server, client_context(holder))
    tls.sendall(b"last")
    tls.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.unwrap()
    assert server.until(2) == [ClientBytes(connection, b"last"), ClientClosed(connection)]
    assert not server.clients.has_news


def test_end_without_goodbye_is_an_end(server, holder):
    tls, connection = secured(server, client_context(holder))
    tls.close()
    assert server.until(1) == [ClientClosed(connection)]


def test_garbage_is_the_end_of_its_connection_and_of_no_other(server, holder):
    tls, connection = secured(server, client_context(holder))
    other, other_connection = secured(server, client_context(holder))
    bare = socket.socket(fileno=tls.detach())
    server.opened.append(bare)
    bare.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert server.until(1) == [ClientClosed(connection)]
    other.sendall(b"still here")
    assert server.until(1) == [ClientBytes(other_connection, b"still here")]


def test_each_frame_is_found_in_a_record_of_its_own(server, holder):
    """One call gives what is in one record: what else was in it, no socket would announce."""
    tls, connection = secured(server, client_context(holder))
    frames = [b"\0\0\0\2ab", b"\0\0\0\1c", b"\0\0\0\0"]
    give(connection, *frames)
    server.turn(dirty=[connection])
    for frame in frames:
        assert tls.recv(100) == frame


def test_closing_once_sent_gives_the_client_everything_and_a_goodbye(server, holder):
    tls, connection = secured(server, client_context(holder))
    give(connection, b"last")
    connection.closing = WHEN_SENT
    server.turn(dirty=[connection])
    assert receive_exactly(tls, 4) == b"last"
    # Without the goodbye this would raise SSLEOFError.
    assert tls.recv(1) == b""
    tls.close()
    until(server, lambda: server.clients.count == 0)


class Full:
    """A socket whose kernel takes nothing while `is_full`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.is_full = False

    def send(self, data):
        if self.is_full:
            raise BlockingIOError
        return self._sock.send(data)

    def __getattr__(self, name):
        return getattr(self._sock, name)


def test_goodbye_waits_until_the_kernel_takes_it(server, holder):
    client, connection = secured(server, client_context(holder))
    ours = server.socket_of(connection)
    ours._tls._socket = full = Full(ours.socket)
    full.is_full = True
    connection.closing = WHEN_SENT
    server.turn([connection])
    assert ours.sealed_bytes, "the goodbye is not sent yet"
    assert not ours.is_finished
    client.sendall(b"more")
    assert [each for _ in range(3) for each in server.turn()] == [], "what still comes is dropped"
    assert not ours.is_finished
    full.is_full = False
    until(server, lambda: ours.is_finished)
    assert client.recv(1) == b"", "an end with a goodbye: without, this raises"


# ---------------------------------------------------------------------------------------------------- who is not let in


def test_client_without_a_certificate_is_told_and_never_heard_of(server, holder, said):
    tls = client_context(holder, has_key=False).wrap_socket(
        dial(server), server_hostname="localhost", do_handshake_on_connect=False
    )
    server.opened.append(tls)
    tls.setblocking(False)
    inputs: list = []
    deadline = time.monotonic() + 60

    def go_on() -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            tls.send(b"request")
        while True:
            assert time.monotonic() < deadline
            inputs.extend(server.turn())
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                tls.recv(1)

    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        go_on()
    assert inputs == []
    assert server.clients.handshakes.count == 1, "its end is waited for"
    tls.close()
    until(server, lambda: server.clients.handshakes.count == 0)
    assert "it shows no certificate" in said.text
    assert server.clients.handshakes.failed_count == 1


@pytest.mark.parametrize("data", [b"\0\0\0\x2d" + bytes(45), b"ruok", b"GET / HTTP/1.1\r\n\r\n"])
def test_who_speaks_no_tls_is_told_and_closed(server, data, said):
    sock = dial(server)
    sock.sendall(data)
    until(server, lambda: said.text or server.clients.count)
    assert "it does not speak TLS" in said.text
    assert sock.recv(100) == NO_TLS
    assert sock.recv(1) == b""
    sock.close()
    until(server, lambda: server.clients.handshakes.count == 0)


def test_who_never_finishes_is_closed_at_its_deadline(server, said):
    sock = dial(server)
    sock.sendall(b"\x16\x03\x01")
    until(server, lambda: server.clients.handshakes.count == 1)
    assert next_timer(server.loop) == server.now + HANDSHAKE_MS
    server.now += HANDSHAKE_MS - 1
    server.turn()
    assert server.clients.handshakes.count == 1
    server.now += 1
    server.turn()
    assert server.clients.handshakes.count == 0
    with contextlib.suppress(ConnectionResetError):
        assert sock.recv(1) == b""
    assert "the handshake took too long" in said.text
    assert server.clients.handshakes.failed_count == 1


def test_each_that_never_finishes_is_closed_at_its_own_deadline(server):
    handshakes = server.clients.handshakes
    for count in (1, 2):
        dial(server)
        until(server, lambda count=count: handshakes.count == count)
        server.now += 100
    counts = []
    for _ in range(2):
        server.now = next_timer(server.loop)
        server.turn()
        counts.append(handshakes.count)
    assert counts == [1, 0]
    assert next_timer(server.loop) is None


def test_who_was_let_in_has_no_deadline(server, holder):
    secured(server, client_context(holder))
    server.now += 2 * HANDSHAKE_MS
    server.turn()
    assert server.clients.count == 1
    assert next_timer(server.loop) is None


def test_flood_of_half_handshakes_is_bounded_and_stops_nobody_who_is_in(policy, holder):
    with running(Server(policy, handshakes_max=5)) as server:
        plain_address = server.listen()
        tls, connection = secured(server, client_context(holder))
        plain = socket.create_connection(plain_address, timeout=60)
        server.opened.append(plain)
        [connected] = server.until(1)
        for _ in range(20):
            dial(server).sendall(b"\x16\x03\x01")
            until(server, lambda: not server.clients.has_news)
            assert server.clients.handshakes.count <= 5
        until(server, lambda: server.clients.handshakes.exceeded_count == 15)
        tls.sendall(b"tls")
        assert server.until(1) == [ClientBytes(connection, b"tls")]
        plain.sendall(b"plain")
        assert server.until(1) == [ClientBytes(connected.connection, b"plain")]
        # And who speaks is let in, too.
        secured(server, client_context(holder))


def test_turn_takes_one_step_of_one_handshake(server, holder, monkeypatch):
    steps: list[int] = []
    feed = module.TlsSide.feed

    def counted(side, data, limit_bytes):
        steps[-1] += 1
        return feed(side, data, limit_bytes)

    monkeypatch.setattr(module.TlsSide, "feed", counted)
    for _ in range(6):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(holder).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        dial(server).sendall(outgoing.read())
    deadline = time.monotonic() + 60
    while sum(steps) < 6:
        assert time.monotonic() < deadline
        steps.append(0)
        server.turn()
    assert max(steps) == 1


# ---------------------------------------------------------------------------------------------------- one port for both


def test_port_for_both_kinds_takes_both(both, holder):
    tls, connection = secured(both, client_context(holder))
    assert isinstance(both.socket_of(connection), TlsSocket)
    plain = dial(both)
    plain.sendall(b"ruok")
    connected, received = both.until(2)
    assert received == ClientBytes(connected.connection, b"ruok")
    assert not isinstance(both.socket_of(connected.connection), TlsSocket)
    tls.sendall(b"request")
    assert both.until(1) == [ClientBytes(connection, b"request")]


def test_port_for_both_kinds_closes_who_says_nothing(both):
    sock = dial(both)
    until(both, lambda: both.clients.handshakes.count == 1)
    both.now += HANDSHAKE_MS
    both.turn()
    assert sock.recv(1) == b""


def test_other_context_counts_from_the_next_handshake_on(server, policy, certificates, holder):
    tls, connection = secured(server, client_context(holder))
    other = certificates.member("localhost", name="renewed")
    policy.context = server_context(other)
    newer, _ = secured(server, client_context(holder))
    assert newer.getpeercert() != tls.getpeercert()
    tls.sendall(b"as before")
    assert server.until(1) == [ClientBytes(connection, b"as before")]


def test_tls_begins_on_a_connection_that_was_plain(policy, holder):
    """To the service it is another connection, and what was sent before is sent in clear."""
    with running(Server()) as server:
        sock, plain = server.client()
        give(plain, b"begin!")
        server.turn(dirty=[plain])
        server.clients.start_tls(plain, policy, server.now)
        assert server.until(1) == [ClientClosed(plain)]
        assert (server.clients.count, server.clients.handshakes.count) == (0, 1)
        assert receive_exactly(sock, 6) == b"begin!"
        tls, connection = shaken(server, sock, client_context(holder))
        assert (connection.host, connection.port, connection.subject) == (plain.host, plain.port, "CN=alice")
        tls.sendall(b"request")
        assert server.until(1) == [ClientBytes(connection, b"request")]


def test_tls_does_not_begin_while_there_is_output_in_clear(policy):
    with running(Server()) as server:
        _, plain = server.client(receive_buffer_bytes=4096)
        give(plain, b"x" * 8 * MIB)
        server.turn(dirty=[plain])
        assert plain.unsent_bytes
        server.clients.start_tls(plain, policy, server.now)
        assert server.until(1) == [ClientClosed(plain)]
        assert (server.clients.count, server.clients.handshakes.count) == (0, 0)


def test_tls_does_not_begin_on_a_connection_that_is_gone(policy):
    with running(Server()) as server:
        sock, plain = server.client()
        sock.close()
        assert server.until(1) == [ClientClosed(plain)]
        server.clients.start_tls(plain, policy, server.now)
        assert server.turn() == []
        assert server.clients.handshakes.count == 0
