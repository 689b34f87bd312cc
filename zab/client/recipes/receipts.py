"""Receipts: they tell a client whether a transaction was done whose answer was lost, on any server.

    receipts = Receipts(zk, "/counters/a")
    await receipts.commit(lambda transaction: transaction.set(path, data, version))

Each transaction also writes its number into an ephemeral znode of this client: so all of it was done, or the znode has
an earlier number. After a lost connection the znode is read, after a sync. A transaction that was not done is sent
again.

Invariants:
- A `commit` that returns was done, exactly once. One that raises an error of its operations was not done.
- The znode belongs to this client (its name has a mark) and ends with its session; no other client touches it.

An object has one transaction at a time: others wait. An outcome stays unknown only if the session is over
(SessionExpiredError).
"""

from collections.abc import Callable, Iterable

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.transaction import Transaction
from zab.client.recipes.contender import mark_of
from zab.client.recipes.paths import checked
from zab.client.recipes.presence import Presence
from zab.client.recipes.signal import Signal

__all__ = ["Receipts"]


class Receipts:
    """parent: that of the znode; it is created if it does not exist."""

    def __init__(self, zk: Client, parent: str, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self._zk = zk
        self._steady = zk.retrying()
        self._parent = checked(zk, parent)
        self._acl = tuple(acl)
        self._presence: Presence | None = None
        self._count = 0
        self._is_busy = False
        self._free = Signal(zk)

    async def commit(self, fill: Callable[[Transaction], object]) -> None:
        """Commits what `fill` puts into a transaction; `fill` is called again if that is sent again.

        Raises ConnectionLossError only if another client deleted the receipt: then the outcome stays unknown.
        """
        while self._is_busy:
            await self._free.wait()
        self._is_busy = True
        try:
            await self._commit(fill)
        finally:
            self._is_busy = False
            self._free.give()

    async def _commit(self, fill: Callable[[Transaction], object]) -> None:
        self._count += 1
        attempts = Attempts()
        while True:
            if self._presence is None:
                presence = Presence(self._zk, f"{self._parent}/{mark_of(self._zk)}receipt", acl=self._acl)
                await presence.enter()
                self._presence = presence
            transaction = self._zk.transaction()
            fill(transaction)
            receipt = len(transaction)
            transaction.set(self._presence.path, b"%d" % self._count)
            try:
                await transaction.commit()
            except NoNodeError as error:
                if error.index != receipt:
                    raise
                attempts.again(error)
                self._presence = None
            except ConnectionLossError as error:
                if not error.definite and await self._is_done(self._presence.path, error):
                    return
                attempts.again(error)
            else:
                return

    async def _is_done(self, path: str, lost: ConnectionLossError) -> bool:
        await self._steady.sync(path)
        try:
            data, _ = await self._steady.get(path)
        except NoNodeError:
            self._presence = None
            raise lost from None
        return data == b"%d" % self._count
