"""kazoo's client, with what it was told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import ZooKeeperMember


@contextlib.contextmanager
def kazoo_client(hosts: str, **options: object) -> Iterator[KazooClient]:
    """A started client, which is stopped in any case."""
    client = KazooClient(hosts=hosts, **{"timeout": 30.0, **options})
    client.start(PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def kazoo_of(*members: ZooKeeperMember) -> AbstractContextManager[KazooClient]:
    """A started client that connects to these members alone."""
    return kazoo_client(",".join(member.host for member in members))


class Recorder:
    """A watch function that keeps the events; `wait` returns when there are so many."""

    def __init__(self) -> None:
        self.events: list[WatchedEvent] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.events.append(event)

    def wait(self, count: int = 1) -> list[tuple[str, str]]:
        until(lambda: len(self.events) >= count)
        return [(event.type, event.path) for event in self.events]
