"""A durable work queue: jobs are entries of a managed ledger, and a cursor knows which of them are done.

    await serve(zk, store, "mail")              own the queue whenever no other process does, for ever
    queue = Queue(zk, "mail")                   for those who have work and those who do it, in any process
        await queue.put(b"…")                   the job is on the disks of two bookies when this returns
        async with queue.worker() as worker:
            job = await worker.take()           waits for one
            await worker.done(job)

Any number of processes serve a queue. The election says which of them should own it, and tells clients where that is.
It is a hint: what keeps two owners apart is that opening the log fences the owner before, which then can store nothing
more.

Each job is done at least once. It is given to another worker when the connection of the first one ends, and when the
queue gets another owner, before the job was reported as done. A `put` whose answer is lost is repeated.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import frozen

from zab.client import Client
from zab.client.recipes import Election
from zab.ledgers import LedgerError, LedgerStore, LogCursor, LogEntry, ManagedLog, Position

READY_MAX = 100
"""So many jobs are read before somebody takes them."""
LINE_BYTES_MAX = 1 << 20
RETRY_SECONDS = 0.1


def _election(zk: Client, queue: str, address: str = "") -> Election:
    return Election(zk, f"/queues/{queue}", address)


# --------------------------------------------------------------------------------------------------------------- owner


async def serve(zk: Client, store: LedgerStore, queue: str, host: str = "127.0.0.1") -> None:
    """Own the queue as often as this process is elected. Returns never; raises when the session is over."""
    while True:
        [listener] = await trio.open_tcp_listeners(0, host=host)
        async with listener:
            address = f"{host}:{listener.socket.getsockname()[1]}"
            async with _election(zk, queue, address).lead() as leadership:
                with suppress(LedgerError):
                    async with store.open_log(queue, create=True) as log:
                        owner = _Owner(log, await log.cursor("workers"))
                        async with trio.open_nursery() as nursery:
                            for ends in (log.lost, leadership.lost, owner.read):
                                nursery.start_soon(_until, ends, nursery.cancel_scope)
                            await trio.serve_listeners(owner.answer, [listener])


async def _until(ends: Any, scope: trio.CancelScope) -> None:
    """Cancel the scope when this has returned, or has failed as a ledger does."""
    with suppress(LedgerError):
        await ends()
    scope.cancel()


class _Owner:
    """The queue, while it is this process's."""

    def __init__(self, log: ManagedLog, cursor: LogCursor) -> None:
        self._log = log
        self._cursor = cursor
        self._ready: deque[LogEntry] = deque()
        self._takers = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    async def read(self) -> None:
        """Read ahead what is not done."""
        async for entry in self._cursor.read(follow=True):
            while len(self._ready) >= READY_MAX:
                await self._room.park()
            self._ready.append(entry)
            self._takers.unpark()

    async def answer(self, stream: trio.SocketStream) -> None:
        """Serve one client until it goes; what it has taken and not done is given to others then."""
        taken: dict[Position, LogEntry] = {}
        try:
            lines = _Lines(stream)
            while True:
                answer = await self._answer(json.loads(await lines.next()), taken)
                await stream.send_all(json.dumps(answer).encode() + b"\n")
        except (OSError, EOFError, trio.BrokenResourceError, ValueError, LedgerError):
            # The connection has ended, or is ended for what it said; or the log is lost, and `serve` knows.
            pass
        finally:
            self._ready.extendleft(taken.values())
            self._takers.unpark(count=len(taken))

    async def _answer(self, asked: dict[str, Any], taken: dict[Position, LogEntry]) -> dict[str, Any]:
        match asked:
            case {"put": str(job)}:
                return {"position": await self._log.append(base64.b64decode(job, validate=True))}
            case {"take": True}:
                entry = await self._take()
                taken[entry.position] = entry
                return {"job": base64.b64encode(entry.payload).decode(), "position": entry.position}
            case {"done": [int(ledger), int(entry_id)]}:
                position = Position(ledger, entry_id)
                self._cursor.acknowledge(position)
                await self._cursor.flush()
                taken.pop(position, None)
                return {}
        raise ValueError(f"a request of a queue: {asked}")

    async def _take(self) -> LogEntry:
        while not self._ready:
            await self._takers.park()
        self._room.unpark()
        return self._ready.popleft()


class _Lines:
    """The lines that a stream brings."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""

    async def next(self) -> bytes:
        """Raises EOFError at the end of the stream, ValueError for a line that is too long."""
        while b"\n" not in self._rest:
            data = await self._stream.receive_some()
            if not data:
                raise EOFError
            self._rest += data
            if len(self._rest) > LINE_BYTES_MAX:
                raise ValueError("a line without an end")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


# ------------------------------------------------------------------------------------------------------------- clients


@frozen
class Job:
    """What is to be done."""

    position: Position
    payload: bytes


class Queue:
    """A queue, for those who have work and those who do it."""

    def __init__(self, zk: Client, name: str) -> None:
        self._zk = zk
        self._name = name

    async def put(self, payload: bytes) -> Position:
        """Returns when the job is stored for good."""
        async with self.worker() as worker:
            return Position(*(await worker.ask({"put": base64.b64encode(payload).decode()}))["position"])

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """One that takes jobs. What it has taken and not done when the block is left is given to others."""
        worker = Worker(_election(self._zk, self._name))
        try:
            yield worker
        finally:
            await worker.close()


class Worker:
    """One connection to the owner of the queue, whichever process that is now."""

    def __init__(self, election: Election) -> None:
        self._election = election
        self._stream: trio.SocketStream | None = None
        self._answers: _Lines | None = None

    async def take(self) -> Job:
        """The next job; waits until there is one."""
        answer = await self.ask({"take": True})
        return Job(Position(*answer["position"]), base64.b64decode(answer["job"]))

    async def done(self, job: Job) -> None:
        """Returns when it is stored that the job is done: nobody gets it again."""
        await self.ask({"done": job.position})

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the owner; if it goes before it has answered, ask the next one."""
        while True:
            try:
                return await self._ask(json.dumps(request).encode())
            except (OSError, EOFError, trio.BrokenResourceError):
                await self.close()
                await trio.sleep(RETRY_SECONDS)

    async def _ask(self, line: bytes) -> dict[str, Any]:
        if self._stream is None or self._answers is None:
            address = await self._election.leader()
            if not address:
                raise EOFError
            host, _, port = address.rpartition(":")
            self._stream = await trio.open_tcp_stream(host, int(port))
            self._answers = _Lines(self._stream)
        await self._stream.send_all(line + b"\n")
        found: dict[str, Any] = json.loads(await self._answers.next())
        return found

    async def close(self) -> None:
        """End the connection."""
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = self._answers = None
