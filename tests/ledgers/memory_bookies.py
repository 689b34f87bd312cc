"""Bookies in memory with real sockets, registered in a coordination service: for tests of what the client does when
bookies misbehave. Each does what `tests.ledger.memory.MemoryBookie` does, unless a test says otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

import trio
from attrs import define, field

from tests.ledger.memory import MemoryBookie
from zab.client import Client, connect
from zab.ledger.metadata.service_info import ServiceInfo, bookie_endpoint, encode_service_info
from zab.ledger.wire.codec import Refused, decode_request, encode_answer
from zab.ledger.wire.frames import FrameCutter
from zab.ledger.wire.messages import (
    Answer,
    EntriesListed,
    GetBookieInfo,
    LacWritten,
    ListEntries,
    ReadEntry,
    Request,
    WriteLac,
    answer_without,
)
from zab.ledger.wire.status import Status

ROOT = "/ledgers"


@define(eq=False)
class ServedBookie:
    """One of them. `before_answer`: called with each request; what it returns, unless None, is the answer, and
    `SILENCE` is none."""

    id: str
    port: int
    ledgers: dict[int, MemoryBookie] = field(factory=dict)
    before_answer: Callable[[Request], Answer | str | None] | None = None
    asked: list[Request] = field(factory=list)
    streams: set[trio.SocketStream] = field(factory=set)
    gate: trio.Event | None = None
    """While it is there and not set, nothing is answered."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)

    def answer(self, request: Request) -> Answer | str:
        self.asked.append(request)
        if self.before_answer is not None and (said := self.before_answer(request)) is not None:
            return said
        if isinstance(request, GetBookieInfo):
            return answer_without(request, Status.OK)
        ledger = self.ledgers.get(request.ledger)
        if ledger is None:
            if isinstance(request, ReadEntry) and not request.is_fencing:
                return answer_without(request, Status.NO_LEDGER)
            ledger = self.ledgers[request.ledger] = MemoryBookie()
        if isinstance(request, WriteLac):
            ledger.packet, ledger.lac = request.packet, max(ledger.lac, request.lac)
            return LacWritten(Status.OK, request.ledger)
        if isinstance(request, ListEntries):
            return EntriesListed(Status.OK, request.ledger, tuple((each, each) for each in sorted(ledger.entries)))
        return ledger.answer(request)

    def kill(self) -> None:
        """End it and its connections, at once."""
        self.scope.cancel()

    async def serve(self, stream: trio.SocketStream) -> None:
        cutter = FrameCutter()
        self.streams.add(stream)
        try:
            while data := await stream.receive_some(65536):
                bodies, error = cutter.feed(bytes(data))
                if error is not None:
                    return
                for body in bodies:
                    decoded = decode_request(body)
                    if isinstance(decoded, Refused):
                        await stream.send_all(decoded.frame)
                        continue
                    if self.gate is not None:
                        await self.gate.wait()
                    said = self.answer(decoded.request)
                    if said != SILENCE:
                        await stream.send_all(encode_answer(decoded.reply_to, said))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.streams.discard(stream)
            await trio.aclose_forcefully(stream)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        listener = (await trio.open_tcp_listeners(self.port, host="127.0.0.1"))[0]
        self.port = listener.socket.getsockname()[1]
        self.id = self.id or f"127.0.0.1:{self.port}"
        task_status.started()
        with self.scope:
            await trio.serve_listeners(self.serve, [listener])


SILENCE = "silence"


@define
class MemoryBookies:
    nursery: trio.Nursery
    zk: Client
    all: dict[str, ServedBookie] = field(factory=dict)

    def __getitem__(self, index: int) -> ServedBookie:
        return list(self.all.values())[index]

    async def start(self) -> ServedBookie:
        bookie = ServedBookie("", 0)
        await self.nursery.start(bookie.run)
        self.all[bookie.id] = bookie
        info = encode_service_info(ServiceInfo((bookie_endpoint("127.0.0.1", bookie.port),)))
        await self.zk.create(f"{ROOT}/available/{bookie.id}", info)
        return bookie


@asynccontextmanager
async def memory_bookies(zk: Client, count: int) -> AsyncIterator[MemoryBookies]:
    """A formatted root, with so many bookies."""
    for path, data in (("", b""), ("/available", b""), ("/available/readonly", b""), ("/INSTANCEID", b"i")):
        await zk.create(ROOT + path, data)
    async with trio.open_nursery() as nursery:
        bookies = MemoryBookies(nursery, zk)
        for _ in range(count):
            await bookies.start()
        yield bookies
        nursery.cancel_scope.cancel()


@contextmanager
def memory_bookies_beside(hosts: str, count: int) -> Iterator[str]:
    """Such bookies in a thread of their own, for clients that are not on trio. Yields the hosts, with a chroot."""
    begun: Future[str] = Future()
    ended: list[Callable[[], None]] = []

    async def main() -> None:
        async with connect(hosts) as zk:
            path = f"/{zk.nonce()}"
            await zk.create(path)
            over = trio.Event()
            token = trio.lowlevel.current_trio_token()
            ended.append(lambda: token.run_sync_soon(over.set))
            async with memory_bookies(zk.with_chroot(path), count):
                begun.set_result(hosts + path)
                await over.wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        yield begun.result(30)
    finally:
        for end in ended:
            end()
        thread.join(30)
