"""One server: opens its resources, runs until it is cancelled or fails, and closes them.

    serve(config)                                    owns everything below; ends when cancelled, or by ServerFailedError
    └── run_once                                     from one start to the next one
        ├── loop          `Loop.run(Turn)`           every client socket and quorum link; ends with the server
        ├── election      `ElectionLinks.run`        the election port, a connection to each other; not standalone
        ├── own configuration                        moves the ports, and writes the files, when another configuration
        │                                            comes into force; not standalone
        ├── HTTP          `HttpServices.run`         commands and metrics; a task for each connection
        ├── purge         every purgeInterval        `Purging`, in the thread of snapshots
        ├── scrub         scrub.intervalSeconds      reads through all files, slowly (`Scrubber`)
        ├── rereads       every few seconds          files that are read again (`Credentials`)
        ├── fill          where the log has a hole   asks the others (`HoleFiller`); when nothing is missing any
        │                                            more, the server starts again
        └── short ones, started by turns (`Tasks`):
            dial          one for each ConnectQuorum     ends with a socket or without one
            read, offer   one for each ReadLog, …        ends with its answer in `Mailbox`
            fetch         one for a snapshot on its way  ends when it is whole, given up or no longer needed
            transfer      one for each learner served    ends with the connection
    threads: log (`LogThread`), snapshots (`Snapshotter`), journal; trio's own for files and names

Tasks and threads send results to the loop through `Mailbox`; the loop calls them directly.

Exit codes are ZooKeeper's: 1 unexpected (including a log that cannot be written), 3 the data directory, 14 a port
cannot be bound, including client ports.

Not here: the resources (`resources`), signals and the command line (`__main__`).
"""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import threading
from collections.abc import Callable
from functools import partial

import attrs
import trio

from datatree.log.transaction_log import TransactionLog
from datatree.recovery.holes import Hole
from zab.configuration.dynamic import bracketed
from zab.host.journal.journal import Journal
from zab.host.loop.dial import Dial, dial
from zab.host.loop.greeting import Greeting
from zab.host.loop.links import Links
from zab.host.loop.loop import Loop, SystemClock, now_ms, wall_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.memory import give_back_when_quiet
from zab.host.process.operator import JournalOperator
from zab.host.storage.log_thread import LogThread
from zab.host.tls.engine import TlsSide
from zab.member.events import Answer
from zab.member.member import Member
from zab.member.membership.greeting import PURPOSES
from zab.member.ports import Ports
from zab.member.settings.config import Config
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, StorageFailed
from zab.member.storage.storage import Storage
from zab.member.storage.threaded_storage import ThreadedStorage
from zab.member.trees.events import RebuildFailed, TreeRebuilt
from zab.member.turn import Turn
from zab.member.wire_protocols import QUORUM_PROTOCOL, client_protocol
from zab.member.words.surroundings import Surroundings
from zab.protocol.effects import MembershipsChanged, RoleChanged
from zab.protocol.states import STATE_NAMES
from zab.server.asked_snapshots import AskedSnapshots
from zab.server.credentials import Credentials, doubt_in_turn
from zab.server.election_links import ElectionLinks
from zab.server.hole_filler import HoleFiller
from zab.server.http_services import HttpServices
from zab.server.kerberos import GssapiLogins
from zab.server.own_configuration import MembershipChanges, MovingPorts, OwnConfiguration, Port, writes_files
from zab.server.purging import Purging
from zab.server.resources import Resources, open_resources
from zab.server.scrubber import Scrubber
from zab.server.snapshot_transfer import TransferServer
from zab.server.snapshotter import Snapshotter
from zab.server.surroundings import look_around
from zab.server.tasks import Tasks
from zab.service.audit import Refusal
from zab.service.disk_space import DiskSpace, room_bytes
from zab.service.failure import ServerFailedError
from zab.wire.handshake import Agreed

STOP_SECONDS = 5.0
"""How long a stop waits for the disk."""
STAGGER_SECONDS = 0.1
"""The delay between members with successive ids before they begin to write the same snapshot."""
STANDALONE_STALL_MS = 10_000

journal = Journal("server")


def _nothing(*_told: object) -> None:
    pass


def _no() -> bool:
    return False


@attrs.frozen(kw_only=True)
class Callbacks:
    """Callbacks for the life of a server."""

    opened: Callable[[Server], None] = _nothing
    """Gets each server before its first turn."""
    started: Callable[[], None] = _nothing
    """Called once its ports listen."""
    role_changed: Callable[[RoleChanged], None] = _nothing


