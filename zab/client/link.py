"""The trio side of one TCP connection: four tasks that move bytes between a stream and the session.

    Link.run                    ends when the first of its tasks ends the link; then the session has been told
    ├─ _read                    stream -> session -> effects; ends the link at the end of the stream or at garbage
    ├─ _write                   what the connection has unsent -> stream; sleeps while there is nothing
    ├─ _keep_alive              ends the link when the session is not here in time; then sleeps until the connection's
    │                           next deadline; pings, or ends the link after silence
    └─ _find_writable           only on a read-only server: asks the others with `isro` and ends the link for one that
                                takes writes

A task never raises what the other side did: it calls `drop` with the reason, which cancels all four. What does leave
`run` is a bug or a cancellation.

`now` for the parts below is `trio.current_time()` in whole milliseconds.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import trio

from zab.client.connection import Connection
from zab.client.exceptions import PeerProtocolError
from zab.client.hosts import Host, HostOrder
from zab.client.records import State
from zab.client.requests import Effect
from zab.client.session import Session

__all__ = ["Dial", "Link", "now_ms"]

Dial: TypeAlias = Callable[[Host], Awaitable[trio.abc.Stream]]

RECEIVE_BYTES: Final = 65536
# ZooKeeper's client probes from 100 ms on, with the pause doubled up to a minute.
PROBE_PAUSE_MS_MIN: Final = 100
PROBE_PAUSE_MS_MAX: Final = 60_000
PROBE_WAIT_MS: Final = 1_000


def now_ms() -> int:
    return int(trio.current_time() * 1000)


class Link:
    """`perform` carries out the session's effects; `room` is called whenever there is room for more requests.

    deadline: when (ms) the server has to have taken the session, with its login.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        session: Session,
        connection: Connection,
        *,
        perform: Callable[[Iterable[Effect]], None],
        room: Callable[[], None],
        order: HostOrder,
        dial: Dial,
        deadline: int,
    ) -> None:
        self.reason: str | None = None
        self.cause: Exception | None = None
        self._stream = stream
        self._session = session
        self._connection = connection
        self._perform = perform
        self._room = room
        self._order = order
        self._dial = dial
        self._scope = trio.CancelScope()
        self._unsent = trio.lowlevel.ParkingLot()
        self._deadline = deadline
        self._connected = trio.Event()

    def drop(self, reason: str, cause: Exception | None = None) -> None:
        """Ends the link. The first reason stays."""
        if self.reason is None:
            self.reason, self.cause = reason, cause
            self._scope.cancel()

    def wake(self) -> None:
        """Something was queued in the connection."""
        self._unsent.unpark()

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, nursery)
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._keep_alive)
        finally:
            self._perform(self._session.lost(self.cause))
            await trio.aclose_forcefully(self._stream)

    async def _read(self, nursery: trio.Nursery) -> None:
        probing = False
        while True:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return self.drop(f"the connection broke ({error.__cause__ or error})", error)
            if not data:
                return self.drop("the server closed the connection")
            try:
                self._perform(self._session.receive(bytes(data), now_ms()))
            except PeerProtocolError as error:
                return self.drop(str(error), error)
            if self._session.state.is_connected:
                self._connected.set()
            if self._session.state.is_over:
                return self.drop(f"the session is over: {self._session.state.value}")
            if self._session.state is State.CONNECTED_READ_ONLY and not probing:
                probing = True
                nursery.start_soon(self._find_writable)
            self.wake()
            self._room()

    async def _write(self) -> None:
        while True:
            data = self._connection.take(now_ms())
            if not data:
                await self._unsent.park()
                continue
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return self.drop(f"the connection broke ({error.__cause__ or error})", error)
            self._room()

    async def _keep_alive(self) -> None:
        # A server that trickles its answer, or goes on with a login for ever, is not silent.
        with trio.move_on_after(_seconds_until(self._deadline)):
            await self._connected.wait()
        while True:
            try:
                self._connection.poll(now_ms())
            except PeerProtocolError as error:
                return self.drop(str(error), error)
            if not self._connected.is_set():
                return self.drop("the server did not take the session in time")
            self.wake()
            await trio.sleep(_seconds_until(self._connection.next_deadline))

    async def _find_writable(self) -> None:
        pause_ms = PROBE_PAUSE_MS_MIN
        while True:
            await trio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, PROBE_PAUSE_MS_MAX)
            host = self._order.next()
            if await self._is_writable(host):
                self._order.prefer(host)
                return self.drop(f"{host} takes writes")

    async def _is_writable(self, host: Host) -> bool:
        with trio.move_on_after(PROBE_WAIT_MS / 1000):
            try:
                stream = await self._dial(host)
                async with stream:
                    await stream.send_all(b"isro")
                    return await stream.receive_some(8) == b"rw"
            except (OSError, trio.BrokenResourceError):
                return False
        return False


def _seconds_until(deadline: int) -> float:
    # A millisecond more than asked for: the clock is read in whole ones, rounded down.
    return max(deadline - now_ms() + 1, 0) / 1000
