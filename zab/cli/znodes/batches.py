"""Many writes in few transactions, each no larger than a request may be.

    batches = Batches(zk, bytes_max)
    await batches.add(lambda transaction: transaction.delete(path, version))
    await batches.finish()

`fits` says beforehand whether a znode can be created at all.

Writes are done in the order in which they are added. A transaction is sent when the next write has no room in it, and
at the end. `done_count` says how many writes are certain: after an error, those of the transaction that failed are not
among them, and the error says whether they may have been done.

Not here: one transaction for everything, which either fits or is refused (`copying.py`).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from datatree.requests import Create
from zab.client import Acl, Part, Transaction
from zab.client.znodes import Znodes

__all__ = ["PARTS_COUNT_MAX", "Batches", "Write", "fits", "part_bytes"]

Write: TypeAlias = Callable[[Transaction], Part[Any]]

PARTS_COUNT_MAX: Final = 1_000
"""Of a transaction; as many as ZooKeeper's shell deletes in one."""
_HEADER_BYTES: Final = 9
"""Before each part, and behind the last; a request has 8 besides."""
_AROUND_BYTES: Final = 2 * _HEADER_BYTES
"""What a request has besides its parts, at most."""


def part_bytes(part: Part[Any]) -> int:
    """What it takes in a request."""
    return len(part.operation.body.encode()) + _HEADER_BYTES


def fits(path: bytes, data: bytes | None, acl: Iterable[Acl], ttl_ms: int | None, bytes_max: int) -> bool:
    """Whether a transaction that creates only this has no more bytes than that. path: the server's, with the chroot."""
    body = Create(path, data, tuple(entry.to_wire() for entry in acl), 0, ttl_ms)
    return len(body.encode()) + _HEADER_BYTES <= bytes_max - _AROUND_BYTES


class Batches:
    """bytes_max: of a request."""

    def __init__(self, zk: Znodes, bytes_max: int, parts_count_max: int = PARTS_COUNT_MAX) -> None:
        self.done_count = 0
        self.transaction_count = 0
        self._zk = zk
        self._room_bytes = bytes_max - _AROUND_BYTES
        self._parts_count_max = parts_count_max
        self._transaction = zk.transaction()
        self._bytes = 0

    async def add(self, *writes: Write) -> None:
        """All of them in one transaction."""
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
