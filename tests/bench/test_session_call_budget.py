"""How many Python calls sessions may cost that do little: they idle, come and go, or wait for a change. The counts are
exact, as in `test_call_budget`.

`python -m bench.curves --curves sessions idle watches` measures them as processes beside ZooKeeper.
"""

import socket
from collections import Counter

import pytest

from datatree.opcodes import OpCode
from tests.bench.call_counts import check, count_turns, counted, uncounted
from tests.host.loop.service import WHEN_SENT, Server, give, readable, receive_exactly, running
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from tests.rigs.direct.members import Server as Member
from zab.wire.client_protocol import ClientBytes, ClientConnected

PING = {"leader": 21, "follower": 18}
"""Calls for a ping, at the member that it comes to, without those of the host."""
AGAIN = {"leader": 17, "follower": 17}
"""Calls for a get whose session is touched already, in the same way."""
SESSION = {"leader": (260, 260, 117), "follower": (233, 236, 117)}
"""Calls for a session that is opened and closed at the leader, or at a follower: there, at the leader, and at a
follower whose clients ask for nothing."""
WATCHES = (88, 95)
"""Calls for a change that ten sessions of a follower watch: at the leader, and at that follower."""
CAME_AND_WENT = 53
"""Calls in the host for a connection that comes, is paused, is answered and goes."""


@pytest.fixture(autouse=True)
def clients_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Member, "flush", uncounted(Member.flush))


@pytest.fixture(params=["leader", "follower"])
def where(request: pytest.FixtureRequest) -> str:
    role: str = request.param
    return role


def settled(ensemble: Ensemble, where: str) -> Client:
    """A session whose bucket is another one by now."""
    client = ensemble.session(getattr(ensemble, where))
    ensemble.do(client, client.create(b"/a"))
    ensemble.advance(2_500)
    return client


def test_a_ping_of_an_idle_session(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3)
    client = settled(ensemble, where)
    counts = count_turns(ensemble, monkeypatch)
    assert ensemble.do(client, client.request(OpCode.PING, b"", -2)) == [(-2, 0, None)]
    check(counts[getattr(ensemble, where).sid], PING[where])


def test_a_request_whose_session_is_touched(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3)
    client = settled(ensemble, where)
    ensemble.do(client, client.get(b"/a"))
    counts = count_turns(ensemble, monkeypatch)
    ensemble.do(client, client.get(b"/a"))
    check(counts[getattr(ensemble, where).sid], AGAIN[where])


def test_a_session_that_is_opened_and_closed(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3)
    settled(ensemble, where)
    counts = count_turns(ensemble, monkeypatch)
    server = getattr(ensemble, where)
    client = ensemble.session(server)
    ensemble.do(client, client.request(OpCode.CLOSE_SESSION))
    assert client.is_closed
    idle = next(other for other in ensemble.others(ensemble.leader) if other is not server)
    for counted_at, budget in zip((server, ensemble.leader, idle), SESSION[where], strict=True):
        check(counts[counted_at.sid], budget)


def test_a_change_that_sessions_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3)
    writer = settled(ensemble, "leader")
    watchers = [ensemble.session(ensemble.follower) for _ in range(10)]
    for client in watchers:
        ensemble.do(client, client.get(b"/a", watch=True))
    counts = count_turns(ensemble, monkeypatch)
    ensemble.do(writer, writer.set(b"/a", b"1"))
    assert [client.events() for client in watchers] == [[(3, b"/a")]] * 10
    for server, budget in zip((ensemble.leader, ensemble.follower), WATCHES, strict=True):
        check(counts[server.sid], budget)


def test_a_connection_that_comes_and_goes() -> None:
    with running(Server()) as server:
        for _ in range(2):
            counts: Counter[str] = Counter()
            sock = socket.create_connection(server.address)
            sock.settimeout(60)
            server.opened.append(sock)
            sock.sendall(b"hello")
            [listener] = server.clients._listeners
            readable(listener.socket)
            with counted(counts):
                connected, said = server.turn()
                assert isinstance(connected, ClientConnected)
                connection = connected.connection
                assert said == ClientBytes(connection, b"hello")
                connection.paused = True
                server.turn(dirty=[connection])
                connection.paused = False
                give(connection, b"welcome")
                connection.closing = WHEN_SENT
                server.turn(dirty=[connection])
            assert receive_exactly(sock, 7) == b"welcome"
            ours = server.socket_of(connection).socket
            sock.close()
            readable(ours)
            with counted(counts):
                assert server.turn() == []
            assert server.clients.count == 0
        check(counts, CAME_AND_WENT)
