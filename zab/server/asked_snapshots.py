"""Snapshots that the admin server asks for: it waits for one that is new enough, and holds it while it is sent.

Not here: writing them (`snapshotter`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import attrs
import trio

from datatree.log.disk import Disk
from datatree.snapshot import snapshot_files
from zab.member.storage.events import SnapshotAsked
from zab.member.words.figures import MemberView
from zab.server.being_read import BeingRead


@attrs.define
class AskedSnapshots:
    """See `zab.server.admin.Snapshots`."""

    member: MemberView
    disk: Disk
    put: Callable[[SnapshotAsked], None]
    being_read: BeingRead
    _ended: trio.Event = attrs.Factory(trio.Event)
    _failed: bool = False

    def ended(self, *, failed: bool) -> None:
        """A snapshot was written, or given up."""
        self._failed = failed
        self._ended.set()
        self._ended = trio.Event()

    async def take(self) -> int | None:
        wanted = self.member.applied
        while True:
            found = await trio.to_thread.run_sync(snapshot_files, self.disk)
            if found and found[-1] >= wanted:
                return found[-1]
            ended = self._ended
            self.put(SnapshotAsked())
            await ended.wait()
            if self._failed:
                return None

    def hold(self, zxid: int) -> contextlib.AbstractContextManager[None]:
        return self.being_read.hold(zxid)
