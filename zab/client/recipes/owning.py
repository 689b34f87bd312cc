"""All ways to take and give back what can be held: `Owned`, the base of locks, leases and semaphores.

    held = await lock.acquire(wait_s=5)                 # the ownership is this value
    await held.release()                                # from any task or thread that has it

    async with lock as held: ...                        # for the length of a block
    async with lock.hold(wait_s=5) as held: ...         # with a time limit; its block may end in another task

Nothing depends on the calling task or thread: a later thread may get the identity of an earlier one, and asyncio runs
what it waits for in tasks of its own (`wait_for`, `gather`). So

- each `acquire` is a separate contender, also of the same object: two callers never get the same;
- `release` of the object gives back what `acquire` returned if that is one thing, and refuses if it is several;
- a block gives back what it took. `async with lock` knows that only by its caller: if an exit stack leaves the block in
  a task that has entered none, it ends the oldest block of this object. `hold` remembers what it took.

*A caller that would wait for itself gets an error*: RuntimeError if a caller within a block of an object enters it
again without a time limit, unless it can be shared. Nothing is re-entrant: pass `held` on to the code that needs it.
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
    """Made by `hold`, which remembers what it took."""


class Owned(ABC, Generic[H]):
    """path: that of the znode below which its contenders wait."""

    def __init__(self, zk: Client, path: str) -> None:
        self.path = path
        self._zk = zk
        self._out: list[H] = []
        self._blocks: list[_Block] = []

    async def acquire(self, wait_s: float | None = None) -> H:
        """Waits for it. wait_s: at most so long, then WaitOverError; None: as long as the session lives. To give it
        back, call `release` of the result."""
        held = await self._take(wait_s)
        if held is None:
            raise WaitOverError(self.path, wait_s)
        return self._given(held)

    async def release(self) -> None:
        """Gives back what this object gave out; RuntimeError if that is nothing, or more than one: then call `release`
        of each. It is free when this returns; without a server, as soon as one is connected."""
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
        """Holds it for the length of the block."""
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
        """What the last block that this caller is in holds."""
        inside = [block.held for block in self._blocks if block.caller == self._zk.caller]
        return inside[-1] if inside and not inside[-1].is_released else None

    def _given(self, held: H) -> H:
        """Remembers what is given out, for `release`."""
        self._out = [one for one in self._out if not one.is_released]
        self._out.append(held)
        return held

    def _refuse_nesting(self) -> None:
        """Raises RuntimeError if this caller would wait for itself; LostError if its block has lost what it held."""
        held = self.held_by_caller
        if held is not None:
            held.check()
            raise RuntimeError(f"{self.path}: who is in a block of it would wait for itself; hand on what it holds")

    @abstractmethod
    async def _take(self, wait_s: float | None) -> H | None:
        """None if the time is over; then nothing remains from the attempt."""
