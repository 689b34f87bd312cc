"""Quorum links inside of TLS, on real sockets: who is let in, as whom, and what goes over them."""

import contextlib
import select
import socket
import threading
import time

import attrs
import pytest

from tests.host.loop.before_a_turn import next_timer
from tests.host.loop.far_server import SECRET, Other
from tests.host.loop.link_server import Server
from tests.host.loop.service import running
from tests.server.quorum_tls import HOSTS, make_certificates, store_lines
from zab.host.loop import links as links_module
from zab.host.loop.greeting import Greeting
from zab.host.loop.links import GREETING_MS, STRANGERS_MAX, Links
from zab.host.loop.listener import open_listener
from zab.host.loop.loop import Loop
from zab.host.tls.engine import NO_TLS, TlsSide
from zab.member.membership.greeting import PURPOSES, Purpose, party
from zab.member.settings.zoo_cfg import parse
from zab.member.wire_protocols import QUORUM_PROTOCOL
from zab.protocol.events import DialFailed, MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX
from zab.protocol.member_message import Request
from zab.protocol.message import Ack, Commit, SessionKeys, decode, encode
from zab.server.address_book import AddressBook
from zab.server.tls_settings import tls_of_members
from zab.wire.frames import frame
from zab.wire.records import MessageError
from zab.wire.secret_messages import ENCRYPTED

KEYS = SessionKeys([[b"secretnm", bytes(range(32))]])
OPEN = {"secrets": (), "is_open": True}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stores")
    make_certificates(directory)
    return directory


def quorum_tls(stores, sid, *lines):
    servers = [f"server.{number}={host}:2888:3888" for number, host in enumerate(HOSTS, 1)]
    text = ["dataDir=/d", "initLimit=5", "syncLimit=5", *servers, *store_lines(stores / HOSTS[sid - 1]), *lines]
    config = parse("\n".join(text), "zoo.cfg", my_id=sid)
    return tls_of_members(config, AddressBook(config).certified)


class Secured:
    """The other end of a connection: a socket that blocks, with TLS over it."""

    def __init__(self, sock, side):
        self.sock = sock
        self.side = side
        self._plain = b""

    def begin(self):
        self.sock.sendall(self.side.feed(b"", 0)[1])

    def step(self):
        """Take what has come, if anything has."""
        if not has_come(self.sock):
            return
        data = self.sock.recv(1 << 16)
        assert data, "closed"
        self.sock.sendall(self.side.feed(data, 0)[1])

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def sendall(self, data):
        self.sock.sendall(self.side.seal(data))

    def recv(self, count):
        while not self._plain:
            data = b"" if self.side.has_more else self.sock.recv(1 << 16)
            if not data and not self.side.has_more:
                return b""
            self._plain, out = self.side.feed(data, 1 << 20)
            self.sock.sendall(out)
        taken, self._plain = self._plain[:count], self._plain[count:]
        return taken


class TlsServer(Server):
    """Server 1 with its quorum port for TLS, and others that dial it, or that it dials."""

    def __init__(self, stores, *lines):
        self.stores = stores
        self.loop = Loop()
        self.handed_over = []
        self.refused = []
        self.party = party(1, [], is_open=True)
        self.tls = quorum_tls(stores, 1, *lines)
        greeting = Greeting(
            PURPOSES, lambda: [2, 3], lambda: self.party, lambda *what: self.handed_over.append(what), tls=self.tls
        )
        self.links = Links(self.loop, QUORUM_PROTOCOL, greeting, lambda *what: self.refused.append(what))
        listening = open_listener("127.0.0.1", 0)
        self.address = listening.getsockname()
        self.links.listen(listening, self.tls.policy)
        self.opened = []

    def until(self, is_so):
        events = []
        deadline = time.monotonic() + 20
        while not is_so(events):
            assert time.monotonic() < deadline, len(events)
            events += self.turn()
        return events

    def turns(self, wanted=1):
        return self.until(lambda events: len(events) >= wanted)

    def connect(self):
        sock = socket.create_connection(self.address)
        sock.settimeout(60)
        self.opened.append(sock)
        return sock

    def dialled_by(self, sid, as_sid=None, **changes):
        """Somebody with the certificate of server `sid`, whose handshake of TLS is done."""
        context = quorum_tls(self.stores, sid, "sslQuorum=true").watched.content.dialling
        secured = Secured(self.connect(), TlsSide(context, has_dialled=True))
        secured.begin()
        while not secured.side.is_ready:
            assert self.turn() == []
            secured.step()
        return Other(secured, attrs.evolve(party(as_sid or sid, [SECRET], is_open=False), **changes))

    def linked(self, sid=2, **changes):
        other = self.dialled_by(sid, **changes)
        other.begin()
        self.give_welcome(other)
        other.prove()
        [up] = self.turns()
        assert up == QuorumLinkUp(up.link, sid, True)
        return other, up.link

    def give_welcome(self, other):
        self.until(lambda _: other.socket.side.has_more or has_come(other.socket.sock))


