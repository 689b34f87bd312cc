"""Keeps the session of `zab shell`, and changes it for another: one at a time, each in the block of its client.

    keep        opens the first, and then whatever `change` asks for; what goes on beside a session ends with it
    change      closes the session, and opens the next one, or none; returns when that is done, or has failed

A client's block belongs to the task that entered it. So there is one task for all of them, which is told what to do.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio
from attrs import define, field

from zab.cli.znodes.opening import Opener
from zab.client import Client, ZabError

__all__ = ["Place", "SessionKeeper"]


class Place(Protocol):
    """Who wants to know which session there is."""

    def begin(self, zk: Client) -> None: ...

    def finish(self) -> None: ...


@define
class _Order:
    """What to open next; None is nothing."""

    open_client: Opener | None
    is_done: trio.Event = field(factory=trio.Event)
    failure: ZabError | ValueError | None = None


class SessionKeeper:
    """beside: what goes on as long as a session is there."""

    def __init__(self, place: Place, beside: Callable[[Client], Awaitable[None]]) -> None:
        self._place = place
        self._beside = beside
        self._order: _Order | None = None
        self._came = trio.Event()

    async def change(self, open_client: Opener | None) -> None:
        """Raises what kept the next session from being opened; there is none then."""
        order = self._order = _Order(open_client)
        self._came.set()
        await order.is_done.wait()
        if order.failure is not None:
            raise order.failure

    async def keep(self) -> None:
        """Until it is cancelled."""
        while True:
            order = await self._next_order()
            if order.open_client is None:
                order.is_done.set()
                continue
            try:
                async with order.open_client() as zk:
                    await self._keep_one(zk, order)
            except (ZabError, ValueError) as error:
                order.failure = error
            finally:
                order.is_done.set()

    async def _keep_one(self, zk: Client, order: _Order) -> None:
        """Until another order has come."""
        self._place.begin(zk)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beside, zk)
                order.is_done.set()
                await self._came.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._place.finish()

    async def _next_order(self) -> _Order:
        await self._came.wait()
        self._came = trio.Event()
        order = self._order
        assert order is not None
        return order
