"""How many Python calls a small write may cost: exact counts, which no load of the machine touches.

`python -m bench.calls` counts whole members, with their loop, whose number of turns the machine decides.
"""

from collections import Counter
from functools import partial

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from datatree.log.zxid import Epoch, Zxid
from tests.bench.call_counts import check, count_turns, counted, uncounted
from tests.host.loop.link_server import Server as LinkServer
from tests.host.loop.service import Server as ClientService
from tests.host.loop.service import give, readable, running
from tests.rigs.direct.members import SURROUNDINGS, Ensemble, Server
from zab.host.http.exposition import FigureCollector
from zab.member.words.figures import figures
from zab.protocol.events import MessageReceived
from zab.protocol.message import Ack, Commit

ON_LEADER, ON_FOLLOWER, FOLLOWS = 93, 102, 50
"""Calls for one write, with the decoding of messages and otherwise without those of the host: at the leader, when its
own client asks and when a follower's client does; and at a follower whose clients ask for nothing."""
MANY = {"setData": (20_540, 9_360), "create": (29_530, 12_350)}
"""Calls for three thousand writes at once, a third of them from clients of each member, without those of the host: at
the leader, and at a follower."""
RECEIVED, SENT, ANSWERED = 19, 18, 14
"""Calls in the host: for a message that comes on a link, for one that leaves, for a request with its answer."""
SCRAPE = 635
"""Calls for the metrics of a leader, as Prometheus reads them. `make bench-scrape` measures their time."""


@pytest.mark.parametrize(("asked", "leader"), [("leader", ON_LEADER), ("follower", ON_FOLLOWER)])
def test_a_single_write(asked: str, leader: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All turns of the leader, and of a follower whose clients ask for nothing."""
    ensemble = Ensemble(3)
    client = ensemble.session(getattr(ensemble, asked))
    for number in range(3):
        ensemble.do(client, client.create(b"/%d" % number))
    counts = count_turns(ensemble, monkeypatch)
    ensemble.do(client, client.set(b"/1", b"x" * 100))
    idle = next(other for other in ensemble.others(ensemble.leader) if other is not client.server)
    check(counts[ensemble.leader.sid], leader)
    check(counts[idle.sid], FOLLOWS)


@pytest.mark.parametrize("kind", MANY)
def test_many_writes_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty clients, ten of each member, and of each a hundred writes that come together."""
    ensemble = Ensemble(3)
    clients = [ensemble.session(server) for server in ensemble.servers.values() for _ in range(10)]
    for number, client in enumerate(clients):
        ensemble.do(client, client.create(b"/%d" % number))
    counts = count_turns(ensemble, monkeypatch)
    monkeypatch.setattr(Server, "flush", uncounted(Server.flush))
    for number, client in enumerate(clients):
        writes = [client.set(b"/%d" % number, b"x" * 100) for _ in range(100)]
        if kind == "create":
            writes = [client.create(b"/%d/%d" % (number, name), b"x" * 100) for name in range(100)]
        client.say(b"".join(writes))
    ensemble.settle()
    assert all([error for _, error, _ in client.replies()] == [0] * 100 for client in clients)
    for server, budget in zip((ensemble.leader, ensemble.follower), MANY[kind], strict=True):
        check(counts[server.sid], budget)


def test_a_message_between_members() -> None:
    """With a secret, so with its seal."""
    with running(LinkServer()) as server:
        other, link = server.linked()
        ours = server.links._links[link]
        counts: Counter[str] = Counter()
        for _ in range(2):
            counts.clear()
            other.say(Ack(Epoch(1), Zxid(5)))
            readable(ours.socket)
            with counted(counts):
                [received] = server.turn()
            assert isinstance(received, MessageReceived)
        check(counts, RECEIVED)
        counts.clear()
        with counted(counts):
            server.links.send((link,), Commit(Zxid(5)))
            server.turn()
        # With native parts its gate is no call of Python's.
        check(Counter({name: count for name, count in counts.items() if not name.startswith("gate:")}), SENT)


def test_a_request_of_a_client_and_its_answer() -> None:
    with running(ClientService()) as service:
        sock, connection = service.client()
        for _ in range(2):
            counts: Counter[str] = Counter()
            sock.sendall(b"x" * 100)
            readable(service.socket_of(connection).socket)
            with counted(counts):
                assert len(service.turn()) == 1
            give(connection, b"y" * 20)
            with counted(counts):
                service.turn(dirty=[connection])
        check(counts, ANSWERED)


def test_a_scrape_costs_the_same_however_much_a_member_holds() -> None:
    ensemble = Ensemble(3)
    member = ensemble.leader.member.view.around(SURROUNDINGS)
    registry = CollectorRegistry()
    registry.register(FigureCollector(partial(figures, member)))
    for znodes in (10, 1000):
        client = ensemble.session(ensemble.leader)
        ensemble.do(client, *(client.create(b"/%d-%d" % (znodes, number)) for number in range(znodes)))
        ensemble.do(client, *(client.get(b"/%d-%d" % (znodes, number), watch=True) for number in range(znodes)))
        generate_latest(registry)
        counts: Counter[str] = Counter()
        with counted(counts):
            generate_latest(registry)
        check(counts, SCRAPE)
