"""Running servers that are given a snapshot."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from kazoo.client import KazooClient

from tests.rigs.admin_servers import Running
from tests.rigs.kazoo_client import kazoo_of
from tests.rigs.waiting import until

AUTHORIZATION = "digest super:wire"


def kazoo_at(ensemble: Running, *sids: int) -> AbstractContextManager[KazooClient]:
    """A client of these members; without any, of all."""
    return kazoo_of(*(each for each in ensemble.servers.members if not sids or each.server_id in sids))


def snapshot_of(ensemble: Running, sid: int = 1) -> bytes:
    answer = ensemble.get(sid, "/commands/snapshot", Authorization=AUTHORIZATION)
    assert answer.status_code == 200, answer.text
    return answer.content


def restore(ensemble: Running, sid: int, snapshot: bytes) -> dict[str, Any]:
    """Its answer, once it has started again."""
    log = ensemble.servers.members[sid - 1].log_text
    begun = log().count("listening")
    answer = ensemble.post(sid, "/commands/restore", snapshot, Authorization=AUTHORIZATION)
    assert answer.status_code == 200, answer.text
    until(lambda: log().count("listening") > begun)
    told: dict[str, Any] = answer.json()
    assert (told["command"], told["error"]) == ("restore", None)
    return told


def modes(ensemble: Running) -> list[str]:
    return [member.mode() for member in ensemble.servers.members]
