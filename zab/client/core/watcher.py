"""A watcher: the queue of one watcher's events, read by one caller or several.

    watcher = zk.watcher()
    data, stat = await zk.get("/a", watch=watcher)      # one-shot: the next change of /a
    event = await watcher.receive()

Events are in the order in which the server sent them, and are in the queue before the answer to any later read is
returned. After the last event of the session, `receive` raises the session's error (SessionExpiredError,
AuthFailedError); iteration ends quietly if the client or the watcher was closed.

The queue is bounded by `event_count_max`: the code that reads the connection must not wait for a watcher, or pings
would stop. A watcher that falls behind keeps its queued events, then raises WatchOverflowError, and gets no more.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from zab.client.core.backends import Backend, ParkingLot
from zab.client.core.exceptions import ClientClosedError, WatchOverflowError, ZabError
from zab.client.core.records import WatchEvent

__all__ = ["Listener", "Watcher"]


class Listener(Protocol):
    """Receives watch events: a `Watcher`, or a job."""

    def __hash__(self) -> int: ...

    def deliver(self, event: WatchEvent) -> None:
        """Called in the order of the connection."""

    def end(self, reason: ZabError) -> None:
        """No further event comes."""


class Watcher:
    """Made by `Client.watcher` and `Client.watch`. `async for event in watcher`, or `receive`, or `receive_nowait`.

    chroot: is removed from the paths of events.
    """

    def __init__(
        self, backend: Backend, event_count_max: int, release: Callable[["Watcher"], None], chroot: str = ""
    ) -> None:
        self._backend = backend
        self._events: deque[WatchEvent] = deque()
        self._event_count_max = event_count_max
        self._release = release
        self._chroot = chroot
        self._end: ZabError | None = None
        self._readers = ParkingLot(backend)

    def __repr__(self) -> str:
        state = "open" if self._end is None else f"ended: {self._end!r}"
        return f"<Watcher, {len(self._events)} events queued, {state}>"

    async def receive(self) -> WatchEvent:
        """The next event; waits for it. Raises what ended the watcher once its queue is empty."""
        await self._backend.checkpoint()
        while not self._events:
            if self._end is not None:
                raise self._end
            await self._readers.park()
        return self._events.popleft()

    def receive_nowait(self) -> WatchEvent | None:
        """The next event that is queued already; None if there is none. Raises what ended the watcher."""
        if self._events:
            return self._events.popleft()
        if self._end is not None:
            raise self._end
        return None

    def __aiter__(self) -> "Watcher":
        return self

    async def __anext__(self) -> WatchEvent:
        try:
            return await self.receive()
        except ClientClosedError:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Ends the watcher: all its watches are released."""
        self._release(self)
        self.end(ClientClosedError("the watcher is closed"))

    def deliver(self, event: WatchEvent) -> None:
        """Called by the client, in the order of the connection."""
        if self._end is not None:
            return
        if len(self._events) == self._event_count_max:
            self._release(self)
            self.end(WatchOverflowError(f"more than {self._event_count_max} events were not read"))
            return
        if self._chroot and (event.path == self._chroot or event.path.startswith(self._chroot + "/")):
            event = event._replace(path=event.path[len(self._chroot) :] or "/")
        self._events.append(event)
        self._readers.unpark()

    def end(self, reason: ZabError) -> None:
        """Called once by the client when no further event can come; the first reason stays."""
        if self._end is None:
            self._end = reason
            self._readers.unpark_all()
