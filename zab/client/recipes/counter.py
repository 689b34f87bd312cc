"""A counter that any number of clients add to: a whole number as decimal text in a znode.

    counter = Counter(zk, "/counters/a")
    await counter.add(2)                                # the value after it
    await counter.value()
    await counter.compare_and_set(5, 0)                 # False when it is not 5

A change is made only to the version that was read; if another client was faster, it is tried again: that is the only
error after which it is. After a lost connection a receipt (`receipts`), a child of the znode, tells whether the change
was done: so each `add` that returns has counted once.

Raises, besides the errors of requests: BadDataError if the znode holds no number. A number has at most `DIGITS_MAX`
digits.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.transaction import Transaction
from zab.client.recipes.errors import BadDataError
from zab.client.recipes.paths import checked
from zab.client.recipes.receipts import Receipts

__all__ = ["DIGITS_MAX", "Counter"]

DIGITS_MAX: Final = 1_000
_NUMBER: Final = re.compile(rb"-?[0-9]{1,%d}" % DIGITS_MAX)


class Counter:
    """default: the value while the znode does not exist or is empty. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, *, default: int = 0, acl: Iterable[Acl] = OPEN_ACL) -> None:
        checked(zk, path)
        self.path = path
        self._zk = zk
        self._steady = zk.retrying()
        self._default = default
        self._acl = tuple(acl)
        self._receipts = Receipts(zk, path, acl)

    async def value(self) -> int:
        """The value that this server has; the default if the counter does not exist."""
        try:
            data, _ = await self._steady.get(self.path)
        except NoNodeError:
            return self._default
        return self._number(data)

    async def add(self, amount: int = 1) -> int:
        """Returns the value after it."""
        value = await self._change(lambda value: value + amount)
        assert value is not None
        return value

    async def compare_and_set(self, expected: int, value: int) -> bool:
        """Sets it to `value` if it is `expected`; returns whether it was."""
        return await self._change(lambda found: value if found == expected else None) is not None

    async def _change(self, change: Callable[[int], int | None]) -> int | None:
        attempts = Attempts()
        while True:
            try:
                data, stat = await self._steady.get(self.path)
            except NoNodeError as error:
                attempts.again(error)
                await self._create()
                continue
            wanted = change(self._number(data))
            if wanted is None:
                return None
            if abs(wanted) >= 10**DIGITS_MAX:
                raise ValueError(f"{self.path}: a counter has {DIGITS_MAX:,} digits at most")
            encoded, version = b"%d" % wanted, stat.version

            def fill(transaction: Transaction, encoded: bytes = encoded, version: int = version) -> None:
                transaction.set(self.path, encoded, version)

            try:
                await self._receipts.commit(fill)
            except BadVersionError:
                # Another client was faster.
                continue
            except NoNodeError as error:
                # Another client removed it while it was part of the transaction.
                if error.index is None:
                    raise
                attempts.again(error)
                continue
            return wanted

    async def _create(self) -> None:
        await self._steady.ensure_path(self.path.rpartition("/")[0] or "/", self._acl)
        try:
            await self._zk.create(self.path, b"%d" % self._default, self._acl)
        except (NodeExistsError, NoNodeError, ConnectionLossError):
            # It exists, or that is unknown: the caller looks again.
            return

    def _number(self, data: bytes | None) -> int:
        if not data:
            return self._default
        if _NUMBER.fullmatch(data):
            return int(data)
        raise BadDataError(self.path, f"it holds {data[:20]!r}, which is no whole number")
