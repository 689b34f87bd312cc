"""A caller that waits for a core: the token of its question."""

from __future__ import annotations

from typing import Any

from zab.client import Client


class Call:
    """Completed once, waited for once."""

    __slots__ = ("_waiter", "outcome")

    def __init__(self, zk: Client) -> None:
        self.outcome: Any = None
        self._waiter = zk.waiter()

    def complete(self, outcome: Any) -> None:
        self.outcome = outcome
        self._waiter.wake()

    async def wait(self) -> Any:
        """The outcome. Cancelled, nobody is told."""
        await self._waiter.wait()
        return self.outcome
