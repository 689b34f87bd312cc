"""The resources that a server opens before it runs, and closes afterwards: data directory, files, ports and logs.

    resources = await open_resources(config, filled)     raises ServerFailedError
    resources.close()

Start: lock the directory, recover, bind the ports. The listening sockets are open before the first turn, so a client
that finds the port finds a server.

Not here: the running server (`server`).
"""

from __future__ import annotations

import contextlib

import attrs
import trio

from datatree.recovery.holes import Hole
from datatree.recovery.recovered import Recovered
from zab.host.journal.audit_log import AuditLog, open_audit_log
from zab.host.journal.journal import Journal
from zab.host.journal.tracing import Tracer, open_tracing
from zab.host.loop.loop import now_ms, wall_ms
from zab.host.process.descriptors import client_descriptors
from zab.host.storage.disk import RealDisk
from zab.member.settings.config import Config
from zab.member.state.metrics import Metrics
from zab.native import loaded
from zab.server.address_book import AddressBook
from zab.server.binding import Sockets, bind
from zab.server.files import Files, files_of, warnings_of
from zab.server.quorum_host import quorum_addresses, warn_if_open
from zab.server.start import open_disk, recover_from
from zab.service.version import VERSION

journal = Journal("server")


@attrs.frozen(kw_only=True)
class Resources:
    """The resources of a server. `metrics` count from the start of recovery on."""

    config: Config
    """The configuration, with no more clients than descriptors allow."""
    metrics: Metrics
    addresses: AddressBook
    files: Files
    disk: RealDisk
    audit: AuditLog | None
    tracing: Tracer | None
    recovered: Recovered
    hole: Hole | None
    """The hole in the log that other members may fill."""
    sockets: Sockets

    def close(self) -> None:
        """Close the ports, the directory and the logs, once nothing uses them."""
        self.sockets.close()
        self.disk.close()
        if self.audit is not None:
            self.audit.stop()
        if self.tracing is not None:
            self.tracing.stop()


async def open_resources(config: Config, filled: Hole | None) -> Resources:
    """Open all resources. `filled`: the hole that the previous server filled, which recovery writes. Raises
    ServerFailedError, and then leaves nothing open."""
    journal.info("start", version=VERSION, native=loaded())
    for warning in (*config.warnings, *warnings_of(config)):
        journal.warning(str(warning))
    config = _with_room(config)
    metrics, addresses = Metrics(), AddressBook(config)
    files = files_of(config, addresses)
    warn_if_open(config)
    listening_at = await quorum_addresses(config)
    disk = open_disk(config)
    with contextlib.ExitStack() as undo:
        undo.callback(disk.close)
        audit = open_audit_log(
            config.audit, config.audit_file, wall_ms, metrics.count_lost_audit_records, config_file=config.file
        )
        if audit is not None:
            undo.callback(audit.start_failed)
        tracing = open_tracing(config.tracing, str(config.server_id), now_ms, config_file=config.file)
        if tracing is not None:
            undo.callback(tracing.stop)
        began_ms = now_ms()
        recovered, hole = await trio.to_thread.run_sync(recover_from, disk, config, filled)
        metrics.dbinittime.add(now_ms() - began_ms)
        metrics.startup_txns_loaded.add(recovered.replayed_count)
        sockets = await bind(config, listening_at)
        undo.pop_all()
    return Resources(
        config=config,
        metrics=metrics,
        addresses=addresses,
        files=files,
        disk=disk,
        audit=audit,
        tracing=tracing,
        recovered=recovered,
        hole=hole,
        sockets=sockets,
    )


def _with_room(config: Config) -> Config:
    """The configuration, with no more clients than descriptors allow."""
    have = client_descriptors(config.clients.outstanding_handshake_limit_count if config.clients.has_tls else 0)
    if config.clients.has_tls:
        clients = attrs.evolve(config.clients, outstanding_handshake_limit_count=have.newcomers_count)
        config = attrs.evolve(config, clients=clients)
    most = have.connected_count
    if 0 < config.limits.max_connections <= most:
        return config
    if config.limits.max_connections > most:
        journal.warning("maxCnxns is more than this process has descriptors for", maxCnxns=most)
    return attrs.evolve(config, limits=attrs.evolve(config.limits, max_connections=most))
