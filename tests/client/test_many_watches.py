"""A client with very many watches comes back to its server: all of them are set again, on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.faces import FACES, OnFace
from tests.rigs.in_process import members_here
from zab.client.core.watches import Table

COUNT = 100_000


@pytest.mark.parametrize("backend", FACES, ids=lambda backend: backend.name)
def test_a_hundred_thousand_watches_are_set_again(backend: OnFace) -> None:
    with members_here(1) as ensemble:

        async def body(zk: Any, other: Any, backend: OnFace) -> None:
            heard = zk.watcher()
            client = getattr(zk, "blocking", zk)
            registry = client._runtime.session.watches
            listener = getattr(getattr(heard, "blocking", heard), "waiting", heard)
            for number in range(COUNT):
                registry.add(Table.EXIST, b"/w-%06d" % number, listener)
            session = zk.session_id
            ensemble.members[1].kill()
            ensemble.members[1].start()
            ensemble.wait_until_serving()
            retrying = other.retrying()
            await zk.retrying().sync()
            assert zk.session_id == session
            for number in (0, COUNT // 2, COUNT - 1):
                await retrying.create(f"/w-{number:06}")
            told: list[str] = []
            while len(told) < 3:
                event = await heard.receive()
                # Those without a path tell of the connection.
                told += [event.path] if event.path else []
            assert told == ["/w-000000", f"/w-{COUNT // 2:06}", f"/w-{COUNT - 1:06}"]

        backend.run(ensemble.hosts, body, count=2, session_timeout_ms=60_000)
