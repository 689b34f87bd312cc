"""A broker as a process on the real host.

    serve(config, supervised, surroundings)     until it is cancelled; then it stops cleanly, unless that drops

Starting: the directory is locked, the ports are bound, and the session with the coordination service begins. The broker
registers when it has one; then its logs are opened and recovered in a thread, which may take a while.

Stopping: other brokers lead first what this one leads (controlled shutdown). Then the session is closed, so that others
take over at once; then the logs are closed and a mark says so, and the next start trusts them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from zab.broker.configuration import hints
from zab.broker.links import BrokerLinks
from zab.broker.tls import ListenerTls
from zab.client.access.ensemble_access import open_access
from zab.client.coordination import Coordination
from zab.client.on_trio import Dialler
from zab.host.files.open_files import OpenFiles
from zab.host.journal.audit_log import AuditLog, open_audit_log
from zab.host.journal.journal import Journal
from zab.host.loop.loop import Loop, SystemClock, now_ms, wall_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.listening import listen
from zab.host.process.operator import JournalOperator
from zab.host.process.run_service import Supervised
from zab.host.storage.disk import DirectoryInUseError, RealDisk
from zab.host.storage.job_thread import JobThread
from zab.host.storage.log_thread import LogThread
from zab.host.tls.policy import TlsPolicy
from zab.kafka.primitives import Uuid
from zab.partition.access.principals import of_subject
from zab.partition.broker import Broker
from zab.partition.cleaning import CleanJob, clean
from zab.partition.controller.controller import Controller
from zab.partition.controller.registration import Registration
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import Broker as RegisteredBroker
from zab.partition.coordinator_log import load_part
from zab.partition.events import Input, LogsOpened, LogsRefused, RecordFound
from zab.partition.figures import Surroundings as FigureSurroundings
from zab.partition.log.checkpoints import META_PROPERTIES, CheckpointError, MetaProperties, parse_meta_properties
from zab.partition.log.directory import LOCK_FILE, ForeignDirectoryError, LogDirectory, epoch_of_clean_stop
from zab.partition.log.file_effects import FileEffect
from zab.partition.log.files import Files
from zab.partition.replica.record_search import RecordSearch, find_record
from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.listeners import WITH_TLS, Endpoint
from zab.partition.turn import BrokerTurn, Ports
from zab.service.failure import CONFIG_ERROR, DATA_DIRECTORY_ERROR, ServerFailedError
from zab.service.summary import Summary
from zab.tls.stores import StoreError
from zab.wire.client_protocol import ClientProtocol
from zab.wire.frames import FrameReader

if TYPE_CHECKING:
    from zab.broker.http_services import HttpServices

STOP_SECONDS: Final = 30.0
ASK_SECONDS: Final = 5.0
"""How long the controller may take to move leaders, besides the pauses between the tries."""
SLOW_MS: Final = 1000
BETWEEN_BROKERS: Final = "ZAB"
"""What the registration of a broker names as the protocol of its listener for other brokers."""

journal = Journal("broker")


@attrs.frozen
class Running:
    """A broker that runs: what may be asked between two of its turns."""

    broker: Broker
    disk: RealDisk
    coordination: Coordination


def _nothing(_running: Running) -> None:
    pass


def _no() -> bool:
    return False


@attrs.frozen(kw_only=True)
class Surroundings:
    """What a process of its own does not need, and the test kit does."""

    opened: Callable[[Running], None] = _nothing
    """Gets the broker before its first turn, when its ports listen."""
    drops: Callable[[], bool] = _no
    """Whether it ends as when its process is killed: no other broker leads first, and what the disk has not begun to
    write is lost."""
    dial: Dialler | None = None
    """Opens the connections with the coordination service, instead of TCP or TLS."""


IN_A_PROCESS: Final = Surroundings()


async def serve(config: BrokerConfig, supervised: Supervised, surroundings: Surroundings = IN_A_PROCESS) -> None:
    """Run the broker. Raises ServerFailedError."""
    for hint in hints(config):
        journal.warning(hint)
    with ExitStack() as closing:
        disk = await trio.to_thread.run_sync(_open_disk, config.broker.log_directory)
        closing.callback(disk.close)
        known = _owner_of(disk)
        audit = open_audit_log(
            config.audit, config.audit_file, wall_ms, lambda _count: None, config_file="server.properties"
        )
        if audit is not None:
            closing.callback(audit.stop)
        loop = Loop()
        closing.callback(loop.close)
        mailbox: Mailbox[Input] = Mailbox(loop.wake)
        tls = _open_tls(config)
        access = open_access(config.ensemble)
        host = _Host(config, disk, mailbox, tls)
        closing.callback(host.files.close)
        links = BrokerLinks(config, loop, lambda: broker.id)
        endpoints = (*await host.listen(loop), await links.listen())
        controller = _controller(config, endpoints, known, epoch_of_clean_stop(disk))
        broker = Broker(
            *(config, controller, random.SystemRandom(), now_ms(), wall_ms(), disk.free_bytes, links.secret),
            clock_ns=time.monotonic_ns,
        )
        coordination = Coordination(
            *(config.broker.servers, config.broker.session_timeout_ms, mailbox.put, access, surroundings.dial, _warn)
        )
        turn = BrokerTurn(broker, host.ports(coordination, links, audit))
        http = await _open_http(config, broker, lambda: host.around(turn.longest_ns))
        if http is not None:
            closing.callback(http.close)
        host.log_thread.start()
        host.job_thread.start()
        supervised.opened(loop)
        surroundings.opened(Running(broker, disk, coordination))
        if audit is not None:
            audit.started()
        journal.info("listens", listeners=", ".join(map(str, endpoints)))
        failures: list[ServerFailedError] = []
        drops = surroundings.drops
        try:
            async with trio.open_nursery() as outside:
                is_asked_to_stop = trio.Event()
                outside.start_soon(_until_cancelled, is_asked_to_stop)
                # What runs here ends only once others lead what this broker leads.
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(coordination.run)
                        for reread in (None if tls is None else tls.reread(), access.reread()):
                            if reread is not None:
                                nursery.start_soon(reread.run)
                        nursery.start_soon(links.run)
                        if http is not None:
                            nursery.start_soon(http.run)
                        nursery.start_soon(
                            _give_leaders_away, is_asked_to_stop, broker, loop, nursery.cancel_scope, drops
                        )
                        supervised.ready()
                        await loop.run(turn)
        except* ServerFailedError as group:
            failures += [each for each in group.exceptions if isinstance(each, ServerFailedError)]
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(host.drop if drops() else partial(host.stop, broker))
        if failures:
            raise failures[0]


async def _open_http(
    config: BrokerConfig, broker: Broker, look: Callable[[], FigureSurroundings]
) -> HttpServices | None:
    """The port of metrics and health; None: the settings name none."""
    if not config.http.port:
        return None
    # The HTTP libraries take a fifth of a second to import.
    from zab.broker.http_services import HttpServices

    http = HttpServices(config.http, broker.view, look, wall_ms)
    await http.open()
    return http


def _warn(sentence: str, reason: str) -> None:
    journal.warning(sentence, reason=reason)


async def _until_cancelled(is_asked_to_stop: trio.Event) -> None:
    try:
        await trio.sleep_forever()
    finally:
        is_asked_to_stop.set()


async def _give_leaders_away(
    asked: trio.Event, broker: Broker, loop: Loop, everything: trio.CancelScope, drops: Callable[[], bool]
) -> None:
    """Once it is asked to stop: have others lead, then end everything. It waits no longer than all tries take."""
    await asked.wait()
    if drops():
        everything.cancel()
        return
    is_done = trio.Event()
    broker.give_leaders_away(is_done.set)
    loop.wake()
    replication = broker.config.replication
    tries_ms = (1 + replication.shutdown_tries) * replication.shutdown_retry_ms
    with trio.move_on_after(ASK_SECONDS + tries_ms / 1000):
        await is_done.wait()
    everything.cancel()


def _open_disk(directory: str) -> RealDisk:
    try:
        return RealDisk(directory, lock_file=LOCK_FILE)
    except DirectoryInUseError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{directory}: {error.strerror}") from error
    except OSError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{directory} cannot be used: {error.strerror}") from error


def _open_tls(config: BrokerConfig) -> ListenerTls | None:
    """The TLS of the listeners that speak it. Raises ServerFailedError."""
    try:
        return ListenerTls.of(config)
    except StoreError as error:
        raise ServerFailedError(CONFIG_ERROR, str(error)) from error


def _owner_of(disk: RealDisk) -> MetaProperties | None:
    """Which broker of which cluster the directory belongs to; None: it is new. Raises ServerFailedError."""
    if not disk.exists(META_PROPERTIES):
        return None
    try:
        return parse_meta_properties(disk.read(META_PROPERTIES))
    except CheckpointError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{META_PROPERTIES}: {error}") from error


def _controller(
    config: BrokerConfig, endpoints: tuple[Endpoint, ...], known: MetaProperties | None, clean_epoch: int
) -> Controller:
    broker = config.broker
    broker_id = broker.broker_id
    if broker_id < 0 and known is not None:
        broker_id = known.broker_id
    who = RegisteredBroker(
        id=broker_id,
        endpoints=tuple(map(str, endpoints)),
        security_protocols={endpoint.name: _protocol(config, endpoint) for endpoint in endpoints},
        rack=broker.rack,
        previous_epoch=clean_epoch,
    )
    cluster_id = None if known is None else known.cluster_id
    settings = ControllerSettings(
        partition_count=broker.partition_count,
        replication_factor=broker.replication_factor,
        deletes_topics=broker.deletes_topics,
        topic_defaults=config.topics,
        has_access_lists=config.access.rules is not None,
    )
    return Controller(Registration(who, cluster_id, broker.session_timeout_ms), settings, random.SystemRandom())


def _protocol(config: BrokerConfig, endpoint: Endpoint) -> str:
    is_for_brokers = endpoint.name == config.replication.listener_name
    return BETWEEN_BROKERS if is_for_brokers else config.broker.protocols.of(endpoint.name)


class _Host:
    """What the broker has of this machine."""

    def __init__(self, config: BrokerConfig, disk: RealDisk, mailbox: Mailbox[Input], tls: ListenerTls | None) -> None:
        self._config = config
        self._tls = tls
        self._disk = disk
        self._mailbox = mailbox
        self._numbers = iter(range(1, 1 << 62))
        self._clients: list[ClientSockets[ClientConnection]] = []
        self._open_files = OpenFiles(disk.directory)
        self.files = Files(disk, clock_ns=time.monotonic_ns)
        self._writes_ms = Summary()
        self.log_thread: LogThread[FileEffect, Input] = LogThread(
            self.files, mailbox, SLOW_MS, say_slow=_say_slow, timed=self._writes_ms.add, failed=LogsRefused
        )
        self.job_thread = JobThread("jobs")

    async def listen(self, loop: Loop) -> tuple[Endpoint, ...]:
        """Bind all listeners; what clients are told to connect to."""
        broker = self._config.broker
        told = {endpoint.name: endpoint for endpoint in broker.advertised_listeners or broker.listeners}
        endpoints = []
        for listener in self._config.client_listeners:
            sock = await listen((listener.host, listener.port))
            protocol = ClientProtocol(partial(self._connection, listener.name), Closing.AT_ONCE)
            clients = ClientSockets(loop, protocol, keep_alive=True, files=self._open_files)
            clients.listen(sock, self._policy(listener.name))
            self._clients.append(clients)
            if listener.name in told:
                endpoint = told[listener.name]
                port = endpoint.port or sock.getsockname()[1]
                endpoints.append(attrs.evolve(endpoint, port=port))
        return tuple(endpoints)

    def _policy(self, listener: str) -> TlsPolicy | None:
        """TLS at this listener; None: it is plain."""
        if self._config.broker.protocols.of(listener) not in WITH_TLS:
            return None
        assert self._tls is not None, "a configuration with a listener that speaks TLS has stores"
        return self._tls.policy()

    def _connection(self, listener: str, host: str, port: int, subject: str) -> ClientConnection:
        frames = FrameReader(self._config.requests.request_bytes_max)
        return ClientConnection(next(self._numbers), host, port, listener, frames, of_subject(subject))

    def around(self, longest_turn_ns: int) -> FigureSurroundings:
        """What figures say of this machine."""
        return FigureSurroundings(
            flushes_ms=self.files.flushes_ms,
            writes_ms=self._writes_ms,
            longest_turn_us=longest_turn_ns // 1000,
            free_bytes=self._disk.free_bytes(),
            failed_handshakes=sum(clients.handshakes.failed_count for clients in self._clients),
        )

    def ports(self, coordination: Coordination, links: BrokerLinks, audit: AuditLog | None) -> Ports:
        return Ports(
            clock=SystemClock(),
            clients=self._clients,
            links=links.links,
            dial=links.dial,
            read=lambda piece: self._disk.read(piece.path, piece.position, piece.length),
            operator=JournalOperator("broker"),
            answers=self._mailbox.items,
            store=self.log_thread.put,
            forget_file=self._open_files.forget,
            forget_directory=self._open_files.forget_directory,
            submit=coordination.submit,
            session_lives_until=coordination.lives_until,
            open_logs=lambda owner: self.job_thread.run(partial(self._answer, partial(self._opened, owner))),
            load=lambda part: self.job_thread.run(partial(self._answer, partial(load_part, part, self._disk))),
            clean=lambda job: self.job_thread.run(partial(self._clean, job)),
            search=lambda token, search: self.job_thread.run(
                partial(self._answer, partial(self._found, token, search))
            ),
            audit=audit,
        )

    def _answer(self, job: Callable[[], Input]) -> None:
        self._mailbox.put(job())

    def _clean(self, job: CleanJob) -> None:
        """Take a step, and rest for as long as it took: compaction needs half of a core at most."""

        def step() -> bool:
            self._answer(partial(clean, job, self._disk))
            return True

        self.job_thread.in_slices(step)

    def _found(self, token: int, search: RecordSearch) -> Input:
        return RecordFound(token, find_record(search, self._disk))

    def _opened(self, owner: MetaProperties) -> Input:
        """Recover all logs."""
        directory = self._config.broker.log_directory
        try:
            logs = LogDirectory(self._disk, owner)
            found = {}
            notes = list(logs.notes)
            for where in logs.partitions:
                topic_id = logs.topic_id(where)
                if topic_id is None:
                    notes.append(f"{directory}/{where} does not say which topic it belongs to -> it is left alone")
                    continue
                recovered = logs.recover(where, topic_id, self._config.topics, wall_ms())
                found[where] = Uuid(topic_id), recovered.log
                notes += recovered.notes
        except ForeignDirectoryError as error:
            return LogsRefused(f"{directory}: {error}")
        except OSError as error:
            return LogsRefused(f"{directory} cannot be read: {error}")
        return LogsOpened(logs, found, tuple(notes))

    def stop(self, broker: Broker) -> None:
        """Store what is under way, close the logs, and say that it was done."""
        self.job_thread.close(STOP_SECONDS)
        if not self.log_thread.close(STOP_SECONDS):
            return
        answers: list[Input] = list(self._mailbox.items)
        answers += self.files.perform(broker.close())
        self.files.perform(broker.clean_shutdown(answers))
        self._open_files.close()

    def drop(self) -> None:
        """Leave the files as the death of the process would."""
        self.job_thread.close(STOP_SECONDS)
        self.log_thread.close(STOP_SECONDS, drops=True)
        self._open_files.close()


def _say_slow(took_ms: int) -> None:
    journal.warning("the disk is slow", took_ms=took_ms)
