"""Reconfiguration, request by request: our ensemble answers what the real ZooKeeper answers.

Both have three members. Each request of a list is made to both, in order; the errors, and who belongs to the ensemble
afterwards, must be equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper
from zab.client import RequestError, WatchEvent
from zab.client.sync import Client, connect
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.java

CONFIGURATION = {"reconfigEnabled": "true", "skipACL": "yes"}

KINDS = {"zookeeper": zookeeper, "zab": zab_servers}


class Reconfigured:
    """An ensemble that is reconfigured; `follower` and `other` are two members that do not lead."""

    def __init__(self, servers: ZooKeeperEnsemble, zk: Client) -> None:
        self.zk = zk
        self.leader = servers.leader().server_id
        self.follower, self.other = sorted({1, 2, 3} - {self.leader})
        self.lines = {
            sid: str(line).partition(";")[0] + f";127.0.0.1:{servers.members[sid - 1].client_port}"
            for sid, line in self.ensemble().servers.items()
        }
        self.nobody = "server.{}=127.0.0.1:{}:{};127.0.0.1:{}"
        self.ports = free_ports(9)

    def ensemble(self) -> Ensemble:
        return ensemble_of(self.zk.get_config()[0] or b"")

    def absent(self, sid: int) -> str:
        """The line of a server that does not run."""
        return self.nobody.format(sid, *self.ports[3 * (sid - 4) : 3 * (sid - 4) + 3])

    def ask(self, **request: str | int) -> str:
        """The error, and what is so afterwards; servers are named by what they are here."""
        error = ""
        try:
            self.zk.reconfig(**request)  # type: ignore[arg-type]
        except RequestError as refused:
            error = type(refused).__name__
        names = {self.leader: "leader", self.follower: "follower", self.other: "other"}
        now = self.ensemble()
        return f"{error}: " + ", ".join(
            f"{names.get(sid, sid)} {line.role.value}"
            for sid, line in sorted(now.servers.items(), key=lambda one: str(names.get(one[0])))
        )


Step = Callable[[Reconfigured], str]

STEPS: dict[str, Step] = {
    "another version": lambda it: it.ask(leaving=str(it.other), version=7),
    "nonsense": lambda it: it.ask(joining="nonsense"),
    "no client port": lambda it: it.ask(joining=it.absent(4).partition(";")[0]),
    "one participant": lambda it: it.ask(leaving=f"{it.other},{it.follower}"),
    "nobody": lambda it: it.ask(leaving="1,2,3"),
    "so many that are not there": lambda it: it.ask(joining=",".join(map(it.absent, (4, 5, 6)))),
    "another key": lambda it: it.ask(members="dataDir=/tmp"),
    "one leaves": lambda it: it.ask(leaving=str(it.other)),
    "it leaves again": lambda it: it.ask(leaving=str(it.other)),
    "it comes back": lambda it: it.ask(joining=it.lines[it.other]),
    "the version in force": lambda it: it.ask(joining=it.lines[it.other], version=it.ensemble().version),
    "one observes": lambda it: it.ask(joining=it.lines[it.other].replace("participant", "observer")),
    "one observer too many": lambda it: it.ask(joining=it.lines[it.follower].replace("participant", "observer")),
    "all of it": lambda it: it.ask(members=",".join(it.lines.values())),
}


def answers(kind: str) -> dict[str, str]:
    with KINDS[kind](3, configuration=CONFIGURATION) as servers, connected(servers) as zk:
        watcher = zk.watcher()
        zk.get_config(watch=watcher)
        reconfigured = Reconfigured(servers, zk)
        said = {name: step(reconfigured) for name, step in STEPS.items()}
        event = watcher.receive()
        assert isinstance(event, WatchEvent)
        return {**said, "event": f"{event.type.name} {event.path}"}


@contextlib.contextmanager
def connected(servers: ZooKeeperEnsemble) -> Iterator[Client]:
    """To the leader alone, which stays."""
    with connect(servers.leader().host) as zk:
        yield zk


@pytest.mark.long
def test_both_answer_the_same() -> None:
    ours, zookeepers = answers("zab"), answers("zookeeper")
    assert ours == zookeepers
    assert set(ours) == {*STEPS, "event"}
