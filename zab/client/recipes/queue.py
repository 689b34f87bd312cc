"""Queues: `Queue`, whose items are taken, and `LockingQueue`, whose items are held until they are consumed.

    queue = Queue(zk, "/queues/a")
    await queue.put(b"work", priority=10)
    data = await queue.get()                            # it is gone: no other client gets it

    queue = LockingQueue(zk, "/queues/b")
    async with queue.take() as item:                    # others do not get it meanwhile
        work(item.data, token=item.token)
        await item.consume()                            # now it is gone; otherwise another client gets it

    …/entries/entry-100-0000000007      an item: its priority (0 to 999, lower ones first) and its number
    …/taken/entry-100-0000000007        LockingQueue: its holder's ephemeral: a mark, and the name
    …/receipts, …/waiting               receipts of this recipe's transactions; clients that wait for an item

The layout is that of kazoo's LockingQueue.

- *An item is put once and taken once*, even if answers are lost: each is a transaction with a receipt (`receipts`), or
  the holder's znode tells whether it was done.
- *A held item returns to the queue* when it is released, or when the holder's session ends. Then `consume` is refused.
  Since another client may hold it by then, the work has to use the token (`holding`), or be safe to do twice.
- *One client waits for an item, the others for their turn*, in a lock's queue: so an item wakes one of them.
- An item may be lost if the `get` that took it is cancelled at that moment. `LockingQueue` has no such moment.

Raises, besides the errors of requests: WaitOverError; LostError from `consume`.
"""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NodeExistsError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.transaction import Transaction
from zab.client.core.watcher import Watcher
from zab.client.recipes.contender import mark_of, on_circle
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.holding import Held, Hold
from zab.client.recipes.lock import Lock
from zab.client.recipes.paths import checked
from zab.client.recipes.presence import Presence
from zab.client.recipes.receipts import Receipts

__all__ = ["PRIORITY_MAX", "LockingQueue", "Queue", "Taken"]

T = TypeVar("T")

PRIORITY_MAX: Final = 999
_DEFAULT_PRIORITY: Final = 100
_ENTRY: Final = re.compile(r"entry-([0-9]{3})-(-?[0-9]+)")


