"""A signal: each waiting caller continues when it is given, and looks what has happened."""

from zab.client.client import Client
from zab.client.core.backends import Waiter

__all__ = ["Signal"]


class Signal:
    """Given between two steps of the client, for example by a job; any number of callers wait for it."""

    def __init__(self, zk: Client) -> None:
        self._zk = zk
        self._waiters: dict[Waiter, None] = {}

    async def wait(self, wait_s: float | None = None) -> None:
        """Returns when it is given, or after `wait_s`."""
        waiter = self._zk.waiter()
        self._waiters[waiter] = None
        try:
            async with self._zk.move_on_after(wait_s):
                await waiter.wait()
        finally:
            self._waiters.pop(waiter, None)

    def give(self) -> None:
        for waiter in self._waiters:
            waiter.wake()
