"""Keeps the session of `zab shell`, and changes it for another: one at a time, each in a task of its own.

A client's block belongs to the task that entered it. So that task is told when to leave it; then the tasks that run
beside the session end, and the session is closed.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio
from attrs import field, frozen

from zab.cli.znodes.opening import Opener
from zab.client import Client

__all__ = ["Place", "SessionKeeper"]


class Place(Protocol):
    """Is told which session there is."""

    def begin(self, zk: Client) -> None: ...

    def finish(self) -> None: ...


@frozen
class _Session:
    """leaving: cancelled when the block is to be left. is_closed: set once the session is closed."""

    leaving: trio.CancelScope
    is_closed: trio.Event = field(factory=trio.Event)


class SessionKeeper:
    """beside: runs as long as the session lives. nursery: has the tasks."""

    def __init__(self, place: Place, beside: Callable[[Client], Awaitable[None]], nursery: trio.Nursery) -> None:
        self._place = place
        self._beside = beside
        self._nursery = nursery
        self._session: _Session | None = None

    async def change(self, open_client: Opener | None) -> None:
        """Closes the session, and opens the next one, or none. Raises the error if it cannot be opened.

        Then there is no session, nor after a cancellation."""
        await self._close()
        if open_client is not None:
            await self._nursery.start(self._keep, open_client)

    async def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.leaving.cancel()
            await session.is_closed.wait()

    async def _keep(self, open_client: Opener, *, task_status: trio.TaskStatus[None]) -> None:
        session = _Session(trio.CancelScope())
        try:
            async with open_client() as zk:
                self._place.begin(zk)
                self._session = session
                try:
                    with session.leaving:
                        task_status.started()
                        await self._beside(zk)
                        await trio.sleep_forever()
                finally:
                    self._place.finish()
        finally:
            session.is_closed.set()
