"""Many writes in few transactions, each no larger than a request may be.

    batches = Batches(zk, bytes_max)
    await batches.add(lambda transaction: transaction.delete(path, version))
    await batches.finish()

`fits` tells whether a znode can be created at all.

Writes are done in the order in which they are added. A transaction is sent when there is no room in it for the next
write, and at the end. `done_count` is the number of writes known to be done: after an error it excludes those of the
transaction that failed, and the error says whether they may have been done.

Not here: one transaction for everything, which is refused if it does not fit (`copying.py`).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from datatree.requests import Create
from zab.client import Acl, Part, Transaction
from zab.client.znodes import Znodes

__all__ = ["PARTS_COUNT_MAX", "Batches", "Write", "fits", "part_bytes"]

Write: TypeAlias = Callable[[Transaction], Part[Any]]

PARTS_COUNT_MAX: Final = 1_000
"""Writes in a transaction; as many as ZooKeeper's shell deletes in one."""
_HEADER_BYTES: Final = 9
"""Header bytes before each part, and after the last; a request has 8 more."""
_AROUND_BYTES: Final = 2 * _HEADER_BYTES
"""Bytes of a request besides its parts, at most."""


def part_bytes(part: Part[Any]) -> int:
    """Its bytes in a request."""
    return len(part.operation.body.encode()) + _HEADER_BYTES


def fits(path: bytes, data: bytes | None, acl: Iterable[Acl], ttl_ms: int | None, bytes_max: int) -> bool:
    """Whether a transaction that creates only this znode has at most `bytes_max`. path: the server's, with the
    chroot."""
    body = Create(path, data, tuple(entry.to_wire() for entry in acl), 0, ttl_ms)
    return len(body.encode()) + _HEADER_BYTES <= bytes_max - _AROUND_BYTES


class Batches:
    """bytes_max: size of a request."""

    def __init__(self, zk: Znodes, bytes_max: int, parts_count_max: int = PARTS_COUNT_MAX) -> None:
        self.done_count = 0
        self.transaction_count = 0
        self._zk = zk
        self._room_bytes = bytes_max - _AROUND_BYTES
        self._parts_count_max = parts_count_max
        self._transaction = zk.transaction()
        self._bytes = 0

    async def add(self, *writes: Write) -> None:
        """All of them go into one transaction."""
        measured = self._zk.transaction()
        size = sum(part_bytes(write(measured)) for write in writes)
        is_full = len(self._transaction) + len(writes) > self._parts_count_max
        if self._bytes + size > self._room_bytes or is_full:
            await self.finish()
        for write in writes:
            write(self._transaction)
        self._bytes += size

    async def finish(self) -> None:
        """Send what is left."""
        if not len(self._transaction):
            return
        transaction, self._transaction, self._bytes = self._transaction, self._zk.transaction(), 0
        await transaction.commit()
        self.done_count += len(transaction)
        self.transaction_count += 1
