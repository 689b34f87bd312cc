"""The sessions of a service with the coordination service: what belongs to one session is not done by the next."""

from contextlib import asynccontextmanager

import attrs
import trio

from zab.client import coordination
from zab.client.coordination import NEVER_PROVEN, Coordination, OpenAccess
from zab.client.core.exceptions import ConnectionLossError
from zab.coordination.driver import Connected, Expired, Results, Submit, Suspended
from zab.coordination.operations import Create, Result, Sync, ZooKeeperError


@attrs.frozen
class State:
    is_connected: bool = False
    is_over: bool = False


class Session:
    """A client whose session the test ends."""

    def __init__(self, number):
        self.session_id = number
        self.session_timeout_ms = 6000
        self.session_lives_until = 1e9
        self.operations = self
        self.asked = []
        self.at_the_end = lambda: None
        self.is_over = trio.Event()

    async def ensure_path(self, path, acl):
        await trio.lowlevel.checkpoint()

    def now(self):
        return trio.current_time()

    async def states(self):
        yield State(is_connected=True)
        yield State()
        await self.is_over.wait()
        yield State(is_over=True)
        self.at_the_end()

    def create(self, path, data, acl, *, ephemeral, sequence):
        return path

    async def perform_each(self, asked):
        self.asked += asked
        await trio.sleep_forever()


async def test_what_was_submitted_to_a_session_that_is_over_is_not_done_by_the_next(monkeypatch):
    told = trio.open_memory_channel(100)
    sessions = [Session(1), Session(2)]
    left = list(sessions)

    @asynccontextmanager
    async def connect(*_hosts, **_options):
        yield left.pop(0)

    monkeypatch.setattr(coordination, "connect", connect)
    service = Coordination("nowhere", 6000, told[0].send_nowait, OpenAccess())
    assert service.lives_until() == NEVER_PROVEN

    def late():
        # The one that waits for it gets the first batch, and is stopped with it.
        for number in range(2):
            service.submit(Submit(number, (Create("/late"),)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        assert await told[1].receive() == Connected(1, 6000)
        assert await told[1].receive() == Suspended()
        assert service.lives_until() > trio.current_time()
        sessions[0].at_the_end = late
        sessions[0].is_over.set()
        assert await told[1].receive() == Expired()
        assert await told[1].receive() == Connected(2, 6000)
        service.submit(Submit(2, (Create("/new"),)))
        while not sessions[1].asked:
            await trio.lowlevel.checkpoint()
        assert sessions[1].asked == ["/new"]
        nursery.cancel_scope.cancel()
    assert service.lives_until() == NEVER_PROVEN


async def test_a_sync_is_one_of_the_client_and_its_answer_may_be_lost(monkeypatch):
    told = trio.open_memory_channel(100)
    session = Session(1)
    asked = []
    session.sync = lambda path: path

    async def perform_each(operations):
        await trio.lowlevel.checkpoint()
        asked.extend(operations)
        return [None, ConnectionLossError("lost")]

    session.perform_each = perform_each

    @asynccontextmanager
    async def connect(*_hosts, **_options):
        yield session

    monkeypatch.setattr(coordination, "connect", connect)
    service = Coordination("nowhere", 6000, told[0].send_nowait, OpenAccess())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        assert await told[1].receive() == Connected(1, 6000)
        service.submit(Submit(1, (Sync("/ledgers"), Sync("/"))))
        while True:
            found = await told[1].receive()
            if isinstance(found, Results):
                break
        assert asked == ["/ledgers", "/"]
        assert found == Results(1, (Result(), Result(ZooKeeperError.CONNECTIONLOSS)))
        nursery.cancel_scope.cancel()
