"""The core is told the time and returns what is to be done: the core and the backend do not call back and forth."""

from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from datatree.opcodes import OpCode
from tests.client.moves import Moves, counted
from tests.client.scripted import Peer, ScriptedServers
from zab.client import Settings, connect
from zab.client.on_trio import OnTrio
from zab.jute.replies import data_reply
from zab.testing.kit.scheduling import pinned


def answer(xid: int, opcode: int, body: bytes) -> bytes | None:
    return data_reply(xid, 5, b"data", bytes(68)) if opcode == OpCode.GET_DATA else None


async def well_behaved(peer: Peer) -> None:
    await peer.welcome()
    await peer.serve(answer)


async def connect_and_get() -> Moves:
    async with trio.open_nursery() as nursery:
        servers = ScriptedServers(nursery, well_behaved)
        with counted() as moves:
            async with connect("one:1", dial=servers.dial, random=Random(1)) as zk:
                assert (await zk.get("/a"))[0] == b"data"
        nursery.cancel_scope.cancel()
    return moves


def test_a_get_moves_between_core_and_backend_this_often() -> None:
    """It was 83 of 236, when the core was asked for the time, and for each thing that was to be done."""
    with pinned(Random(1)):
        moves = trio.run(connect_and_get)
    assert moves.between("core/runtime.py", "on_trio.py") == 42
    # What a comprehension costs depends on Python.
    assert moves.counts.total() <= 235


async def test_many_requests_that_wait_wake_the_backend_once(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = []
    attend = OnTrio.attend

    def counting(backend: OnTrio) -> None:
        woken.append(backend)
        attend(backend)

    servers = ScriptedServers(nursery, well_behaved)
    async with connect("one:1", dial=servers.dial, settings=Settings(in_flight_count_max=1)) as zk:
        await wait_all_tasks_blocked()
        monkeypatch.setattr(OnTrio, "attend", counting)
        async with trio.open_nursery() as callers:
            for _ in range(20):
                callers.start_soon(zk.get, "/a")
        assert len(woken) == 1
        monkeypatch.undo()
