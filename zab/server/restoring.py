"""Takes a snapshot that this member goes on with in place of what it has: what the admin command `restore` does (B8
restored members).

    header = await restorer.receive(pieces)    what it goes on with is durable; raises RestoreError
    restorer.begin_anew()                      the server ends, and begins with that

The bytes come into a file, so memory holds a piece of them; then the tree is made of it as at a start, beside the one
that serves, in a worker. A snapshot that is not whole, or not ours, changes nothing.

Limits: one at a time, and none after one that was taken; `admin.idleTimeout` for each piece to come, and
`admin.restore.timeoutInMS` for all of them; the disk keeps `diskLowBytes` free.

Not here: who may have it done (`zab.server.admin`), and what is made of it (`datatree.recovery.restoring`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import Final

import attrs
import trio
from starlette.requests import ClientDisconnect

from datatree.log.disk import Disk, File
from datatree.recovery.restoring import stage
from datatree.snapshot import (
    HEADER_BYTES,
    SYNC_BYTES,
    SnapshotError,
    SnapshotHeader,
    parse_snapshot_header,
    snapshot_path,
)

_SENT: Final = "what was sent"
_OF_ZOOKEEPER: Final = (b"ZKSN", b"\x1f\x8b", b"\x82SNAPPY\x00")
"""A snapshot of ZooKeeper begins so: as it is, by gzip, and by snappy."""


class RestoreError(Exception):
    """The member goes on as it is; the reason is its text. `is_sent`: it lies in what was sent."""

    def __init__(self, reason: str, *, is_sent: bool) -> None:
        super().__init__(reason)
        self.is_sent = is_sent


@attrs.define
class Restorer:
    """Of one server. before: the lineage of its member at the moment, and the configuration in force, as the history
    has it; idle_seconds: for each piece to come; whole_seconds: for all of them."""

    disk: Disk
    before: Callable[[], tuple[bytes, bytes]]
    low_bytes: int
    idle_seconds: float
    whole_seconds: float
    begin_anew: Callable[[], None]
    is_busy: bool = False
    """One is on its way; or was taken, and its sender is told what the member begins anew with."""
    begun_at: float = -math.inf
    """When something came last that looked like a snapshot: from there on it costs something."""
    _due_at: float = math.inf
    """When all of it has to be there."""

    async def receive(self, pieces: AsyncIterator[bytes]) -> SnapshotHeader:
        """Where the member begins anew, and the lineage that it has then. Raises RestoreError."""
        self.is_busy, is_taken = True, False
        self._due_at = trio.current_time() + self.whole_seconds
        try:
            header = await self._receive(pieces)
            is_taken = True
            return header
        except SnapshotError as error:
            raise RestoreError(f"no snapshot that can be restored: {error}", is_sent=True) from error
        except ClientDisconnect as error:
            raise RestoreError("the connection ended before the snapshot did", is_sent=True) from error
        except trio.TooSlowError as error:
            raise RestoreError(self._too_slow(), is_sent=True) from error
        except OSError as error:
            raise RestoreError(f"it cannot be written: {error.strerror or error}", is_sent=False) from error
        finally:
            self.is_busy = is_taken

    def _too_slow(self) -> str:
        if trio.current_time() < self._due_at:
            return f"nothing came for {self.idle_seconds:g} s"
        return f"not all of it came within {self.whole_seconds:g} s (admin.restore.timeoutInMS)"

    async def _receive(self, pieces: AsyncIterator[bytes]) -> SnapshotHeader:
        received = bytearray()
        while len(received) < HEADER_BYTES and (piece := await self._next(pieces)):
            received += piece
        if received.startswith(_OF_ZOOKEEPER):
            raise SnapshotError(_SENT, 0, "it is one of ZooKeeper: zab restore makes directories of it")
        header = parse_snapshot_header(bytes(received[:HEADER_BYTES]), _SENT)
        self.begun_at = trio.current_time()
        path = f"{snapshot_path(header.zxid)}.restore.tmp"
        try:
            await self._write_all(path, received, pieces)
            return await trio.to_thread.run_sync(stage, self.disk, path, *self.before())
        finally:
            with trio.CancelScope(shield=True), contextlib.suppress(OSError):
                await trio.to_thread.run_sync(self.disk.remove, path)

    async def _write_all(self, path: str, received: bytearray, pieces: AsyncIterator[bytes]) -> None:
        file = await trio.to_thread.run_sync(self._create, path)
        try:
            while piece := await self._next(pieces):
                received += piece
                if len(received) >= SYNC_BYTES:
                    await trio.to_thread.run_sync(self._write, file, bytes(received))
                    received.clear()
            await trio.to_thread.run_sync(self._write, file, bytes(received))
            # What is staged is as long, and beside it.
            self._demand_room(file.size)
        finally:
            file.close()

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Empty at the end. Raises TooSlowError."""
        with trio.fail_at(min(self._due_at, trio.current_time() + self.idle_seconds)):
            async for piece in pieces:
                if piece:
                    return piece
        return b""

    def _create(self, path: str) -> File:
        if self.disk.exists(path):
            self.disk.remove(path)
        return self.disk.open_append(path, create=True)

    def _write(self, file: File, data: bytes) -> None:
        self._demand_room(len(data))
        file.write(data)
        file.sync()

    def _demand_room(self, count: int) -> None:
        if self.low_bytes and self.disk.free_bytes() < self.low_bytes + count:
            raise RestoreError(
                f"the disk would have less than {self.low_bytes} bytes free (diskLowBytes)", is_sent=False
            )
