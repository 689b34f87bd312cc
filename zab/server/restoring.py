"""Receives a snapshot that replaces the state of this member, for the admin command `restore` (B8 restored members).

    header = await restorer.receive(pieces)    makes the snapshot durable; raises RestoreError
    await restorer.go_on()                     ends the server, which restarts with it

The bytes go into a file, so that memory has only a piece of them; then a worker makes the tree from it, as at a start,
beside the one that serves. An incomplete snapshot, or one that is not zab's, changes nothing.

A snapshot is refused while the ensemble is being reconfigured, as far as this member knows. Otherwise this member and
others that have not heard of the new configuration could be a quorum of the former one, with the restored history,
beside a quorum of the new one. A quorum of the former one has acknowledged the new configuration: each of its members
either knows it to be in force, and has another lineage, or has it outstanding, and refuses.

It is also refused if the files of this member do not have the configuration in force, for example since `zoo.cfg`
cannot be written. The snapshot comes without a configuration, so after a crash the files decide who belongs to the
ensemble: if it has grown from three members to five, two restored ones would be a quorum by old files.

Limits: one at a time, and none after one that was accepted; `admin.idleTimeout` for each piece to arrive, and
`admin.restore.timeoutInMS` for all of them; the disk keeps `diskLowBytes` free.

Not here: authorization (`zab.server.admin`), and the use of the snapshot (`datatree.recovery.restoring`).
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
"""The first bytes of ZooKeeper's snapshots: plain, gzip, and snappy."""

journal = Journal("admin")


class RestoreError(Exception):
    """The restore is refused, and the member stays as it is; the text is the reason. status: for HTTP, 400 if the
    snapshot is at fault."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


@attrs.frozen
class Before:
    """The lineage and configurations of a member when it gets a snapshot. The configurations are those of the history;
    empty: none."""

    lineage: bytes
    in_force: bytes = b""
    outstanding: bytes = b""


@attrs.define
class Restorer:
    """Receives snapshots for one server. before: returns the current state of its member; idle_seconds: the time for
    each piece; whole_seconds: for all pieces."""

    disk: Disk
    before: Callable[[], Before]
    low_bytes: int
    idle_seconds: float
    whole_seconds: float
    begin_anew: Callable[[], None]
    files_say: Callable[[], bool]
    """Whether its files have the configuration in force; called in a worker."""
    is_busy: bool = False
    """Whether a snapshot is being received; or was accepted, and its sender is being answered."""
    begun_at: float = -math.inf
    """When the last plausible snapshot began, which counts for the rate limit."""
    _due_at: float = math.inf
    """When the whole snapshot has to be received."""
    _staged_for: Before | None = None

    async def receive(self, pieces: AsyncIterator[bytes]) -> SnapshotHeader:
        """Receive a snapshot; returns its position, and the new lineage of the member. Raises RestoreError."""
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
        """The lineage and configuration of the member. Raises RestoreError if a reconfiguration is under way."""
        before = self.before()
        if before.outstanding:
            raise RestoreError(RECONFIGURED, 503)
        return before

    async def asked(self) -> Before:
        """The lineage and configuration of the member, if its files have them, too. Raises RestoreError."""
        before = self.settled()
        if not await trio.to_thread.run_sync(self.files_say):
            raise RestoreError(NOT_IN_FILES, 503)
        return before

    async def _is_in_force(self) -> bool:
        """Whether no reconfiguration came in between; otherwise the staged snapshot is dropped."""
        if self.before() == self._staged_for:
            return True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(drop_staged, self.disk)
        return False

    async def go_on(self) -> None:
        """Restart with the snapshot, after the sender was answered or is gone."""
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
            # The staged copy is as large, and exists at the same time.
            self._demand_room(file.size)
        finally:
            file.close()

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes:
        """The next piece; empty at the end. Raises TooSlowError."""
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