def has_come(sock):
    return bool(select.select([sock], [], [], 0.001)[0])


@pytest.fixture
def server(stores):
    with running(TlsServer(stores, "sslQuorum=true")) as server:
        yield server


@pytest.fixture
def unified(stores):
    with running(TlsServer(stores, "sslQuorum=true", "portUnification=true")) as server:
        yield server


def test_certificate_is_proof_without_a_secret(server):
    other, link = server.linked(**OPEN)
    assert server.links._links[link].agreed.is_proven
    other.say(Ack(1, 5))
    assert server.turns() == [MessageReceived(link, Ack(1, 5))]
    server.links.send((link,), Commit(7))
    server.turn()
    assert other.hear() == Commit(7)


def test_link_that_is_dialled_is_up_once_the_other_has_answered(server):
    listening = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listening.getsockname())
    theirs, _ = listening.accept()
    server.opened += [listening, theirs]
    theirs.settimeout(60)
    dialled = TlsSide(server.tls.watched.content.dialling, has_dialled=True)
    accepted = TlsSide(quorum_tls(server.stores, 3, "sslQuorum=true").policy.context)
    said = dialled.feed(b"", 0)[1]
    while said:
        said = accepted.feed(said, 0)[1]
        said = dialled.feed(said, 0)[1] if said else b""
    server.links.adopt(ours, 3, dialled)
    server.turn()
    other = Other(Secured(theirs, accepted), party(3, [], is_open=True))
    other.answer()
    assert server.turns() == [QuorumLinkUp(1, 3, False)]
    assert server.links._links[1].agreed.is_proven


@pytest.mark.parametrize("as_sid", [1, 3, 9])
def test_nobody_speaks_for_a_server_with_the_certificate_of_another_one(server, as_sid):
    other = server.dialled_by(2, as_sid=as_sid, **OPEN)
    other.begin()
    server.give_welcome(other)
    with pytest.raises(MessageError, match=r"refuses: (this is server|server|the certificate is not for)"):
        other.prove()
    assert server.turn() == []
    assert len(server.refused) == 1


def test_secret_that_is_required_is_required_in_tls_too(server):
    server.party = party(1, [SECRET], is_open=False)
    other = server.dialled_by(2, **OPEN)
    other.begin()
    server.give_welcome(other)
    with pytest.raises(MessageError, match="has none of the secrets"):
        other.prove()
    known, link = server.linked(3)
    server.links.send((link,), KEYS)
    server.turn()
    assert known.payload().startswith(ENCRYPTED), "both proofs, both protections"


def test_keys_of_sessions_travel_inside_of_tls_where_there_is_no_secret(server):
    other, link = server.linked(**OPEN)
    server.links.send((link,), KEYS)
    server.turn()
    assert decode(other.payload()) == KEYS
    other.say(KEYS)
    assert server.turns() == [MessageReceived(link, KEYS)]
    other.say_payload(ENCRYPTED + encode(KEYS))
    assert server.turns() == [QuorumLinkDown(link)]


def test_keys_of_sessions_do_not_travel_on_a_link_without_tls_nor_secret(unified):
    sock = unified.connect()
    other = Other(sock, party(2, [], is_open=True))
    other.begin()
    unified.until(lambda _: has_come(sock))
    other.prove()
    [up] = unified.turns()
    assert not unified.links._links[up.link].agreed.is_proven
    unified.links.send((up.link,), KEYS)
    unified.links.send((up.link,), Commit(1))
    unified.turn()
    assert other.hear() == Commit(1)
    other.say(KEYS)
    assert unified.turns() == [QuorumLinkDown(up.link)]


def test_who_speaks_no_tls_is_closed_unheard(server):
    sock = server.connect()
    other = Other(sock, party(2, [], is_open=True))
    other.begin()
    server.until(lambda _: server.refused)
    assert "does not speak TLS" in server.refused[0][1]
    server.turn()
    assert sock.recv(100) == NO_TLS
    assert sock.recv(100) == b""


