"""The HTTP services of a server: admin commands, and metrics. Each has a port of its own.

Not here: the ports (`zab.host.http.ports`); the commands (`admin`); the figures (`zab.member.words.figures`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import trio

from datatree.log.disk import Disk
from zab.host.files.watched_file import WatchedFile
from zab.member.membership.reconfiguring import in_force
from zab.member.settings.config import Config
from zab.member.words.figures import MemberView, figures
from zab.member.words.surroundings import Surroundings
from zab.server.asked_snapshots import AskedSnapshots
from zab.server.surroundings import whole_state
from zab.service.figure import Figure

if TYPE_CHECKING:
    from zab.host.http.http_server import HttpServer
    from zab.host.http.ports import HttpPorts
    from zab.server.admin import ReadCommitted


class HttpServices:
    """The HTTP ports of one server. `stores`: for HTTPS; None: no HTTPS."""

    def __init__(
        self,
        config: Config,
        member: MemberView,
        look: Callable[[], Surroundings],
        disk: Disk,
        snapshots: AskedSnapshots,
        read_committed: ReadCommitted,
        begin_anew: Callable[[], None],
        stores: WatchedFile[ssl.SSLContext] | None,
    ) -> None:
        self._config = config
        self._member = member
        self._look = look
        self._disk = disk
        self._snapshots = snapshots
        self._read_committed = read_committed
        self._begin_anew = begin_anew
        self._stores = stores
        self._ports: HttpPorts | None = None
        self._admin: HttpServer | None = None

    async def open(self) -> None:
        """Bind the configured ports. A port that cannot be bound is skipped with a warning."""
        config = self._config
        has_admin = config.admin.enabled and config.admin.port
        has_metrics = config.commands.exports_metrics and config.metrics.port
        if not has_admin and not has_metrics:
            return
        # The HTTP libraries take a fifth of a second to import, and are only imported if such a port is configured.
        from zab.host.http.ports import HttpPorts

        self._ports = ports = HttpPorts(
            idle_ms=config.admin.idle_timeout_ms, connections_max=config.admin.max_connections
        )
        if has_admin:
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
            self._admin = await ports.open("admin", config.admin.address, config.admin.port, admin.application())
            self.take_new_stores()
        if has_metrics:
            from zab.host.http.exposition import application

            metrics = application(self._figures, exports_process=config.metrics.exports_process)
            await ports.open("metrics", config.metrics.host, config.metrics.port, metrics)

    async def _figures(self) -> Callable[[], Iterable[Figure]]:
        view = self._member.around(await trio.to_thread.run_sync(self._look))
        await whole_state(self._member)
        return partial(figures, view)

    def take_new_stores(self) -> None:
        """Use the certificates that were read again for new connections."""
        if self._admin is not None and self._stores is not None:
            self._admin.context, self._admin.takes_plain = self._stores.content, not self._config.admin.force_https

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._ports is not None:
            await self._ports.run()

    def close(self) -> None:
        """Close the ports that were opened and not run."""
        if self._ports is not None:
            self._ports.close()
