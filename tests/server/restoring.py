"""Running servers that are given a snapshot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.client import KazooClient

from tests.rigs.zab_server import zab_servers
from tests.server.admin_facts import Running, lines_of
from zab.testing.kit.ports import free_ports

AUTHORIZATION = "digest super:wire"

PATIENCE_SECONDS = 120


@contextlib.contextmanager
def running(size: int, **lines: str | int) -> Iterator[Running]:
    ports = free_ports(2 * size)
    each = [{**lines_of(*pair), **lines} for pair in zip(ports[:size], ports[size:], strict=True)]
    with zab_servers(size, each=each) as servers:
        yield Running(servers, ports[:size], ports[size:])


@contextlib.contextmanager
def kazoo(ensemble: Running, *sids: int) -> Iterator[KazooClient]:
    members = [each for each in ensemble.servers.members if not sids or each.server_id in sids]
    client = KazooClient(",".join(each.host for each in members), timeout=30.0)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def snapshot_of(ensemble: Running, sid: int = 1) -> bytes:
    answer = ensemble.get(sid, "/commands/snapshot", Authorization=AUTHORIZATION)
    assert answer.status_code == 200, answer.text
    return answer.content


def restore(ensemble: Running, sid: int, snapshot: bytes) -> dict[str, Any]:
    """Its answer, once it has begun anew."""
    log = ensemble.servers.members[sid - 1].log_text
    begun = log().count("listening")
    answer = ensemble.post(sid, "/commands/restore", snapshot, Authorization=AUTHORIZATION)
    assert answer.status_code == 200, answer.text
    until(lambda: log().count("listening") > begun)
    told: dict[str, Any] = answer.json()
    assert (told["command"], told["error"]) == ("restore", None)
    return told


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def modes(ensemble: Running) -> list[str]:
    return [member.mode() for member in ensemble.servers.members]
