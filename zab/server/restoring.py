"""Takes a snapshot that this member goes on with in place of what it has: what the admin command `restore` does (B8
restored members).

    header = await restorer.receive(pieces)    what it goes on with is durable; raises RestoreError
    await restorer.go_on()                     the server ends, and begins with that

The bytes come into a file, so memory holds a piece of them; then the tree is made of it as at a start, beside the one
that serves, in a worker. A snapshot that is not whole, or not ours, changes nothing.

Nor does one that comes while the ensemble is reconfigured, as far as this member knows. Else it and those that have
not heard of it could be a quorum of the configuration before, in the history that was restored, beside one of the
configuration that has come into force. A quorum of the one before has acknowledged that: each of those either knows it
to be in force, and is of another lineage, or has it outstanding, and refuses.

Nor where the files of this member do not say what is in force, as where `zoo.cfg` cannot be written. The state comes
without a configuration, so after a crash the files decide who belongs to the ensemble: of one that has grown from three
members to five, two restored ones would be a quorum by files of the three.

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
from datatree.recovery.restoring import drop_staged, stage
from datatree.snapshot import (
    HEADER_BYTES,
    SYNC_BYTES,
    SnapshotError,
    SnapshotHeader,
    parse_snapshot_header,
    snapshot_path,
)
from zab.host.journal.journal import Journal

RECONFIGURED: Final = "the ensemble is being reconfigured: give it again when that is over"
NOT_IN_FILES: Final = (
    "the files of this server do not say who belongs to the ensemble now, and would decide after a crash: the journal "
    "says what kept them from being written; give it again when they are"
)
_SENT: Final = "what was sent"
_OF_ZOOKEEPER: Final = (b"ZKSN", b"\x1f\x8b", b"\x82SNAPPY\x00")
"""A snapshot of ZooKeeper begins so: as it is, by gzip, and by snappy."""

journal = Journal("admin")


class RestoreError(Exception):
    """The member goes on as it is; the reason is its text. status: of HTTP, 400 where it lies in what was sent."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


@attrs.frozen
class Before:
    """What a member is of, when it is given a snapshot. Both configurations as the history has them; empty: none."""

    lineage: bytes
    in_force: bytes = b""
    outstanding: bytes = b""


@attrs.define
class Restorer:
    """Of one server. before: of its member, at the moment; idle_seconds: for each piece to come; whole_seconds: for all
    of them."""

    disk: Disk
    before: Callable[[], Before]
    low_bytes: int
    idle_seconds: float
    whole_seconds: float
    begin_anew: Callable[[], None]
    files_say: Callable[[], bool]
    """Whether its files say what is in force; called in a worker."""
    is_busy: bool = False
    """One is on its way; or was taken, and its sender is told what the member begins anew with."""
    begun_at: float = -math.inf
    """When something came last that looked like a snapshot: from there on it costs something."""
    _due_at: float = math.inf
    """When all of it has to be there."""
    _staged_for: Before | None = None

    async def receive(self, pieces: AsyncIterator[bytes]) -> SnapshotHeader:
        """Where the member begins anew, and the lineage that it has then. Raises RestoreError."""
        self.is_busy, is_taken = True, False
        self._due_at = trio.current_time() + self.whole_seconds
        try:
            header = await self._receive(pieces)
            is_taken = True
            return header
        except SnapshotError as error:
            raise RestoreError(f"no snapshot that can be restored: {error}", 400) from error
        except ClientDisconnect as error:
            raise RestoreError("the connection ended before the snapshot did", 400) from error
        except trio.TooSlowError as error:
            raise RestoreError(self._too_slow(), 400) from error
        except OSError as error:
            raise RestoreError(f"it cannot be written: {error.strerror or error}", 500) from error
        finally:
            self.is_busy = is_taken

    def _too_slow(self) -> str:
        if trio.current_time() < self._due_at:
            return f"nothing came for {self.idle_seconds:g} s"
        return f"not all of it came within {self.whole_seconds:g} s (admin.restore.timeoutInMS)"

    async def _receive(self, pieces: AsyncIterator[bytes]) -> SnapshotHeader:
        await self.asked()
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
            return await self._stage(path)
        finally:
            with trio.CancelScope(shield=True), contextlib.suppress(OSError):
                await trio.to_thread.run_sync(self.disk.remove, path)

    async def _stage(self, path: str) -> SnapshotHeader:
        before = self._staged_for = await self.asked()
        header = await trio.to_thread.run_sync(stage, self.disk, path, before.lineage, before.in_force)
        if not await self._is_in_force():
            raise RestoreError(RECONFIGURED, 503)
        return header

    def settled(self) -> Before:
        """What the member is of. Raises RestoreError where that is about to change."""
        before = self.before()
        if before.outstanding:
            raise RestoreError(RECONFIGURED, 503)
        return before

    async def asked(self) -> Before:
        """The same, where its files say it, too. Raises RestoreError."""
        before = self.settled()
        if not await trio.to_thread.run_sync(self.files_say):
            raise RestoreError(NOT_IN_FILES, 503)
        return before

    async def _is_in_force(self) -> bool:
        """Whether nothing has come in between; else nothing is staged any more."""
        if self.before() == self._staged_for:
            return True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(drop_staged, self.disk)
        return False

    async def go_on(self) -> None:
        """Once its sender was told. Also where nobody is there any more to be told."""
        with trio.CancelScope(shield=True):
            is_in_force = await self._is_in_force()
        if is_in_force:
            self.begin_anew()
        else:
            self.is_busy = False
            journal.warning("the ensemble was reconfigured while a snapshot was restored -> go on without it")

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
            raise RestoreError(f"the disk would have less than {self.low_bytes} bytes free (diskLowBytes)", 500)
