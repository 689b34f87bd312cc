"""What can be held, in all its ways: `Owned`, of which locks, leases and semaphores are made.

    held = await lock.acquire(wait_s=5)                 # the ownership is this value
    await held.release()                                # whoever has it gives it back: any task, any thread

    async with lock as held: ...                        # for the length of a block
    async with lock.hold(wait_s=5) as held: ...         # so, with a limit; its block may end in another task

Nothing depends on who called: an identity of a thread is given to a later one, and asyncio runs what it waits for in
tasks of its own (`wait_for`, `gather`). So

- each `acquire` is a contender of its own, also of the same object: it is never given to two callers;
- `release` of the object gives back what `acquire` gave out where that is one thing, and refuses where it is several;
- a block ends what it began. `async with lock` has nothing to remember that by but the caller: where an exit stack
  leaves it in a task that has entered none, it ends the oldest block of this object. `hold` remembers it by itself.

*Who would wait for itself is told*: RuntimeError where a caller that is within a block of an object enters it again
without a limit of time, if that cannot be shared. Nothing is re-entrant: hand `held` on to what needs it.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar

from zab.client.client import Client
from zab.client.recipes.errors import WaitOverError
from zab.client.recipes.holding import Held

__all__ = ["Owned"]

H = TypeVar("H", bound=Held)


class _Block(NamedTuple):
    caller: Hashable
    held: Held
    is_named: bool
    """Of `hold`, which remembers it by itself."""


class Owned(ABC, Generic[H]):
    """See the module."""

    def __init__(self, zk: Client, path: str) -> None:
        self.path = path
        self._zk = zk
        self._out: list[H] = []
        self._blocks: list[_Block] = []

    async def acquire(self, wait_s: float | None = None) -> H:
        """Waits for it; `wait_s` None: as long as the session lives. Raises WaitOverError. Give it back by `release`
        of what this returns."""
        held = await self._take(wait_s)
        if held is None:
            raise WaitOverError(self.path, wait_s)
        return self._given(held)

    async def release(self) -> None:
        """Gives back what this object gave out; RuntimeError where that is nothing, or several things: then give back
        each by its own `release`. It is free when this returns; while no server is there, as soon as one is."""
        out = [held for held in self._out if not held.is_released]
        if not out:
            raise RuntimeError(f"{self.path} is not held by this object")
        if len(out) > 1:
            raise RuntimeError(
                f"{self.path} is held {len(out)} times by this object: call release of what acquire gave"
            )
        await out[0].release()

    @asynccontextmanager
    async def hold(self, wait_s: float | None = None) -> AsyncIterator[H]:
        """It is held for the length of the block."""
        if wait_s is None:
            self._refuse_nesting()
        held = await self.acquire(wait_s)
        block = _Block(self._zk.caller, held, True)
        self._blocks.append(block)
        try:
            yield held
        finally:
            self._blocks.remove(block)
            await held.release()

    async def __aenter__(self) -> H:
        self._refuse_nesting()
        held = await self.acquire()
        self._blocks.append(_Block(self._zk.caller, held, False))
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        blocks = [block for block in self._blocks if not block.is_named]
        if not blocks:
            raise RuntimeError(f"no block of {self.path} was entered")
        own = [block for block in blocks if block.caller == self._zk.caller]
        left = own[-1] if own else blocks[0]
        self._blocks.remove(left)
        await left.held.release()

    @property
    def held_by_caller(self) -> Held | None:
        """What the blocks that this caller is in hold, the last of them."""
        inside = [block.held for block in self._blocks if block.caller == self._zk.caller]
        return inside[-1] if inside and not inside[-1].is_released else None

    def _given(self, held: H) -> H:
        """What is given out, and not given back, is known to `release`."""
        self._out = [one for one in self._out if not one.is_released]
        self._out.append(held)
        return held

    def _refuse_nesting(self) -> None:
        """Raises where this caller would wait for itself; LostError where it lost what it is in a block of."""
        held = self.held_by_caller
        if held is not None:
            held.check()
            raise RuntimeError(f"{self.path}: who is in a block of it would wait for itself; hand on what it holds")

    @abstractmethod
    async def _take(self, wait_s: float | None) -> H | None:
        """None where the time is over; then nothing of the attempt is left."""
