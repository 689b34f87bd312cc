"""Whole members, some of whose trees are wrong."""

from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.protocol import events as ev


def spoil(server: Server, bits: int = 1) -> None:
    """Wrong bits in the memory of a member, which does not know it."""
    member = server.member
    member.tree.digest ^= bits
    member.digests._by_zxid[member.applied] = member.tree.digest


def write(ensemble: Ensemble, client: Client, count: int = 1) -> list[int]:
    """The errors of so many writes, as far as they are answered."""
    return [error for number in range(count) for _, error, _ in ensemble.do(client, client.set(b"/a", b"%d" % number))]


def ensemble_of(size: int, **lines: object) -> tuple[Ensemble, Client]:
    """With a client at the leader, and some batches in the logs."""
    ensemble = Ensemble(size, **lines)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    write(ensemble, client, 3)
    return ensemble, client


def stop(ensemble: Ensemble, server: Server) -> None:
    """It is gone: nothing reaches it."""
    ensemble.cut.add(server.sid)
    for link in [link for link, ends in ensemble.links.items() if server.sid in ends]:
        ensemble.break_link(link)
    ensemble.settle()


def bring_back(ensemble: Ensemble, server: Server) -> None:
    """One that was stopped is reached again by all that are there."""
    ensemble.cut.discard(server.sid)
    for other in ensemble.others(server):
        if other.sid not in ensemble.cut:
            other.answers.append(ev.ElectionLinkUp(server.sid, 1))
            server.answers.append(ev.ElectionLinkUp(other.sid, 1))


def digests(ensemble: Ensemble) -> set[int]:
    assert len({server.member.applied for server in ensemble.servers.values()}) == 1
    return {server.member.tree.digest for server in ensemble.servers.values()}


def said(server: Server, words: str) -> bool:
    return any(words in trace for trace in server.traces)