async def serve(
    config: Config,
    *,
    started: Callable[[], None] = _nothing,
    role_changed: Callable[[RoleChanged], None] = _nothing,
    opened: Callable[[Loop], None] = _nothing,
) -> None:
    """Run the member that `config` describes until cancelled. `opened` gets its loop before the first turn; `started`
    is called once its ports listen.

    Raises ServerFailedError, with an exit code of ZooKeeper's, when it cannot start or go on."""
    callbacks = Callbacks(opened=lambda server: opened(server.loop), started=started, role_changed=role_changed)
    filled: Hole | None = None
    while True:
        filled, config = await run_once(config, filled, callbacks)
        # Collect the objects that `tune_interpreter` exempted, including a whole tree, before the next server.
        gc.unfreeze()
        gc.collect()


async def run_once(
    config: Config,
    filled: Hole | None,
    callbacks: Callbacks,
    *,
    dial: Dial = dial,
    drops: Callable[[], bool] = _no,
) -> tuple[Hole | None, Config]:
    """Run one server until it is cancelled, or until there is something to start again with: a hole that is filled, or
    a snapshot that was restored. Returns what the next start is given. `filled`: the hole that the server before
    filled. `drops`: whether what the disk has not begun to write is lost at the end, as when the process is killed.

    Raises ServerFailedError."""
    resources = await open_resources(config, filled)
    server: Server | None = None
    try:
        async with trio.open_nursery() as nursery:
            server = Server(resources, nursery, callbacks, dial)
            callbacks.opened(server)
            await server.start()
            callbacks.started()
    finally:
        if server is not None:
            server.loop.close()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_close, server, resources, drops())
    if server.failure is not None:
        raise server.failure
    return server.filled, server.config_of_files


def _close(server: Server | None, resources: Resources, drops: bool) -> None:
    try:
        if server is not None:
            server.close(drops=drops)
    finally:
        resources.close()


