"""A bell: whoever waits for it goes on when it rings, and looks for himself what has happened."""

from zab.client.client import Client
from zab.client.core.faces import Waiter

__all__ = ["Bell"]


class Bell:
    """Rung between two steps of the client, by a chore for instance; any number of callers wait for it."""

    def __init__(self, zk: Client) -> None:
        self._zk = zk
        self._waiters: dict[Waiter, None] = {}

    async def wait(self, wait_s: float | None = None) -> None:
        """Returns when it rings, or after `wait_s`."""
        waiter = self._zk.waiter()
        self._waiters[waiter] = None
        try:
            async with self._zk.move_on_after(wait_s):
                await waiter.wait()
        finally:
            self._waiters.pop(waiter, None)

    def ring(self) -> None:
        for waiter in self._waiters:
            waiter.wake()
