"""A znode of a client's own, which is removed when it is not wanted any more, by whatever way: the session owes that.

No cancellation and no lost connection can undo a `Cleanup`; where the session is over, so are its ephemerals.
"""

from abc import ABC, abstractmethod
from contextlib import suppress

from zab.client.cleanup import Cleanup
from zab.client.client import Client
from zab.client.core.exceptions import ZabError

__all__ = ["Standing", "owe"]


def owe(zk: Client, cleanup: Cleanup) -> bool:
    """Whether there is anything left to pay, and the session does."""
    with suppress(ZabError):
        zk.undertake(cleanup)
        return True
    return False


class Standing(ABC):
    """A contender's, or a presence."""

    _zk: Client

    @abstractmethod
    def _owed(self) -> Cleanup | None:
        """It is not wanted any more: what that takes, where there is anything to remove."""

    def abandon(self) -> Cleanup | None:
        """The session owes its removal from now on. None where there is nothing to remove."""
        cleanup = self._owed()
        return cleanup if cleanup is not None and owe(self._zk, cleanup) else None

    async def leave(self) -> None:
        """Gone when this returns; while no server is there, as soon as one is. Raises what forbids it."""
        cleanup = self.abandon()
        if cleanup is not None and self._zk.state.is_connected:
            await cleanup.heard()
            if cleanup.error is not None:
                raise cleanup.error
