"""A bookie as a process on the real host.

    serve(settings, supervised, surroundings)       until it is cancelled; then it stops cleanly, unless that drops

Starting: the directories are locked, the port is bound, the cookie is compared with that in the coordination service,
which is waited for; then the files are opened and what the journal has is replayed, in a thread. Only then the bookie
answers clients, and is registered.

Stopping: the session is closed, so that writers learn of it at once; then the journal is ended in good order.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from datatree.log.disk import is_full
from zab.bookie.address import advertised_host, listening_host
from zab.bookie.auto_recovery import AutoRecoveryService
from zab.bookie.connection import BookieConnection, Closing
from zab.bookie.settings import BookieSettings
from zab.bookie.storage import Directories, Threads, open_directories
from zab.bookie.tls import BookieTls, open_tls, rereading
from zab.bookie.turn import BookieTurn, Limits, Ports
from zab.client import NotConnectedError, Settings, ZabError, connect
from zab.client.access.ensemble_access import EnsembleAccess, open_access
from zab.client.coordination import CONNECT_WAIT_MS, Coordination, perform_steps
from zab.client.on_trio import Dialler
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.host.journal.audit_log import AuditLog, open_audit_log
from zab.host.journal.journal import Journal
from zab.host.loop.handshakes import Handshakes
from zab.host.loop.loop import Loop, SystemClock, now_ms, wall_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.descriptors import client_descriptors
from zab.host.process.listening import listen
from zab.host.process.operator import JournalOperator
from zab.host.process.run_service import Supervised
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import UUID_BYTES, Identity
from zab.ledger.bookie.cookie_check import CookieError, LocalCookie, check_cookie
from zab.ledger.bookie.entry_files import EntryFiles
from zab.ledger.bookie.events import Input, JobFailed, Ordered, PrepareJournal
from zab.ledger.bookie.journal_files import JournalFiles
from zab.ledger.bookie.membership import Member
from zab.ledger.bookie.opening import Opened, open_files
from zab.ledger.bookie.segment import ForeignFileError
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.cookies import Cookie
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.service_info import Endpoint, ServiceInfo, bookie_endpoint, encode_service_info
from zab.ledger.store.bookies import RACK, read_instance
from zab.ledger.wire.tls_start import BookieStart
from zab.service.failure import CONFIG_ERROR, DATA_DIRECTORY_ERROR, ServerFailedError
from zab.wire.client_protocol import ClientProtocol
from zab.wire.frames import LENGTH_BYTES, FrameReader

if TYPE_CHECKING:
    from zab.bookie.http_services import HttpServices

STOP_SECONDS: Final = 30.0
TRY_AGAIN_SECONDS: Final = 1.0

journal = Journal("bookie")


@attrs.frozen
class Running:
    """A bookie that runs: what may be asked between two of its turns."""

    id: BookieId
    bookie: Bookie
    turn: BookieTurn
    coordination: Coordination


def _nothing(_running: Running) -> None:
    pass


def _no() -> bool:
    return False


@attrs.frozen(kw_only=True)
class Surroundings:
    """What a process of its own does not need, and the test kit does."""

    opened: Callable[[Running], None] = _nothing
    """Gets the bookie before its first turn, when its port listens."""
    drops: Callable[[], bool] = _no
    """Whether it ends as when its process is killed: what the disk has not begun to write is lost."""
    dial: Dialler | None = None
    """Opens the connections with the coordination service, instead of TCP or TLS."""


IN_A_PROCESS: Final = Surroundings()


async def serve(settings: BookieSettings, supervised: Supervised, surroundings: Surroundings = IN_A_PROCESS) -> None:
    """Run the bookie. Raises ServerFailedError."""
    for warning in (*settings.warnings, *_open_doors(settings)):
        journal.warning(warning)
    access, tls = open_access(settings.ensemble), open_tls(settings.tls)
    async with access.rereading(), rereading(tls):
        await _serve(settings, supervised, surroundings, access, tls)


async def _serve(
    settings: BookieSettings,
    supervised: Supervised,
    surroundings: Surroundings,
    access: EnsembleAccess,
    tls: BookieTls | None,
) -> None:
    with ExitStack() as closing:
        directories = await trio.to_thread.run_sync(open_directories, settings)
        closing.callback(directories.close)
        audit = _open_audit(settings, closing)
        loop = Loop()
        closing.callback(loop.close)
        mailbox: Mailbox[Input] = Mailbox(loop.wake)
        sock = await listen((listening_host(settings.place), settings.place.port))
        closing.callback(sock.close)
        start = _Start(settings, directories, sock.getsockname()[1], access, surroundings.dial)
        known = await start.known()
        opened = await trio.to_thread.run_sync(start.open, known)
        core = settings.core
        bookie = Bookie(core, opened, now_ms(), start.member(known))
        journal_files = JournalFiles(directories.disk, core, known.identity, opened.mark[0])
        threads = Threads(directories, journal_files, start.entry_files, mailbox, settings.requests.read_threads)
        coordination = _coordination(settings, mailbox, access, surroundings.dial)
        clients = _clients(settings, loop)
        ports = Ports(
            clock=SystemClock(),
            clients=clients,
            operator=JournalOperator("bookie"),
            answers=mailbox.items,
            journal=threads.append,
            read=threads.read,
            job=threads.do,
            ask_space=threads.ask_space,
            submit=coordination.submit,
            start_tls=None if tls is None else partial(_start_tls, clients, tls),
            audit=audit,
        )
        turn = BookieTurn(bookie, ports, _limits(settings))
        if settings.space.forced_read_only:
            mailbox.leave(Ordered(read_only=True))
        mailbox.leave(directories.space())
        recovery = AutoRecoveryService(settings, start.bookie, access, surroundings.dial, tls=tls)
        http = await _open_http(settings, turn, threads, start.bookie, mailbox, clients.handshakes, recovery)
        if http is not None:
            closing.callback(http.close)
        threads.start()
        clients.listen(sock)
        supervised.opened(loop)
        surroundings.opened(Running(start.bookie, bookie, turn, coordination))
        if audit is not None:
            audit.started()
        journal.info("listens", bookie=start.bookie, address=f"{start.host}:{start.port}")
        failures: list[ServerFailedError] = []
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(coordination.run)
                if http is not None:
                    nursery.start_soon(http.run)
                recovery.start_beside_a_bookie(nursery)
                supervised.ready()
                await loop.run(turn)
        except* ServerFailedError as group:
            failures += [each for each in group.exceptions if isinstance(each, ServerFailedError)]
        finally:
            with trio.CancelScope(shield=True):
                end = threads.drop if surroundings.drops() else threads.stop
                await trio.to_thread.run_sync(end, STOP_SECONDS)
        if failures:
            raise failures[0]


def _open_audit(settings: BookieSettings, closing: ExitStack) -> AuditLog | None:
    """The audit log, which `closing` stops; None: the settings want none."""
    audit = open_audit_log(
        settings.audit, settings.audit_file, wall_ms, lambda _count: None, config_file="the bookie's file"
    )
    if audit is not None:
        closing.callback(audit.stop)
    return audit


def _coordination(
    settings: BookieSettings, mailbox: Mailbox[Input], access: EnsembleAccess, dial: Dialler | None
) -> Coordination:
    metadata = settings.metadata
    return Coordination(metadata.uri.hosts, metadata.session_timeout_ms, mailbox.put, access, dial, _warn)


def _warn(sentence: str, reason: str) -> None:
    journal.warning(sentence, reason=reason)


def _open_doors(settings: BookieSettings) -> list[str]:
    """What may be left open by mistake."""
    host = listening_host(settings.place)
    if host.startswith("127.") or host in ("::1", "localhost"):
        return []
    tls = settings.tls
    if tls.is_enabled and tls.is_required:
        if tls.client_auth:
            return []
        reason = "TLS encrypts, and tlsClientAuthentication=true would want certificates"
    else:
        reason = "there are no logins, and TLS is not required" if tls.is_enabled else "there are no logins"
    return [f"{host or '*'}:{settings.place.port}: every client may do everything: {reason}"]


def _limits(settings: BookieSettings) -> Limits:
    return Limits(
        connections_max=client_descriptors(0).connected_count,
        input_bytes_max=settings.requests.input_bytes_max,
        unsent_bytes_max=settings.requests.unsent_total_bytes_max,
        warn_share=settings.space.warn_share,
        stops_when_full=not settings.space.read_only_enabled,
    )


def _clients(settings: BookieSettings, loop: Loop) -> ClientSockets[BookieConnection]:
    requests, tls = settings.requests, settings.tls

    def connected(host: str, port: int, _subject: str) -> BookieConnection:
        frames = FrameReader(requests.frame_bytes_max - LENGTH_BYTES)
        return BookieConnection(host, port, frames, requests.unsent_bytes_max)

    def in_clear(host: str, port: int, subject: str) -> BookieConnection:
        connection = connected(host, port, subject)
        connection.tls_start = BookieStart(tls.is_required)
        return connection

    protocol = ClientProtocol(in_clear if tls.is_enabled else connected, Closing.AT_ONCE, connected)
    return ClientSockets(loop, protocol, keep_alive=True)


def _start_tls(
    clients: ClientSockets[BookieConnection], tls: BookieTls, connection: BookieConnection, now: int
) -> None:
    clients.start_tls(connection, tls.policy, now)


async def _open_http(
    settings: BookieSettings,
    turn: BookieTurn,
    threads: Threads,
    bookie: BookieId,
    mailbox: Mailbox[Input],
    handshakes: Handshakes,
    recovery: AutoRecoveryService,
) -> HttpServices | None:
    """The port of metrics and administration; None: the settings name none."""
    if not settings.http.enabled:
        return None
    # The HTTP libraries take a fifth of a second to import.
    from zab.bookie.http_services import HttpServices

    http = HttpServices(settings, turn, threads, bookie, mailbox.put, turn.note, handshakes, recovery.figures)
    await http.open()
    return http


@attrs.frozen
class _Known:
    """What the coordination service has let this bookie be."""

    identity: Identity
    instance: str


class _Start:
    """What comes before the first turn."""

    def __init__(
        self,
        settings: BookieSettings,
        directories: Directories,
        port: int,
        access: EnsembleAccess,
        dial: Dialler | None,
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._access = access
        self._dial = dial or access.dial
        self.host = advertised_host(settings.place)
        self.port = port
        self.bookie = BookieId(settings.place.bookie_id or f"{self.host}:{port}")
        self.entry_files: EntryFiles

    # ------------------------------------------------------------------------------------------------------ the cookie

    async def known(self) -> _Known:
        """Compare the cookie, once there is a session. Raises ServerFailedError."""
        hosts = self._settings.metadata.uri.hosts
        journal.info("looks for the coordination service", hosts=hosts)
        while True:
            try:
                async with connect(
                    hosts,
                    dial=self._dial,
                    sasl=self._access.login,
                    session_timeout_ms=self._settings.metadata.session_timeout_ms,
                    settings=Settings(connect_wait_ms=CONNECT_WAIT_MS),
                ) as client:
                    return await perform_steps(client, self._check(), self._access.acl)
            except NotConnectedError as error:
                journal.warning("no server of the coordination service is found", hosts=hosts, reason=str(error))
            except (CookieError, InvalidMetadataError) as error:
                raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{self.bookie} must not start: {error}") from error
            except CoordinationError as error:
                raise ServerFailedError(CONFIG_ERROR, f"the coordination service refuses {error}") from error
            except ZabError as error:
                journal.warning("a session with the coordination service has ended", reason=str(error))
            await trio.sleep(TRY_AGAIN_SECONDS)

    def _check(self) -> Steps[_Known]:
        root, directories = self._settings.metadata.uri.root, self._directories
        instance = yield from read_instance(root)
        if instance is None:
            raise CookieError(
                f"there are no metadata of ledgers at {root} -> format the root first: `zab ledger format`"
            )
        local = directories.cookie()
        journals, ledgers = (self._settings.journal_directory,), (self._settings.ledger_directory,)
        cookie = Cookie(self.bookie, journals, ledgers, instance, ledgers)
        data = yield from check_cookie(root, cookie, local)
        if local is None:
            local = LocalCookie(data, os.urandom(UUID_BYTES))
            directories.write_cookie(local)
        return _Known(Identity(_instance_bytes(instance), local.uuid), instance)

    # ------------------------------------------------------------------------------------------------------- the files

    def open(self, known: _Known) -> Opened:
        """Open the files, and have a first journal file. Raises ServerFailedError."""
        disk, core = self._directories.disk, self._settings.core
        self.entry_files = EntryFiles(disk, core, known.identity)
        began = time.monotonic()
        try:
            opened = open_files(disk, core, known.identity)
            prepared = self.entry_files.perform(PrepareJournal())
        except OSError as error:
            full = f" -> {self._no_room()}" if is_full(error) else ""
            raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{self._named()}: {error}{full}") from error
        except ForeignFileError as error:
            raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{self._named()}: {error}") from error
        if isinstance(prepared, JobFailed):
            full = f" -> {self._no_room()}" if prepared.is_full else ""
            where = self._settings.journal_directory
            reason = f"{where}: no file for the journal: {prepared.reason}{full}"
            raise ServerFailedError(DATA_DIRECTORY_ERROR, reason)
        journal.info(
            "the files are open",
            ledgers=len(opened.table),
            segments=len(opened.segments),
            replayed=opened.replayed,
            seconds=round(time.monotonic() - began, 2),
        )
        return opened

    def _named(self) -> str:
        return ", ".join(each.directory for each in self._directories.disks)

    def _no_room(self) -> str:
        needed = self._settings.storage.journal_mib
        return (
            f"the disk is full: a bookie needs room for a journal file of {needed} MiB even to serve reads; free some "
            "space, or have a smaller journalMaxSizeMB"
        )

    def member(self, known: _Known) -> Member:
        """Its name, and what it registers, in the coordination service."""
        properties = {RACK: self._settings.place.rack} if self._settings.place.rack else {}
        endpoints = [bookie_endpoint(self.host, self.port, self._settings.tls.is_enabled)]
        http = self._settings.http
        if http.enabled and http.port:
            endpoints.append(Endpoint("httpserver", http.port, http.host, "http"))
        info = ServiceInfo(tuple(endpoints), properties)
        root = self._settings.metadata.uri.root
        return Member(root, self.bookie, known.instance.encode(), encode_service_info(info))


def _instance_bytes(instance: str) -> bytes:
    """The id of the cluster, as the headers of files have it."""
    try:
        return uuid.UUID(instance).bytes
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, instance).bytes
