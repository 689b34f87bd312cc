"""The echo service as a process on the real host: `python -m tests.host.echo.service FILE`."""

from __future__ import annotations

import random
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import attrs
import trio

from tests.host.echo.echo import CLIENT_PROTOCOL, LINK_PROTOCOL, PURPOSES, REALM, Echo
from tests.host.echo.echo_log import EchoLog, StorageFailed
from tests.host.echo.turn import EchoTurn, Ports
from zab.configuration.blocks.audit import AuditSettings
from zab.configuration.blocks.journal import JournalSettings
from zab.configuration.blocks.metrics import MetricsSettings
from zab.configuration.blocks.tls import VERSIONS_OF_TLS, TlsSettings
from zab.configuration.fields import block, integer, read, setting, text_of, whole_numbers
from zab.host.files.private_file import read_private
from zab.host.files.secret_file import read_secrets
from zab.host.http.exposition import application
from zab.host.http.ports import HttpPorts
from zab.host.journal.audit_log import open_audit_log
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.host.loop.link_dial import dial_link
from zab.host.loop.links import Links
from zab.host.loop.loop import Loop, SystemClock, wall_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.listening import listen
from zab.host.process.operator import JournalOperator
from zab.host.process.run_service import Supervised, run_service
from zab.host.storage.disk import RealDisk
from zab.host.storage.log_thread import LogThread
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_stores import accepting, port_tls
from zab.service.figure import Figure
from zab.wire.handshake import Party
from zab.wire.login.digest_md5 import key_of

HOST = "127.0.0.1"
STOP_SECONDS, SLOW_MS, DIAL_SECONDS = 5.0, 1000, 5.0


@attrs.frozen(kw_only=True)
class EchoSettings:
    """The keys of the service itself."""

    directory: str = setting("dataDir", "data", text_of, "path", "The directory of the log.")
    port: int = setting("clientPort", 7007, integer(1, 65535), "port", "The port for clients.")
    sid: int = setting("id", 1, integer(1, 255), "id", "The id of this server.")
    link_ports: tuple[int, ...] = setting("linkPorts", (), whole_numbers(1, 65535), "ports", "Those of all, by id.")
    secret: str | None = setting("secretFile", None, text_of, "path", "How servers prove who they are.")
    users: str | None = setting("usersFile", None, text_of, "path", "Lines of user:password. None: nobody logs in.")


@attrs.frozen(kw_only=True)
class Config:
    """What the file says."""

    echo: EchoSettings = block(EchoSettings)
    journal: JournalSettings = block(JournalSettings, "log.")
    audit: AuditSettings = block(AuditSettings, "audit.")
    metrics: MetricsSettings = block(MetricsSettings, "metrics.")
    tls: TlsSettings = block(TlsSettings, "ssl.")


async def serve(config: Config, supervised: Supervised, *, log_of: Callable[[RealDisk], EchoLog] = EchoLog) -> None:
    """Echo until cancelled. Raises ServerFailedError when the log cannot be written."""
    echo = config.echo
    others = {sid: Address(HOST, port) for sid, port in enumerate(echo.link_ports, 1) if sid != echo.sid}
    with ExitStack() as closing:
        disk = RealDisk(echo.directory)
        closing.callback(disk.close)
        file = config.audit.file or f"{echo.directory}/audit.log"
        audit = open_audit_log(config.audit, file, wall_ms, lambda _count: None, config_file=echo.directory)
        if audit is not None:
            closing.callback(audit.stop)
        log = await trio.to_thread.run_sync(log_of, disk)
        loop = Loop()
        mailbox = Mailbox(loop.wake)
        log_thread = LogThread(log, mailbox, SLOW_MS, say_slow=id, timed=id, failed=StorageFailed)
        closing.callback(log_thread.close, STOP_SECONDS)
        users, dials = users_in(echo.users) if echo.users else {}, [sid for sid in others if sid < echo.sid]
        service = Echo(log.count, random.SystemRandom(), users, dials)
        party = Party(echo.sid, 1, 1, secrets=read_secrets(echo.secret) if echo.secret else (), is_open=not echo.secret)
        greeting = Greeting(PURPOSES, others.keys, lambda: party, lambda *_purpose: None)
        links, clients = Links(loop, LINK_PROTOCOL, greeting), ClientSockets(loop, CLIENT_PROTOCOL)
        closing.callback(loop.close)
        clients.listen(await listen((HOST, echo.port)), tls_of(config.tls) if config.tls.key_store else None)
        if others:
            links.listen(await listen((HOST, echo.link_ports[echo.sid - 1])))
        http = HttpPorts()
        closing.callback(http.close)
        metrics = application(partial(looked, service.figures), exports_process=config.metrics.exports_process)
        if config.metrics.port:
            await http.open("metrics", config.metrics.host, config.metrics.port, metrics)

        async def dial(sid: int) -> None:
            await dial_link(links, greeting, sid, others[sid], DIAL_SECONDS)
            mailbox.wake()

        async with trio.open_nursery() as nursery:
            ports = Ports(
                *(SystemClock(), clients, links, JournalOperator(), audit),
                append=log_thread.put,
                dial=partial(nursery.start_soon, dial),
                answers=mailbox.items,
            )
            log_thread.start()
            nursery.start_soon(http.run)
            supervised.opened(loop)
            if audit is not None:
                audit.started()
            supervised.ready()
            await loop.run(EchoTurn(service, ports))


async def looked(figures: Callable[[], Iterable[Figure]]) -> Callable[[], Iterable[Figure]]:
    """Figures are always of one moment: between two turns."""
    return figures


def users_in(path: str) -> dict[str, bytes]:
    lines = read_private(path, 1 << 20, "it has the passwords of users").decode().split()
    return {user: key_of(user, REALM, password) for user, password in (line.split(":", 1) for line in lines)}


def tls_of(settings: TlsSettings) -> TlsPolicy:
    return TlsPolicy(accepting(port_tls(settings, "ssl", VERSIONS_OF_TLS), ssl.CERT_NONE), takes_plain=False)


def main(path: str) -> int:
    config = read(Config, Path(path).read_text(encoding="utf-8"))
    return run_service(partial(serve, config), config.journal, stops_with_parent=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
