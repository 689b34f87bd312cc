"""kazoo's client, with what it was told."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

PATIENCE_SECONDS = 60.0


@contextlib.contextmanager
def client(hosts: str, **options: object) -> Iterator[KazooClient]:
    """A started client, which is stopped in any case."""
    kazoo = KazooClient(hosts=hosts, **{"timeout": 30.0, **options})
    kazoo.start(PATIENCE_SECONDS)
    try:
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not become true"
        time.sleep(0.005)


class Recorder:
    """A watch function that keeps the events; `wait` returns when there are so many."""

    def __init__(self) -> None:
        self.events: list[WatchedEvent] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.events.append(event)

    def wait(self, count: int = 1) -> list[tuple[str, str]]:
        until(lambda: len(self.events) >= count)
        return [(event.type, event.path) for event in self.events]
