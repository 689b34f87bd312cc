"""What the owner of a log wants done in object stores, one thing after the other: ledgers are copied, copies removed.

    LogObjects.take(effect)     `CopyLedger`, `RemoveObjects`, `SweepObjects`
    LogObjects.settled()        nothing is under way

A copy is read from the bookies entry by entry, written in blocks, read back whole, and compared: the index with what
was to be written, the checksum of each block with the one that was computed from the entries. What fails is told
(`LedgerCopied`, `trouble`), and left for the sweep, since its uid may be in the list.

File systems block, so each call of one is made in a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from zab.client.core.backends import Waiter
from zab.ledger.entries.envelope import Digest
from zab.ledger.managed.events import CopyLedger, ForObjects, LedgerCopied, RemoveObjects, SweepObjects
from zab.ledger.managed.log_info import InvalidLogError
from zab.ledger.managed.objects import (
    BlockBuilder,
    CopyIndex,
    DamagedObjectError,
    check_block,
    copy_of_name,
    data_name,
    decode_index,
    index_name,
    index_of,
)
from zab.ledgers.errors import LedgerError
from zab.ledgers.log_errors import NoSuchLogError
from zab.ledgers.log_reading import StoreOfLogs, log_info
from zab.ledgers.objects import NewObject, Objects
from zab.wire.checksums import MissingLibraryError

_FAILURES: Final = (OSError, LedgerError, DamagedObjectError, InvalidLogError, MissingLibraryError)


class OwnedLog(Protocol):
    """The log, as this part sees it."""

    @property
    def name(self) -> str: ...

    @property
    def password(self) -> bytes: ...

    def tell(self, each: LedgerCopied) -> None: ...

    def waiter(self) -> Waiter: ...


class StoppedError(LedgerError):
    """The owner is over, so nobody would say that the copy is done."""


class LogObjects:
    """See the docstring of the module."""

    def __init__(self, store: StoreOfLogs, log: OwnedLog) -> None:
        self.trouble = ""
        """Why objects could not be removed, the last time that was tried."""
        self._store, self._log = store, log
        self._wanted: deque[ForObjects] = deque()
        self._is_working = False
        self._is_over = False
        self._waiters: list[Waiter] = []

    def take(self, effect: ForObjects) -> None:
        """Do this after what is under way."""
        self._wanted.append(effect)
        if not self._is_working:
            self._is_working = True
            self._store.driving.start(self._work)

    def end(self) -> None:
        """The owner is over: a copy that is under way stops soon. What is to be removed still is."""
        self._is_over = True

    async def settled(self) -> None:
        """Returns when nothing is under way."""
        while self._is_working:
            waiter = self._log.waiter()
            self._waiters.append(waiter)
            await waiter.wait()

    async def _work(self) -> None:
        try:
            while self._wanted:
                await self._do(self._wanted.popleft())
        finally:
            self._is_working = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.wake()

    async def _do(self, effect: ForObjects) -> None:
        trouble = ""
        try:
            match effect:
                case CopyLedger():
                    await self._copy(effect)
                case RemoveObjects(copies):
                    for each in copies:
                        objects = await self._opened(each.uri)
                        # Without its index a copy is nothing.
                        for name in (index_name(each.ledger, each.uid), data_name(each.ledger, each.uid)):
                            await self._in_thread(partial(objects.remove, name))
                case SweepObjects(uri):
                    await self._sweep(await self._opened(uri))
        except _FAILURES as error:
            trouble = str(error) or type(error).__name__
        if isinstance(effect, CopyLedger):
            self._log.tell(LedgerCopied(effect.ledger, effect.uid, trouble))
        else:
            self.trouble = trouble

    async def _opened(self, uri: str) -> Objects:
        opens = self._store.parts.open_objects
        objects: Objects = await self._in_thread(partial(opens, uri))
        return objects

    async def _in_thread(self, do: Callable[[], Any]) -> Any:
        return await self._store.driving.in_thread(do)

    def _check(self) -> None:
        if self._is_over:
            raise StoppedError("its owner is over")

    # ----------------------------------------------------------------------------------------------------------- a copy

    async def _copy(self, wanted: CopyLedger) -> None:
        self._check()
        objects = await self._opened(wanted.uri)
        name = data_name(wanted.ledger, wanted.uid)
        data: NewObject = await self._in_thread(partial(objects.create, name))
        try:
            index = await self._write_data(wanted, data)
            await self._in_thread(data.commit)
        except _FAILURES:
            await self._in_thread(data.abort)
            raise
        encoded = index.encode()
        await self._in_thread(partial(_write, objects, index_name(wanted.ledger, wanted.uid), encoded))
        await self._in_thread(partial(self._verify, objects, index))

    async def _write_data(self, wanted: CopyLedger, data: NewObject) -> CopyIndex:
        async with await self._store.open_no_recovery(wanted.ledger, self._log.password) as reader:
            metadata = reader.metadata
            if not metadata.is_closed:
                raise DamagedObjectError("the ledger is not closed")
            builder = BlockBuilder(wanted.ledger, Digest(metadata.digest_type, metadata.password), wanted.block_bytes)
            async for entry in reader.entries(0, metadata.last):
                block = builder.add(entry)
                if block is not None:
                    self._check()
                    await self._in_thread(partial(data.write, block))
        rest = builder.finish()
        if rest is not None:
            await self._in_thread(partial(data.write, rest))
        return index_of(wanted.ledger, wanted.uid, metadata, builder)

    def _verify(self, objects: Objects, index: CopyIndex) -> None:
        """Read both objects back, and compare. Called in a thread."""
        ledger, uid = index.ledger, index.uid
        name = index_name(ledger, uid)
        if decode_index(objects.read(name, 0, objects.size(name) + 1), ledger, uid) != index:
            raise DamagedObjectError("the index that was read back differs from what was written")
        name = data_name(ledger, uid)
        if (size := objects.size(name)) != index.data_bytes:
            raise DamagedObjectError(f"the data have {size} bytes instead of {index.data_bytes}")
        for block in index.blocks:
            self._check()
            check_block(block, objects.read(name, block.offset, block.size), ledger)

    # ---------------------------------------------------------------------------------------------------------- a sweep

    async def _sweep(self, objects: Objects) -> None:
        """The list is read last: what it does not name then, it never names again."""
        names: list[str] = await self._in_thread(objects.names)
        found = {name: copy for name in names if (copy := copy_of_name(name)) is not None}
        if not found:
            return
        try:
            info = await log_info(self._store, self._log.name)
        except NoSuchLogError:
            named = set()
        else:
            named = {(each.id, each.offload.uid) for each in info.ledgers if each.offload is not None}
        for name, copy in found.items():
            if copy not in named:
                await self._in_thread(partial(objects.remove, name))


def _write(objects: Objects, name: str, data: bytes) -> None:
    new = objects.create(name)
    try:
        new.write(data)
        new.commit()
    except OSError:
        new.abort()
        raise
