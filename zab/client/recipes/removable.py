"""A znode of a client that its session removes when it is no longer needed, even if the owner is cancelled.

No cancellation and no lost connection can undo a `Cleanup`; if the session is over, its ephemerals are gone.
"""

from abc import ABC, abstractmethod
from contextlib import suppress

from zab.client.cleanup import Cleanup
from zab.client.client import Client
from zab.client.core.exceptions import ZabError

__all__ = ["Removable", "clean_up"]


def clean_up(zk: Client, cleanup: Cleanup) -> bool:
    """Has the session carry out the cleanup. False if the session is over, and its znodes are gone."""
    with suppress(ZabError):
        zk.undertake(cleanup)
        return True
    return False


class Removable(ABC):
    """The znode of a contender, or a presence."""

    _zk: Client

    @abstractmethod
    def _cleanup(self) -> Cleanup | None:
        """The cleanup that removes it; None if there is nothing to remove."""

    def abandon(self) -> Cleanup | None:
        """Has the session remove it. None if there is nothing to remove."""
        cleanup = self._cleanup()
        return cleanup if cleanup is not None and clean_up(self._zk, cleanup) else None

    async def leave(self) -> None:
        """Removes it; without a server, as soon as one is connected. Raises the error if it cannot be removed."""
        cleanup = self.abandon()
        if cleanup is not None and self._zk.state.is_connected:
            await cleanup.heard()
            if cleanup.error is not None:
                raise cleanup.error
