"""The two HTTP ports of a server: commands and metrics. Opened beside the others; one that is taken is a warning.

Not here: what is answered (`admin`, `exposition`).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import trio

from datatree.log.batch import Batch, Position
from datatree.log.disk import Disk
from datatree.snapshot import snapshot_files
from zab.host.files.watched import Watched
from zab.host.journal.journal import Journal
from zab.host.loop.dial import numeric
from zab.host.loop.listener import open_listener
from zab.member.membership.reconfiguring import in_force
from zab.member.settings.config import Config
from zab.member.storage.events import SnapshotAsked
from zab.member.words.figures import MemberView
from zab.server.being_read import BeingRead
from zab.service.surroundings import Surroundings

if TYPE_CHECKING:
    from zab.host.http.http_server import HttpServer

journal = Journal("http")


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
        """One was written, or given up."""
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


class HttpPorts:
    """Of one server. `stores`: for HTTPS; None: it is not spoken."""

    def __init__(
        self,
        config: Config,
        member: MemberView,
        look: Callable[[], Surroundings],
        disk: Disk,
        snapshots: AskedSnapshots,
        read_committed: Callable[[int, int, int], tuple[Position | None, list[Batch]]],
        begin_anew: Callable[[], None],
        stores: Watched[ssl.SSLContext] | None,
    ) -> None:
        self._config = config
        self._member = member
        self._look = look
        self._disk = disk
        self._snapshots = snapshots
        self._read_committed = read_committed
        self.stores = stores
        self._begin_anew = begin_anew
        self._admin: HttpServer | None = None
        self._ports: list[tuple[HttpServer, socket.socket]] = []

    async def open(self) -> None:
        """Bind what is wanted. A port that cannot be had is told, and is missing from then on."""
        config = self._config
        if config.admin.enabled and config.admin.port:
            # What speaks HTTP takes a fifth of a second to import, which nobody waits for who wants no such port.
            from zab.server.admin import Admin
            from zab.server.own_configuration import files_say
            from zab.server.restoring import Before, Restorer

            restorer = Restorer(
                self._disk,
                lambda: Before(self._member.peer.lineage, *self._member.peer.memberships.told()),
                config.storage.disk_low_bytes,
                config.admin.idle_timeout_ms / 1000,
                config.commands.restore_timeout_ms / 1000,
                self._begin_anew,
                lambda: files_say(config, in_force(config, self._member.peer)),
            )
            admin = Admin(self._member, self._look, self._snapshots, self._disk, self._read_committed, restorer)
            self._admin = await self._open("admin", config.admin.address, config.admin.port, admin.application)
            self.take_new_stores()
        if config.commands.exports_metrics and config.metrics.port:
            from zab.server.exposition import application

            metrics = partial(application, self._member, self._look)
            await self._open("metrics", config.metrics.host, config.metrics.port, metrics)

    async def _open(self, name: str, host: str, port: int, application: Callable[[], Any]) -> HttpServer | None:
        from zab.host.http.http_server import HttpServer

        try:
            sock = open_listener(await numeric(host, port), port)
        except OSError as error:
            reason = error.strerror or str(error)
            journal.warning("no HTTP server: cannot listen", name=name, host=host, port=port, reason=reason)
            return None
        config = self._config
        server = HttpServer(application(), config.admin.idle_timeout_ms, config.admin.max_connections)
        self._ports.append((server, sock))
        journal.info("HTTP server", name=name, host=host, port=port)
        return server

    def take_new_stores(self) -> None:
        """Those that were read, for the connections from now on."""
        if self._admin is not None and self.stores is not None:
            self._admin.context, self._admin.takes_plain = self.stores.content, not self._config.admin.force_https

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            while self._ports:
                server, sock = self._ports.pop()
                nursery.start_soon(server.serve, sock)

    def close(self) -> None:
        """What was opened and not run."""
        for _, sock in self._ports:
            sock.close()
