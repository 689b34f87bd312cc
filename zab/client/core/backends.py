"""What the core needs of the library that its callers run on: trio, asyncio, or threads that block.

A `Backend` is the only place where a caller waits. The rest of a client (the session, requests, watchers, recipes) is
written once, as coroutines that await nothing but what a backend gives them.

Invariants that a backend keeps:
- Between two waits a caller is alone: no other caller of the client, and no byte from a server, comes between.
- A wait that is cancelled raises, and what it waited for may be waited for again.

    attend      the core has something to do, or its next time has changed (`Runtime.poll`)
    flush       the core has bytes to send (`Runtime.take`)

Both only take note: the backend acts on it after the caller has gone on to wait. The core calls `attend` at most once
until the next `poll`, and `flush` at most once until the next `take`.
"""

from collections.abc import Coroutine, Hashable
from types import TracebackType
from typing import Any, Protocol, Self

__all__ = ["Backend", "ParkingLot", "Scope", "Waiter"]


class Waiter(Protocol):
    """Something that happens once. At most one caller waits for it."""

    @property
    def is_woken(self) -> bool: ...

    def wake(self) -> None:
        """It has happened. Further calls change nothing."""

    async def wait(self) -> None:
        """Returns when it has happened; at once if it has already."""


class Scope(Protocol):
    """A time limit for what is done in its block; the block ends quietly when the time is over."""

    @property
    def is_over(self) -> bool:
        """The block was left because the time was over."""

    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, bool]: ...


class Backend(Protocol):
    """What the core needs of trio, asyncio or threads."""

    @property
    def caller(self) -> Hashable:
        """The task or thread that runs now."""

    def check(self) -> None:
        """Raises ForkedError if this process is a fork of the one that made the client."""

    def now(self) -> float:
        """Seconds, by a clock that never goes back."""

    def waiter(self) -> Waiter: ...

    def move_on_after(self, seconds: float | None, *, shield: bool = False) -> Scope:
        """A time limit; None: no limit. shield: a cancellation from outside waits until the block is left."""

    async def checkpoint_if_cancelled(self) -> None:
        """Raises if the caller is cancelled, or its time is over."""

    async def checkpoint(self) -> None:
        """Like `checkpoint_if_cancelled`; also lets other tasks run, if the library does that."""

    def attend(self) -> None: ...

    def flush(self) -> None: ...


class ParkingLot:
    """Callers wait here until they are woken, in the order in which they came."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiters: dict[Waiter, None] = {}

    async def park(self) -> None:
        waiter = self._backend.waiter()
        self._waiters[waiter] = None
        goes_on = False
        try:
            await waiter.wait()
            goes_on = True
        finally:
            self._waiters.pop(waiter, None)
            # Woken, but cancelled before it could run: the next caller has to look instead.
            if waiter.is_woken and not goes_on:
                self.unpark()

    def unpark(self) -> None:
        for waiter in self._waiters:
            del self._waiters[waiter]
            waiter.wake()
            return

    def unpark_all(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.wake()