def test_large_messages_go_both_ways_in_one_piece(server):
    other, link = server.linked(**OPEN)
    size = DATA_FRAME_BYTES_MAX // 2
    sent = [Request([[[], [bytes([number]) * size]]]) for number in range(4)]
    other.socket.settimeout(0.01)
    for message in sent:
        server.links.send((link,), message)
    pieces = []

    def hear(_):
        with contextlib.suppress(TimeoutError):
            pieces.append(other.socket.recv(1 << 20))
        return sum(map(len, pieces)) >= 4 * size and not server.links.unsent_bytes(link)

    server.until(hear)
    assert b"".join(pieces).count(bytes([3]) * size) == 1
    other.socket.settimeout(60)
    small = [Ack(1, number) for number in range(50_000)]
    for begin in range(0, len(small), 1000):
        other.say(*small[begin : begin + 1000])
        events = server.turns()
        while len(events) < 1000:
            events += server.turn()
        assert [event.message for event in events] == small[begin : begin + 1000]


def test_word_of_another_thread_waits_for_the_next_turn(server):
    """What TLS keeps is the turn's alone."""
    other, link = server.linked(**OPEN)
    server.loop._woken = False
    thread = threading.Thread(target=server.links.send_now, args=(link, Ack(1, 5)))
    thread.start()
    thread.join()
    assert server.links.unsent_bytes(link)
    assert server.links.has_unsent
    assert server.loop._woken
    server.turn()
    assert other.hear() == Ack(1, 5)


def test_a_turn_takes_one_step_of_one_handshake(server, monkeypatch):
    steps = []
    feed = TlsSide.feed
    monkeypatch.setattr(TlsSide, "feed", lambda side, *what: (steps.append(side), feed(side, *what))[1])
    context = server.tls.watched.content.dialling
    beginnings = [TlsSide(context, has_dialled=True) for _ in range(20)]
    said = [side.feed(b"", 0)[1] for side in beginnings]
    for each in said:
        server.connect().sendall(each)
    steps.clear()
    most = 0
    while len(steps) < 20:
        before = len(steps)
        server.turn()
        most = max(most, len(steps) - before)
        assert not server.links.has_news or server.links._handshakes.waiting
    assert most == 1


def test_handshake_that_does_not_end_is_given_up_and_is_one_of_so_many(server, monkeypatch):
    for _ in range(STRANGERS_MAX + 1):
        server.connect().sendall(b"\x16\x03")
    server.until(lambda _: server.links._handshakes.count == STRANGERS_MAX and server.refused)
    assert len(server.refused) == 1
    deadline = next_timer(server.loop)
    assert deadline <= links_module.now_ms() + GREETING_MS
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline + GREETING_MS)
    server.turn()
    assert server.links._handshakes.count == 0
    assert len(server.refused) == STRANGERS_MAX + 1


def test_who_comes_for_a_snapshot_is_handed_over_with_its_tls(server):
    other = server.dialled_by(2, **OPEN)
    other.begin(purpose=Purpose.SNAPSHOT)
    server.give_welcome(other)
    other.prove(then=(b"what it asks for",))
    server.until(lambda _: server.handed_over)
    [(handed, side, agreed, received)] = server.handed_over
    assert (agreed.sid, agreed.is_certified) == (2, True)
    assert received + b"".join(iter(lambda: side.feed(b"", 100)[0], b"")) == frame(b"what it asks for")
    handed.sendall(side.seal(b"answer"))
    assert other.socket.recv(100) == b"answer"
    handed.close()


def test_dialled_server_that_refuses_the_certificate_is_one_that_cannot_be_reached(server):
    """In TLS 1.3 the dialling side is done before its certificate is judged: the alert comes later."""
    listening = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listening.getsockname())
    theirs, _ = listening.accept()
    server.opened += [listening, theirs]
    context = server.tls.watched.content.dialling
    dialled, accepted = TlsSide(context, has_dialled=True), TlsSide(server.tls.policy.context)
    dialled.feed(accepted.feed(dialled.feed(b"", 0)[1], 0)[1], 0)
    assert dialled.is_ready
    server.links.adopt(ours, 3, dialled)
    server.turn()
    theirs.sendall(b"\x15\x03\x03\x00\x02\x02\x30")
    assert server.turns() == [DialFailed(3)]


def test_what_is_decrypted_and_not_taken_yet_needs_no_socket_that_announces_it(server):
    """One record of TLS is up to 16 KiB; of a stranger half of that is taken in a turn."""
    other = server.dialled_by(2, **OPEN)
    other.begin()
    server.give_welcome(other)
    said = [Ack(1, number) for number in range(1200)]
    other.prove(then=tuple(map(encode, said)))
    events = server.turns(1 + len(said))
    assert [event.message for event in events[1:]] == said
    assert not server.links.readable