class Server:
    """The parts of one server, wired. `run_once` runs one."""

    def __init__(self, resources: Resources, nursery: trio.Nursery, callbacks: Callbacks, dial: Dial) -> None:
        self.config = config = resources.config
        self.failure: ServerFailedError | None = None
        """Why it ended, if it failed."""
        self.filled: Hole | None = None
        """The filled hole, for which the server has ended: the next start writes it."""
        self._resources = resources
        self._nursery = nursery
        self._callbacks = callbacks
        self._trio = trio.lowlevel.current_trio_token()
        self._credentials = Credentials(config, resources.files)
        self.loop = Loop()
        self.mailbox: Mailbox[Answer] = Mailbox(self.loop.wake)
        put = self.mailbox.put
        self.addresses = resources.addresses
        self._open_links(dial)
        self._open_storage()
        kerberos = resources.files.kerberos
        self.member = Member(
            config,
            resources.recovered,
            _random(),
            now_ms(),
            wall_ms(),
            metrics=resources.metrics,
            kerberos=None if kerberos is None else GssapiLogins(kerberos, put, nursery.start_soon),
        )
        self.clients = ClientSockets(
            self.loop,
            client_protocol(config),
            keep_alive=config.clients.tcp_keep_alive,
            handshakes_max=config.clients.outstanding_handshake_limit_count,
        )
        known = self.member.peer.memberships
        self.addresses.changed(MembershipsChanged(known.in_force, known.outstanding, known.heard_of))
        self._election: ElectionLinks | None = None
        self._own_configuration: OwnConfiguration | None = None
        if not config.is_standalone:
            timeout_ms = config.membership.election_connect_timeout_ms
            others = self.addresses.election
            self._election = ElectionLinks(self._greeting, others, put, connect_timeout_ms=timeout_ms)
            self._own_configuration = OwnConfiguration(
                config, self.addresses.in_force, resources.sockets, self._moving_ports(self._election)
            )
        look = partial(look_around, config, self.clients.handshakes)
        self._asked = AskedSnapshots(self.member.view, resources.disk, put, self.transfers.being_read)
        self._http = HttpServices(
            config,
            self.member.view,
            look,
            resources.disk,
            self._asked,
            self.storage.read_committed,
            self._begin_anew,
            resources.files.admin_stores,
        )
        self.turn = Turn(self.member, self._ports(look))

    def _open_links(self, dial: Dial) -> None:
        config = self.config
        count_max, stall_seconds = config.membership.max_snapshot_transfers_count, self._stall_ms / 1000
        self.transfers = TransferServer(self._resources.disk, count_max, stall_seconds, self._credentials.believes)
        self._greeting = Greeting(
            PURPOSES,
            self.addresses.who_may_come,
            self._credentials.party,
            self._serve_snapshot,
            is_insecure=config.quorum.insecure,
            tls=self._resources.files.quorum_tls,
            refused=self._member_refused,
            dial=dial,
            next_address_after_seconds=config.addresses.next_address_after_seconds,
        )
        self.links = Links(self.loop, QUORUM_PROTOCOL, self._greeting, self._member_refused)

    def _open_storage(self) -> None:
        config, disk = self.config, self._resources.disk
        self.log = TransactionLog(disk, self._resources.recovered.log, segment_bytes=config.storage.log_file_bytes)
        self.storage = Storage(
            disk,
            self.log,
            config.server_id,
            _report_storage,
            threading.Lock(),
            DiskSpace(disk, config.storage.disk_low_bytes, config.storage.disk_reserve_bytes),
            hold=self.links.hold,
        )
        self.log_thread = LogThread(
            self.storage,
            self.mailbox,
            config.storage.fsync_warning_threshold_ms,
            say_slow=_say_slow,
            timed=self._fsynced,
            failed=StorageFailed,
        )
        self.snapshotter = Snapshotter(
            disk,
            self.log,
            self._snapshot_answered,
            timed=self._resources.metrics.snapshottime.add,
            delay_seconds=config.server_id % 8 * STAGGER_SECONDS,
            room_bytes=room_bytes(config.storage.disk_low_bytes, config.storage.disk_reserve_bytes),
        )
        self.purging = Purging(
            config.storage, self.storage, self.snapshotter, self.transfers.being_read, self.mailbox.put
        )

    def _ports(self, look: Callable[[], Surroundings]) -> Ports:
        config, audit = self.config, self._resources.audit
        tasks = Tasks(
            mailbox=self.mailbox,
            links=self.links,
            storage=self.storage,
            snapshotter=self.snapshotter,
            quorum_addresses=self.addresses.quorum,
            observer_addresses=self.addresses.observer_masters,
            greeting=self._greeting,
            connect_timeout_ms=config.timing.connect_to_leader_limit_ms
            or config.membership.election_connect_timeout_ms,
            stall_ms=self._stall_ms,
            spawn=self._nursery.start_soon,
            look=look,
            purge=self.purging.purge,
        )
        changes: MembershipChanges | None = None
        if self._election is not None and self._own_configuration is not None:
            changes = MembershipChanges(self.addresses, self._election, self._own_configuration)
        return Ports(
            clock=SystemClock(),
            links=self.links,
            election=self._election,
            clients=self.clients,
            storage=ThreadedStorage(self.storage, self.log_thread),
            tasks=tasks,
            operator=JournalOperator(),
            role_changed=self._role_changed,
            audit=audit,
            addresses=changes,
            tracing=self._resources.tracing,
        )

    # --------------------------------------------------------------------------------------------------- start and stop

    async def start(self) -> None:
        """Start all tasks and threads, and listen."""
        config, resources, nursery = self.config, self._resources, self._nursery
        await self._http.open()
        nursery.start_soon(self._http.run)
        self.mailbox.put(self._credentials.secret_name())
        users = self._credentials.users()
        if users is not None:
            self.mailbox.put(users)
        self._listen()
        self.log_thread.start()
        self.snapshotter.start()
        if config.storage.pre_alloc_size_kib:
            self.snapshotter.preallocate()
        if self._election is not None:
            nursery.start_soon(self._election.run, *resources.sockets.election.values())
        if self._own_configuration is not None:
            nursery.start_soon(self._own_configuration.run)
        if resources.hole is not None:
            nursery.start_soon(self._fill, resources.hole)
        if config.storage.purge_interval_hours > 0:
            nursery.start_soon(self._purge_regularly)
        if config.storage.scrub_interval_seconds:
            seconds, rate = config.storage.scrub_interval_seconds, config.storage.scrub_bytes_per_second
            nursery.start_soon(Scrubber(self.storage, self.mailbox.put, seconds, rate).run)
        for each in self._credentials.rereads(self.mailbox.put, self._begin_to_doubt, self._http.take_new_stores):
            nursery.start_soon(each.run)
        nursery.start_soon(give_back_when_quiet, lambda: self.member.applied)
        nursery.start_soon(self._run_loop)
        line = None if config.is_standalone else config.own_line
        journal.info(
            "listening",
            server_id=config.server_id,
            client=_shown(config.client_address),
            secure=_shown(config.secure_client_address),
            quorum=None if line is None else line.quorum_port,
            election=None if line is None else line.election_port,
        )
        if resources.audit is not None:
            resources.audit.started()

    async def _run_loop(self) -> None:
        try:
            await self.loop.run(self.turn)
        except ServerFailedError as failure:
            self.failure = failure
        self._nursery.cancel_scope.cancel()

    def close(self, *, drops: bool = False) -> None:
        """Stop the threads. Waits for the disk, up to a limit. `drops`: writes that the disk has not begun are lost."""
        self._resources.sockets.close()
        self._http.close()
        self.snapshotter.close(STOP_SECONDS)
        if not self.log_thread.close(STOP_SECONDS, drops=drops):
            journal.error("the disk does not answer -> stop without it")

    @property
    def config_of_files(self) -> Config:
        """The configuration that the files of this server have now, with the ensemble in force."""
        in_force = self.addresses.in_force
        is_written = in_force.version and writes_files(self.config, in_force)
        return attrs.evolve(self.config, ensemble=in_force) if is_written else self.config

    @property
    def _stall_ms(self) -> int:
        return self.config.timing.sync_limit_ms or STANDALONE_STALL_MS

    def _begin_anew(self) -> None:
        journal.warning("a snapshot was restored -> restart with it")
        self._nursery.cancel_scope.cancel()

    async def _fill(self, hole: Hole) -> None:
        member, members = self.member, self.addresses.quorum
        filler = HoleFiller(hole, member.server_id, members, self._greeting, self._stall_ms / 1000, member.peer)
        self.filled = await filler.run()
        if self.filled is not None:
            self._nursery.cancel_scope.cancel()

    async def _purge_regularly(self) -> None:
        while True:
            await trio.sleep(self.config.storage.purge_interval_hours * 3600)
            self.turn.purge()

    # -------------------------------------------------------------------------------------------------------- listening

    def _listen(self) -> None:
        sockets = self._resources.sockets
        for sock in (*sockets.quorum.values(), *sockets.observer_master.values()):
            self._listen_for_members(sock)
        for sock in sockets.client.values():
            self._listen_for_clients(sock)
        for sock in sockets.secure_client.values():
            self.clients.listen(sock, self._credentials.client_policy(takes_plain=False))

    def _listen_for_members(self, sock: socket.socket) -> None:
        self.links.listen(sock, self._credentials.member_policy())

    def _listen_for_clients(self, sock: socket.socket) -> None:
        self.clients.listen(sock, self._credentials.client_policy(takes_plain=True))

    def _moving_ports(self, election: ElectionLinks) -> MovingPorts:
        """The ports that move with the configuration in force."""
        return {
            "client": Port(self._listen_for_clients, self.clients.leave),
            "quorum": Port(self._listen_for_members, self.links.leave),
            "election": Port(election.listen, election.leave),
            "observer_master": Port(self._listen_for_members, self.links.leave),
        }

    # --------------------------------------------------------------------------------------------- what parts report

    def _serve_snapshot(self, sock: socket.socket, side: TlsSide | None, agreed: Agreed, received: bytes) -> None:
        self._nursery.start_soon(self.transfers.serve, sock, side, agreed, received)

    def _member_refused(self, host: str, reason: str) -> None:
        self._resources.metrics.members_refused += 1
        if self._resources.audit is not None:
            self._resources.audit.write((Refusal("member", host, reason=reason),))

    def _begin_to_doubt(self) -> None:
        self._nursery.start_soon(
            doubt_in_turn,
            self.config.server_id,
            self.addresses.lines,
            lambda: self.member.peer.leading is not None,
            self.links.doubt,
        )

    def _role_changed(self, role: RoleChanged) -> None:
        state = STATE_NAMES[role.state]
        journal.info("role", state=state, phase=role.phase, leader=role.leader, serving=role.serving)
        self._callbacks.role_changed(role)

    def _fsynced(self, took_ms: int) -> None:
        metrics = self._resources.metrics
        metrics.fsynctime.add(took_ms)
        metrics.fsync_threshold_exceed_count += took_ms >= self.config.storage.fsync_warning_threshold_ms

    def _snapshot_answered(self, answer: SnapshotTaken | SnapshotFailed | TreeRebuilt | RebuildFailed) -> None:
        """In the thread of snapshots: tell the member, and callers in the loop's thread that wait for a snapshot."""
        self.mailbox.put(answer)
        if isinstance(answer, SnapshotTaken | SnapshotFailed):
            ended = partial(self._asked.ended, failed=isinstance(answer, SnapshotFailed))
            with contextlib.suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(ended)


def _shown(address: tuple[str, int] | None) -> str | None:
    if address is None:
        return None
    host, port = address
    return f"{bracketed(host)}:{port}"


def _report_storage(sentence: str, reason: str) -> None:
    journal.error(sentence, reason=reason)


def _say_slow(took_ms: int) -> None:
    journal.warning("the disk was slow to make a write durable", took_ms=took_ms)


def _random() -> random.Random:
    return random.SystemRandom()