class _Items(Generic[T]):
    """What both queues have in common. T: what a caller that takes an item gets."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self.path = checked(zk, path)
        self._zk = zk
        self._steady = zk.retrying()
        self._acl = tuple(acl)
        self._entries = f"{self.path}/entries"
        self._receipts = Receipts(zk, f"{self.path}/receipts", acl)
        self._turn = Lock(zk, f"{self.path}/waiting", acl=acl)

    async def put(self, data: bytes, priority: int = _DEFAULT_PRIORITY) -> None:
        """Adds an item after those of its priority. It is in the queue when this returns."""
        await self.put_all([data], priority)

    async def put_all(self, items: Sequence[bytes], priority: int = _DEFAULT_PRIORITY) -> None:
        """Adds all items, in order, or none."""
        if not 0 <= priority <= PRIORITY_MAX:
            raise ValueError(f"a priority is from 0 to {PRIORITY_MAX}, not {priority}")

        def fill(transaction: Transaction) -> None:
            for data in items:
                transaction.create(f"{self._entries}/entry-{priority:03d}-", data, self._acl, sequence=True)

        attempts = Attempts()
        while True:
            try:
                return await self._receipts.commit(fill)
            except NoNodeError as error:
                if error.index is None:
                    raise
                attempts.again(error)
                await self._steady.ensure_path(self._entries, self._acl)

    async def count(self) -> int:
        """How many items are in the queue, including those that are held."""
        return len(await self._names())

    async def _wait(self, wait_s: float | None) -> T:
        """Waits for an item. The time limit ends the wait, and never the taking of an item."""
        taken = await self._take()
        if taken is not None:
            return taken
        ends_at = None if wait_s is None else self._zk.now() + wait_s
        try:
            turn = await self._turn.acquire(wait_s)
        except WaitOverError:
            raise WaitOverError(self.path, wait_s) from None
        watcher = self._zk.watcher()
        try:
            while True:
                await self._watch(watcher)
                taken = await self._take()
                if taken is not None:
                    return taken
                async with self._zk.move_on_after(None if ends_at is None else ends_at - self._zk.now()) as scope:
                    await watcher.receive()
                if scope.is_over:
                    raise WaitOverError(self.path, wait_s)
        finally:
            watcher.close()
            # A caller that is cancelled while it waits here would lose what it took.
            turn._let_go()

    async def _names(self) -> list[str]:
        """The names of the items, in order."""
        try:
            return in_order(await self._steady.get_children(self._entries))
        except NoNodeError:
            return []

    async def _take(self) -> T | None:
        """Takes the first available item."""
        raise NotImplementedError

    async def _watch(self, watcher: Watcher) -> None:
        """Sets watches that report a possible item."""
        await self._watch_children(self._entries, watcher)

    async def _watch_children(self, path: str, watcher: Watcher) -> None:
        """Watches the children; creates the znode if it does not exist."""
        attempts = Attempts()
        while True:
            try:
                await self._steady.get_children(path, watch=watcher)
                return
            except NoNodeError as error:
                attempts.again(error)
                await self._steady.ensure_path(path, self._acl)


class Queue(_Items[bytes]):
    """acl: the ACL of the znodes."""

    async def get(self, wait_s: float | None = None) -> bytes:
        """Takes the first item; waits for one if there is none. Raises WaitOverError."""
        return await self._wait(wait_s)

    async def try_get(self) -> bytes | None:
        """Takes the first item; None if there is none."""
        return await self._take()

    async def _take(self) -> bytes | None:
        for name in await self._names():
            path = f"{self._entries}/{name}"

            def fill(transaction: Transaction, path: str = path) -> None:
                transaction.delete(path)

            try:
                data, _ = await self._steady.get(path)
                await self._receipts.commit(fill)
            except NoNodeError:
                # Another client was faster.
                continue
            return data or b""
        return None


class Taken(Held):
    """A held item: a `Held` with `data`."""

    def __init__(self, queue: "LockingQueue", hold: Hold, claim: Presence, data: bytes) -> None:
        super().__init__(hold, claim)
        self.data = data
        self._queue = queue
        self._claim = claim

    async def consume(self) -> None:
        """Removes the item, whose work is done. Raises LostError if it is no longer held: another client may have
        it."""
        self.check()
        await self._queue._consume(self._claim)
        self._claim.forget()
        self._stop()


class LockingQueue(_Items[Taken]):
    """name: that of the holder, in its znode. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, path, acl=acl)
        self._taken = f"{self.path}/taken"
        self._name = name.encode()

    async def get(self, wait_s: float | None = None) -> Taken:
        """Holds the first item that is not held; waits for one. Raises WaitOverError. Then `consume`, or `release`.

        The result is the only way to give the item back. If it is lost, as when another part of a `gather` fails, the
        item is held until the session ends: `take` gives it back in any case."""
        return await self._wait(wait_s)

    async def try_get(self) -> Taken | None:
        """Holds the first item that is not held; None if there is none."""
        return await self._take()

    @asynccontextmanager
    async def take(self, wait_s: float | None = None) -> AsyncIterator[Taken]:
        """Holds an item for the length of the block; releases it unless it was consumed. Raises WaitOverError."""
        item = await self.get(wait_s)
        try:
            yield item
        finally:
            await item.release()

    async def _consume(self, claim: Presence) -> None:
        """Removes the item and the claim, or neither. Raises LostError."""
        entry = f"{self._entries}/{claim.path.rpartition('/')[2]}"
        attempts = Attempts()
        while True:
            transaction = self._zk.transaction()
            transaction.delete(claim.path)
            transaction.delete(entry)
            try:
                await transaction.commit()
            except NoNodeError:
                raise LostError(claim.path, "somebody else removed it") from None
            except ConnectionLossError as error:
                if not error.definite and await self._is_consumed(claim, entry):
                    return
                attempts.again(error)
            else:
                return

    async def _is_consumed(self, claim: Presence, entry: str) -> bool:
        """Whether the lost transaction was done. As long as the session lives no other client removes the claim; once
        the item is gone, a client that does not know that yet may claim it for a moment."""
        await self._steady.sync(entry)
        found = await self._steady.exists(claim.path)
        if found is not None and found.czxid == claim.czxid:
            return False
        if await self._steady.exists(entry) is not None:
            raise LostError(claim.path, "somebody else removed it")
        return True

    async def _take(self) -> Taken | None:
        held = set(await self._held_names())
        for name in await self._names():
            if name not in held:
                taken = await self._claim(name)
                if taken is not None:
                    return taken
        return None

    async def _claim(self, name: str) -> Taken | None:
        """Holds the item; None if another client was faster."""
        mark = mark_of(self._zk).encode()
        claim = Presence(self._zk, f"{self._taken}/{name}", mark + self._name, self._acl, is_shared=True)
        taken = None
        try:
            await claim.enter()
            data, _ = await self._steady.get(f"{self._entries}/{name}")
            hold = Hold(self._zk, claim.path, claim.czxid)
            self._zk.undertake(hold)
            taken = Taken(self, hold, claim, data or b"")
        except (NodeExistsError, NoNodeError):
            # Held by another client, or consumed since the list was read.
            return None
        finally:
            if taken is None:
                await claim.leave()
        return taken

    async def _held_names(self) -> list[str]:
        try:
            return await self._steady.get_children(self._taken)
        except NoNodeError:
            return []

    async def _watch(self, watcher: Watcher) -> None:
        await super()._watch(watcher)
        await self._watch_children(self._taken, watcher)


def in_order(names: Iterable[str]) -> list[str]:
    """The names of items, ordered by priority and then by number, which may wrap around."""
    found = []
    for name in names:
        match = _ENTRY.fullmatch(name)
        if match is not None:
            found.append((int(match[1]), int(match[2]), name))
    if found:
        start = found[0][1]
        found.sort(key=lambda entry: (entry[0], on_circle(entry[1], start)))
    return [name for _, _, name in found]
