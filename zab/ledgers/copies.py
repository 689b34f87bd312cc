"""Reading the copy of a ledger in an object store, as a `LedgerReader` reads bookies.

Each block is verified by its checksum, and each entry by its digest, if the digest needs no password or the caller
knows it. Raises OffloadUnavailableError, OffloadDamagedError, BadPasswordError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.managed.log_info import Offload
from zab.ledger.managed.objects import (
    INDEX_BYTES_MAX,
    CopyIndex,
    DamagedObjectError,
    data_name,
    decode_index,
    entries_of,
    index_name,
)
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledgers.errors import BadPasswordError
from zab.ledgers.log_errors import OffloadDamagedError, OffloadUnavailableError
from zab.ledgers.objects import Objects
from zab.ledgers.parts import Parts


async def open_copy(parts: Parts, log: str, ledger: int, offload: Offload, password: bytes | None) -> CopyReader:
    """A reader of this copy. `password` None: whatever it is."""
    uri, uid = offload.uri, offload.uid

    def read() -> tuple[Objects, CopyIndex]:
        objects, name = parts.open_objects(uri), index_name(ledger, uid)
        size = objects.size(name)
        if size > INDEX_BYTES_MAX:
            raise DamagedObjectError(f"an index of {size} bytes")
        return objects, decode_index(objects.read(name, 0, size), ledger, uid)

    objects, index = await _in_thread(parts, log, ledger, read)
    if password is not None and not index.takes(password):
        raise BadPasswordError("it has another password", ledger)
    return CopyReader(parts, log, objects, index, password)


async def _in_thread(parts: Parts, log: str, ledger: int, read: Callable[[], Any]) -> Any:
    try:
        return await parts.driving.in_thread(read)
    except DamagedObjectError as error:
        raise OffloadDamagedError(f"the copy of ledger {ledger} is damaged: {error}", log) from None
    except OSError as error:
        raise OffloadUnavailableError(f"the copy of ledger {ledger} cannot be read: {error}", log) from None


class CopyReader:
    """Reads one copy."""

    def __init__(self, parts: Parts, log: str, objects: Objects, index: CopyIndex, password: bytes | None) -> None:
        self.id = index.ledger
        self.metadata: LedgerMetadata = index.metadata
        self._parts, self._log, self._objects, self._index = parts, log, objects, index
        digest_type = index.metadata.digest_type
        is_trusted = password is None and digest_type is DigestType.HMAC
        self._opens: Digest | DigestType = digest_type if is_trusted else Digest(digest_type, password or b"")

    def tail(self, first: int = 0) -> CopyEntries:
        """The entries from `first` to the end."""
        return CopyEntries(self, first, self._index.entries)

    def close(self) -> None:
        """Nothing is open between two reads."""

    async def block_of(self, entry: int) -> list[Entry]:
        """The entries of the block that has this one."""
        index, objects, opens = self._index, self._objects, self._opens
        block = index.blocks[index.at(entry)]

        def read() -> list[Entry]:
            data = objects.read(data_name(index.ledger, index.uid), block.offset, block.size)
            return list(entries_of(block, data, index.ledger, opens))

        found: list[Entry] = await _in_thread(self._parts, self._log, self.id, read)
        return found


class CopyEntries(AsyncIterator[Entry]):
    """`async for entry in …`."""

    def __init__(self, reader: CopyReader, first: int, end: int) -> None:
        self._reader = reader
        self._next, self._end = first, end
        self._entries: deque[Entry] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        if self._next >= self._end:
            raise StopAsyncIteration
        if not self._entries:
            self._entries += [each for each in await self._reader.block_of(self._next) if each.entry >= self._next]
        entry = self._entries.popleft()
        self._next = entry.entry + 1
        return entry

    def close(self) -> None:
        """Read no more."""
        self._end = 0
        self._entries.clear()
