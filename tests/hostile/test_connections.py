"""Connections: slow ones, half ones, many, and ones that end in every stage, at each port."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Sequence
from random import Random
from typing import cast

import pytest

from datatree.requests import AddAuth
from tests.hostile.ensembles import Attacked, Target
from tests.hostile.raw import Client, Frames, clients, connect, is_closed_by_the_other, reset, say, text, word
from tests.rigs.waiting import PATIENCE_SECONDS, until
from zab.host.process.descriptors import for_clients, raise_limit
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.wire.frames import frame

SECURE_TOO = (
    "test_lengths_that_cannot_be_within_a_session",
    "test_reader_of_a_byte_at_a_time",
    "test_readers_of_nothing",
    "test_resets_in_every_stage",
)

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

HELLO = frame(ConnectRequest(0, 40_000, 0, bytes(16)).encode())
PING = frame(struct.pack(">ii", -2, 11))
CROWD = 2_000
NO_NODE = -101
PORTS = ("client_port", "quorum_port", "election_port")
ELSEWHERE = [f"127.0.0.{number}" for number in range(2, 12)]


def port_of(member: Attacked, name: str) -> int:
    port: int = getattr(member, name)
    return port


@pytest.mark.parametrize("name", PORTS)
def test_many_that_say_nothing_or_little(target: Target, name: str) -> None:
    """Anybody opens 300 connections from eleven addresses, and says nothing, half a length, half a frame, or a byte now
    and then. At the members' ports there is room for 64 strangers, and one more takes the place of another; a client's
    port holds them until they have been silent for ten seconds. Anyone who speaks meanwhile is served."""
    with target.attacked(), contextlib.ExitStack() as stack:
        sockets = []
        for number in range(300):
            source = ("127.0.0.1", *ELSEWHERE)[number % 11]
            sock = stack.enter_context(connect(port_of(target.leader, name), source=source))
            sockets.append(sock)
            if number % 4:
                say(sock, (b"", b"\0", b"\0\0\0\x28" + b"x" * 20, b"\0\0\x0f\xff" + bytes(3000))[number % 4])
        for sock in sockets[::4]:
            say(sock, b"\0")
        for member in target.members:
            with contextlib.closing(Client(member.client_port)) as client:
                assert client.get_data("/")[0] == 0


@pytest.mark.parametrize("name", PORTS)
@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -(1 << 31)),
        struct.pack(">i", (1 << 31) - 1) + bytes(100),
        struct.pack(">i", 1 << 30) + bytes(100_000),
        frame(b""),
        frame(b"") * 20_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(200),
        b"\xff" * 70_000,
    ],
    ids=["-1", "-2 GiB", "2 GiB", "1 GiB", "empty", "20,000 empty", "HTTP", "TLS", "ones"],
)
def test_frames_that_cannot_be(target: Target, name: str, said: bytes) -> None:
    """Anybody announces frames that cannot be: the connection ends, and nothing is kept for what was announced."""
    with target.attacked(memory_mb=24):
        for member in target.members:
            with connect(port_of(member, name)) as sock:
                say(sock, said)
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_WR)
                assert is_closed_by_the_other(sock)


@pytest.mark.longest
def test_lengths_that_cannot_be_within_a_session(target: Target) -> None:
    """A client with a session announces frames that cannot be, and has unfinished ones."""
    with target.attacked():
        for length in (-1, -(1 << 31), (1 << 31) - 1, 1 << 20):
            client = Client(target.follower.client_port)
            say(client.sock, struct.pack(">i", length) + bytes(100))
            assert is_closed_by_the_other(client.sock)
            client.close()


def test_half_a_megabyte_of_a_first_frame_on_each_of_many(target: Target) -> None:
    """Anybody leaves a first frame of a megabyte unfinished on 200 connections. A handshake is short: a longer one ends
    its connection at once, so that nothing is kept."""
    with target.attacked(memory_mb=32), contextlib.ExitStack() as stack:
        for _ in range(200):
            sock = stack.enter_context(connect(target.leader.client_port))
            say(sock, struct.pack(">i", 1_000_000) + bytes(500_000))
            assert is_closed_by_the_other(sock)


@pytest.mark.parametrize("name", PORTS)
def test_resets_in_every_stage(target: Target, name: str) -> None:
    """Anybody connects and closes with RST: at once, within a handshake, after it, with answers unread."""
    stages = [b"", b"\0\0", HELLO[:20], HELLO, HELLO + frame(struct.pack(">ii", 1, 8) + text(b"/") + b"\0"), b"mntr"]
    with target.attacked():
        for number in range(120):
            sock = connect(port_of(target.members[number % 3], name))
            say(sock, stages[number % len(stages)])
            reset(sock)


def test_garbage(target: Target) -> None:
    """Anybody sends anything to any port."""
    rng = Random(10)
    with target.attacked():
        for number in range(600):
            member, name = target.members[number % 3], PORTS[number // 3 % 3]
            with connect(port_of(member, name)) as sock:
                choice = rng.randrange(4)
                data = rng.randbytes(rng.randrange(1, 400))
                if choice == 1:
                    data = frame(data)
                elif choice == 2:
                    data = HELLO + frame(data) + data
                elif choice == 3:
                    data = HELLO + b"".join(
                        frame(struct.pack(">ii", n, rng.randrange(-12, 110)) + data) for n in range(5)
                    )
                say(sock, data)
                if rng.random() < 0.3:
                    reset(sock)


def test_reader_of_a_byte_at_a_time(target: Target) -> None:
    """Clients ask for 40 megabytes each, and read a byte now and then. Beyond its limit a connection is not read from,
    and all together are bounded (totalOutputLimitBytes); the documented most is 128 MiB, and these ask for less."""
    with contextlib.closing(Client(target.leader.client_port)) as writer:
        writer.create("/big", b"x" * 1_000_000)
    with target.attacked(memory_mb=200), clients(target.leader.client_port, 6, receive_bytes=4096) as slow:
        for client in slow:
            client.sock.sendall(b"".join(client.request(4, text(b"/big") + b"\0") for _ in range(40)))
        for _ in range(50):
            for client in slow:
                assert client.sock.recv(1)
        with contextlib.closing(Client(target.leader.client_port)) as other:
            assert other.get_data("/")[0] == 0


def test_readers_of_nothing(target: Target) -> None:
    """Twenty-five clients ask for 100 megabytes each, and read nothing: 350 MB once. Together they have at most
    totalOutputLimitBytes (128 MiB); beyond that those with most are closed."""
    with contextlib.closing(Client(target.leader.client_port)) as writer:
        writer.create("/big", b"x" * 1_000_000)
    with target.attacked(memory_mb=200), clients(target.leader.client_port, 25, receive_bytes=4096) as mute:
        for client in mute:
            say(client.sock, b"".join(client.request(4, text(b"/big") + b"\0") for _ in range(100)))
        with contextlib.closing(Client(target.leader.client_port)) as other:
            assert other.get_data("/")[0] == 0


@pytest.mark.longest
def test_crowd_that_ends_at_once(target: Target) -> None:
    """Three hundred clients from eleven addresses close their sessions, and are gone, all at the same time."""
    with target.attacked():
        crowd = [Client(target.follower.client_port, source=("127.0.0.1", *ELSEWHERE)[n % 11]) for n in range(300)]
        for client in crowd:
            say(client.sock, client.request(-11))
        for client in crowd:
            client.close()


@pytest.mark.longest
def test_requests_that_do_not_end(target: Target) -> None:
    """Four hundred and fifty clients from eleven addresses leave a request of a megabyte unfinished: 430 MB. Together
    they may have totalInputLimitBytes (256 MiB); beyond that those with most are closed."""
    with target.attacked(memory_mb=330), contextlib.ExitStack() as stack:
        for number in range(450):
            source = ("127.0.0.1", *ELSEWHERE)[number % 11]
            client = Client(target.leader.client_port, source=source)
            stack.callback(client.close)
            say(client.sock, struct.pack(">i", 1_000_000) + bytes(950_000))
        with contextlib.closing(Client(target.leader.client_port)) as other:
            assert other.get_data("/")[0] == 0


@pytest.mark.longest
def test_requests_of_a_megabyte_from_hundreds(target: Target) -> None:
    """Four hundred and fifty clients from eleven addresses send a megabyte each at the same time. Half of them were
    closed at totalInputLimitBytes. They wait for each other before that, and all are answered."""
    body = text(b"/nowhere") + struct.pack(">i", 1_000_000) + bytes(1_000_000) + struct.pack(">i", -1)
    with target.attacked(memory_mb=250), contextlib.ExitStack() as stack:
        clients = []
        for number in range(450):
            clients.append(Client(target.leader.client_port, source=("127.0.0.1", *ELSEWHERE)[number % 11]))
            stack.callback(clients[-1].close)
            if number % 100 == 99:
                _ping_all(clients)
        _ping_all(clients)
        _send_side_by_side(clients, [client.request(5, body) for client in clients])
        assert [client.reply()[0] for client in clients] == [NO_NODE] * 450


def _ping_all(clients: Sequence[Client]) -> None:
    """A session is created after the other, which may take longer than a session timeout on a busy machine."""
    for client in clients:
        client.send(11, xid=-2)
    assert all(client.reply()[0] == 0 for client in clients)


def _send_side_by_side(clients: Sequence[Client], requests: Sequence[bytes]) -> None:
    """To each as much as its socket takes, and to whichever takes some: none is held up by this process."""
    with selectors.DefaultSelector() as selector:
        for client, request in zip(clients, requests, strict=True):
            client.sock.setblocking(False)
            selector.register(client.sock, selectors.EVENT_WRITE, memoryview(request))
        while selector.get_map():
            ready = selector.select(PATIENCE_SECONDS)
            assert ready, "nobody is read from"
            for key, _ in ready:
                sock = cast(socket.socket, key.fileobj)
                left = key.data[sock.send(key.data[:65536]) :]
                if left:
                    selector.modify(sock, selectors.EVENT_WRITE, left)
                else:
                    selector.unregister(sock)
                    sock.settimeout(PATIENCE_SECONDS)


@pytest.mark.longest
def test_writes_of_a_megabyte_from_many(target: Target) -> None:
    """Eighty clients send a megabyte at a time to the followers, 480 MB in all. It broke the links to the leader, which
    may have 64 MiB unsent: no quorum was left. Now 2 MiB of a follower's writes are on their way at a time."""
    with contextlib.closing(Client(target.leader.client_port)) as writer:
        writer.create("/large", b"x")
    body = text(b"/large") + struct.pack(">i", 1_000_000) + bytes(1_000_000) + struct.pack(">i", -1)
    with target.attacked(memory_mb=200), contextlib.ExitStack() as stack:
        threads = []
        for number in range(80):
            follower = [member for member in target.members if member is not target.leader][number % 2]
            client = Client(follower.client_port, source=ELSEWHERE[number % 10])
            stack.callback(client.close)
            said = b"".join(client.request(5, body) for _ in range(6))
            threads.append(threading.Thread(target=say, args=(client.sock, said)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def proven(client: Client, count: int) -> int:
    """How many of so many identities, as long as they may be, the client is let have."""
    said = [AddAuth(b"digest", b"%03d" % number + b"u" * 4_060 + b":p").encode() for number in range(count)]
    client.sock.sendall(b"".join(client.request(100, each, xid=-4) for each in said))
    for number in range(count):
        if client.reply()[0]:
            return number
    return count


@pytest.mark.longest
def test_identities_of_many_with_tiny_writes(target: Target) -> None:
    """Three hundred clients prove as much as they are let, and send 22 bytes at a time through a follower. Each write
    takes all identities of its connection along: 6 KB of writes became 77 MB for the link to the leader, and the
    follower lost it. Now a connection has 8 KiB of them, and they count in what is on its way."""
    follower = target.follower
    with contextlib.closing(Client(follower.client_port)) as client:
        count = proven(client, 63)
    with target.attacked(memory_mb=48), contextlib.ExitStack() as stack:
        found = []
        for number in range(300):
            client = Client(follower.client_port, source=ELSEWHERE[number % 10])
            stack.callback(client.close)
            assert proven(client, count) == count
            found.append(client)
        for _ in range(3):
            for client in found:
                say(client.sock, client.request(2, text(b"/x") + struct.pack(">i", -1)))
        for client in found:
            assert [client.reply()[0] for _ in range(3)] == [-101] * 3


@pytest.mark.longest
def test_connections_from_everywhere_with_sessions(target: Target) -> None:
    """Clients from eleven addresses have 110 sessions and let them go without a word: the sessions end by
    themselves."""
    with target.attacked(), contextlib.ExitStack() as stack:
        for number in range(110):
            source = ("127.0.0.1", *ELSEWHERE)[number % 11]
            client = Client(target.members[number % 3].client_port, source=source, timeout_ms=1)
            stack.callback(client.close)
    leader = target.leader
    until(lambda: int(leader.numbers()["zk_global_sessions"]) < 60, "the end of sessions")


def test_crowd_that_never_greets(target: Target) -> None:
    """Two thousand connections say nothing, and time out at the same time. They are closed in slices."""
    never_greet(target, CROWD)


@pytest.mark.longest
def test_crowd_of_sessions_that_expire_at_once(target: Target) -> None:
    """Two thousand clients fall silent at the same time. Their sessions expire, and their connections are closed, in
    slices."""
    expire_at_once(target, CROWD)


def never_greet(target: Target, count: int) -> None:
    """So many connections, fifty from an address, that say nothing."""
    port = target.leader.client_port
    with target.attacked(memory_mb=200), contextlib.ExitStack() as stack:
        crowd = []
        for source in _addresses(count):
            crowd.append(stack.enter_context(connect(port, source=source)))
            if len(crowd) % 500 == 0:
                # This one is accepted after them: otherwise there is no room for more, and they are tried again late.
                assert word(port, "ruok") == "imok"
        assert all(is_closed_by_the_other(sock) for sock in crowd)


def expire_at_once(target: Target, count: int) -> None:
    """So many sessions, fifty from an address, whose clients fall silent."""
    port = target.leader.client_port
    greeting = frame(ConnectRequest(0, 20_000, 0, bytes(16)).encode())
    with target.attacked(memory_mb=200), contextlib.ExitStack() as stack:
        crowd: list[Frames] = []
        for source in _addresses(count):
            crowd.append(Frames(stack.enter_context(connect(port, source=source))))
            say(crowd[-1].sock, greeting)
            if len(crowd) % 250 == 0:
                assert all(ConnectResponse.decode(client.get()).session_id for client in crowd[-250:])
            if len(crowd) % 2000 == 0:
                # Nobody is silent for its timeout before all are there, unless that is short.
                for client in crowd:
                    say(client.sock, PING)
        assert all(is_closed_by_the_other(client.sock) for client in crowd)


def _addresses(count: int) -> list[str]:
    """Where each of so many connects from; of fewer, if this process and a member have no descriptors for so many."""
    return [f"127.0.{1 + number // 50}.1" for number in range(min(count, for_clients(raise_limit())))]


def test_words_where_no_word_is(target: Target) -> None:
    """Anybody sends four-letter words within a session, to the members' ports, and in pieces."""
    with target.attacked():
        client = Frames(connect(target.leader.client_port))
        client.sock.sendall(HELLO)
        client.get()
        say(client.sock, b"mntrstatdump")
        assert is_closed_by_the_other(client.sock)
        client.close()
        for name in PORTS[1:]:
            with connect(port_of(target.leader, name)) as sock:
                say(sock, b"dump")
                assert is_closed_by_the_other(sock)
        with connect(target.leader.client_port) as sock:
            for letter in b"ruok":
                sock.sendall(bytes([letter]))
            assert sock.recv(100) == b"imok"
        assert word(target.leader.client_port, "ruok") == "imok"
