"""A znode of a client's own, which is removed when it is not wanted any more, by whatever way: the session owes that.

No cancellation and no lost connection can undo a `Debt`; where the session is over, so are its ephemerals.
"""

from abc import ABC, abstractmethod
from contextlib import suppress

from zab.client.client import Client
from zab.client.core.exceptions import ZabError
from zab.client.debts import Debt

__all__ = ["Standing", "owe"]


def owe(zk: Client, debt: Debt) -> bool:
    """Whether there is anything left to pay, and the session does."""
    with suppress(ZabError):
        zk.undertake(debt)
        return True
    return False


class Standing(ABC):
    """A contender's, or a presence."""

    _zk: Client

    @abstractmethod
    def _owed(self) -> Debt | None:
        """It is not wanted any more: what that takes, where there is anything to remove."""

    def abandon(self) -> Debt | None:
        """The session owes its removal from now on. None where there is nothing to remove."""
        debt = self._owed()
        return debt if debt is not None and owe(self._zk, debt) else None

    async def leave(self) -> None:
        """Gone when this returns; while no server is there, as soon as one is. Raises what forbids it."""
        debt = self.abandon()
        if debt is not None and self._zk.state.is_connected:
            await debt.heard()
            if debt.error is not None:
                raise debt.error
