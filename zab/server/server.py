"""One server: opens what it has, runs it until it is cancelled or fails, and closes it.

    serve(config)                                    owns everything below; ends when cancelled, or by ServerFailedError
    ├── loop          `Loop.run(Turn)`               every client socket and quorum link; ends with the server
    ├── election      `ElectionLinks.run`            the election port, a connection to each other; not standalone
    ├── own configuration                            moves the ports, and writes the files, when another one comes
    │                                                into force; not standalone
    ├── HTTP ports    `HttpPorts.run`                commands and metrics; a task for each connection
    ├── purge         every purgeInterval, and       hands the retention's work to the snapshot thread
    │                 after each snapshot
    ├── scrub         every scrub.intervalSeconds    reads through all files, slowly (`Scrubber`)
    ├── fill          where the log has a hole       asks the others (`HoleFiller`); ends the server, which begins anew,
    │                                                when nothing is missing any more
    └── short ones, started by turns (`Tasks`):
        dial          one for each ConnectQuorum     ends with a socket or without one
        read, offer   one for each ReadLog, …        ends with its answer in `Mailbox`
        fetch         one for a snapshot on its way  ends when it is whole, given up or no longer needed
        transfer      one for each learner served    ends with the connection
    threads: log (`LogThread`), snapshots (`Snapshotter`), journal; trio's own for files and names

What a task or thread has for the loop goes through `Mailbox`; what the loop has for them are plain calls.

Start: lock the directory, recover, bind the ports, then run. The listening sockets are open before the first turn,
so a client that finds the port finds a server. After recovery everything there is goes out of the garbage
collector's sight (`zab.host.process.interpreter`).

Exit codes are ZooKeeper's: 1 unexpected (a log that cannot be written among them), 3 the data directory, 14 a port
cannot be bound, the clients' too.

Not here: signals and the command line (`__main__`), commands and metrics over HTTP (`http_ports`).
"""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import attrs
import trio

from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import Zxid
from datatree.recovery.holes import Hole
from datatree.recovery.recovered import Recovered
from zab.configuration.dynamic import bracketed
from zab.host.files.watched import Reread
from zab.host.journal.journal import Journal
from zab.host.loop.dial import Dial, dial
from zab.host.loop.greeting import Greeting
from zab.host.loop.links import Links
from zab.host.loop.loop import Loop, SystemClock, now_ms, wall_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.descriptors import LIMIT_MIN, for_clients, for_newcomers, raise_limit
from zab.host.process.failure import CONFIG_ERROR, ServerFailedError
from zab.host.process.memory import give_back_when_quiet
from zab.host.storage.disk import RealDisk
from zab.host.storage.log_thread import LogThread
from zab.host.tls.engine import TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.member.clients.events import UsersRead
from zab.member.events import Answer
from zab.member.member import Member
from zab.member.membership.greeting import PURPOSES, party
from zab.member.ports import Ports
from zab.member.settings.config import Config
from zab.member.storage.disk_space import DiskSpace, room_bytes
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, StorageFailed
from zab.member.storage.storage import Storage
from zab.member.storage.threaded_storage import ThreadedStorage
from zab.member.trees.events import RebuildFailed, TreeRebuilt
from zab.member.turn import Turn
from zab.member.wire_protocols import QUORUM_PROTOCOL, client_protocol
from zab.protocol.effects import MembershipsChanged, RoleChanged
from zab.protocol.events import SecretNamed
from zab.protocol.session_keys import ALONE
from zab.quorum.ids import Link
from zab.server.address_book import AddressBook
from zab.server.audit import AuditLog, open_audit
from zab.server.binding import Sockets, bind
from zab.server.election_links import ElectionLinks
from zab.server.files import Files, files_of, warnings_of
from zab.server.hole_filler import HoleFiller
from zab.server.http_ports import AskedSnapshots, HttpPorts
from zab.server.own_configuration import MovingPorts, OwnConfiguration, Port, writes_files
from zab.server.quorum_host import is_open, needs_no_secret, quorum_addresses, warn_if_open
from zab.server.scrubber import Scrubber
from zab.server.snapshot_transfer import TransferServer
from zab.server.snapshotter import Snapshotter
from zab.server.start import open_disk, recover_from
from zab.server.surroundings import look_around
from zab.server.tasks import JournalOperator, Tasks
from zab.server.tracing import Tracer, open_tracing
from zab.wire.handshake import Agreed, Party

DOUBT_SECONDS = 4.0
"""For a member to see a new file, and for a learner that was cut off to follow again."""
STOP_SECONDS = 5.0
"""How long a stop waits for the disk."""
STAGGER_SECONDS = 0.1
"""Members whose ids differ by one begin to write the same snapshot this far apart."""
STANDALONE_STALL_MS = 10_000

journal = Journal("server")


def _ignore_role(_change: RoleChanged) -> None:
    pass


def _ignore_loop(_loop: Loop) -> None:
    pass


async def serve(
    config: Config,
    *,
    started: Callable[[], None] | None = None,
    role_changed: Callable[[RoleChanged], None] = _ignore_role,
    opened: Callable[[Loop], None] = _ignore_loop,
) -> None:
    """Run the member that `config` describes until cancelled. `opened` gets its loop before the first turn; `started`
    is called once its ports listen.

    Raises ServerFailedError, with an exit code of ZooKeeper's, when it cannot start or go on."""
    filled: Hole | None = None
    while True:
        server = await open_server(config, role_changed, filled)
        opened(server.loop)
        try:
            await server.run(started)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(server.close)
        filled, config = server.filled, server.config_of_files
        del server
        # What `tune_interpreter` has put out of sight, a whole tree with it, is looked through before the next one.
        gc.unfreeze()
        gc.collect()


def _with_room(config: Config) -> Config:
    """No more clients than descriptors allow, whatever the configuration says."""
    limit = raise_limit()
    if limit < LIMIT_MIN:
        reason = f"a process may have {limit} file descriptors (RLIMIT_NOFILE), and a server needs {LIMIT_MIN}"
        raise ServerFailedError(CONFIG_ERROR, f"{reason}: raise the limit (`ulimit -n`, or LimitNOFILE= of systemd)")
    most = for_clients(limit)
    if config.clients.has_tls:
        newcomers = for_newcomers(most, config.clients.outstanding_handshake_limit_count)
        config = attrs.evolve(config, clients=attrs.evolve(config.clients, outstanding_handshake_limit_count=newcomers))
        most -= newcomers
    if 0 < config.limits.max_connections <= most:
        return config
    if config.limits.max_connections > most:
        journal.warning("maxCnxns is more than this process has descriptors for", maxCnxns=most)
    return attrs.evolve(config, limits=attrs.evolve(config.limits, max_connections=most))


async def open_server(
    config: Config, role_changed: Callable[[RoleChanged], None], filled: Hole | None = None
) -> Server:
    """Lock the directory, recover what is there, and bind the ports: for who runs and closes it by himself. `filled`:
    that of the server before, which ended since it was."""
    for warning in (*config.warnings, *warnings_of(config)):
        journal.warning(str(warning))
    config = _with_room(config)
    book = AddressBook(config)
    files = files_of(config, book)
    warn_if_open(config)
    addresses = await quorum_addresses(config)
    disk = open_disk(config)
    with contextlib.ExitStack() as undo:
        undo.callback(disk.close)
        audit, tracing = open_audit(config), open_tracing(config)
        if audit is not None:
            undo.callback(audit.start_failed)
        if tracing is not None:
            undo.callback(tracing.stop)
        began_ms = now_ms()
        recovered, hole = await trio.to_thread.run_sync(recover_from, disk, config, filled)
        recovered_in_ms = now_ms() - began_ms
        sockets = await bind(config, addresses)
        undo.callback(sockets.close)
        server = Server(config, disk, recovered, sockets, role_changed, audit, tracing, files, book, hole)
        server.member.metrics.dbinittime.add(recovered_in_ms)
        server.member.metrics.startup_txns_loaded.add(recovered.replayed_count)
        undo.pop_all()
    return server


class Server:
    """The parts of one server, wired. `serve` is the way to have one."""

    filled: Hole | None = None
    """`hole` with nothing missing. Then `run` has ended: the next start writes it."""
    _scope: trio.CancelScope
    """Of all that `run` runs."""

    def __init__(
        self,
        config: Config,
        disk: RealDisk,
        recovered: Recovered,
        sockets: Sockets,
        role_changed: Callable[[RoleChanged], None],
        audit: AuditLog | None,
        tracing: Tracer | None,
        files: Files,
        addresses: AddressBook,
        hole: Hole | None,
    ) -> None:
        """`hole`: what the log has lost, where others may have it."""
        self.config = config
        self.audit = audit
        self.tracing = tracing
        self.hole = hole
        self._files = files
        self._policies: list[TlsPolicy] = []
        self.disk = disk
        self._sockets = sockets
        self._role_changed = role_changed
        self.dial: Dial = dial
        self._failure: ServerFailedError | None = None
        self.loop = Loop()
        self.mailbox: Mailbox[Answer] = Mailbox(self.loop.wake)
        self._cutting = threading.Lock()
        self.log = TransactionLog(disk, recovered.log, segment_bytes=config.storage.log_file_bytes)
        space = DiskSpace(disk, config.storage.disk_low_bytes, config.storage.disk_reserve_bytes)
        self.storage = Storage(disk, self.log, config.server_id, _report_storage, self._cutting, space)
        self.log_thread = LogThread(
            self.storage,
            self.mailbox,
            config.storage.fsync_warning_threshold_ms,
            say_slow=_say_slow,
            timed=self._fsynced,
            failed=StorageFailed,
        )
        delay_seconds = config.server_id % 8 * STAGGER_SECONDS
        room = room_bytes(config.storage.disk_low_bytes, config.storage.disk_reserve_bytes)
        self.snapshotter = Snapshotter(
            disk,
            self.log,
            self._snapshot_answered,
            timed=self._snapshot_taken,
            delay_seconds=delay_seconds,
            room_bytes=room,
        )
        self.member = Member(config, recovered, _random(), now_ms(), wall_ms())
        self.member.state.authentication.kerberos = self._kerberos = files.kerberos
        if audit is not None:
            audit.metrics = self.member.metrics
        self.addresses = addresses
        known = self.member.peer.memberships
        self.addresses.changed(MembershipsChanged(known.in_force, known.outstanding, known.heard_of))
        self.clients = ClientSockets(
            self.loop,
            client_protocol(config),
            keep_alive=config.clients.tcp_keep_alive,
            handshakes_max=config.clients.outstanding_handshake_limit_count,
        )
        count_max, stall_seconds = config.membership.max_snapshot_transfers_count, self._stall_ms / 1000
        self.transfers = TransferServer(disk, count_max, stall_seconds, self._believes)
        look = partial(look_around, config, self.clients.handshakes)
        self._asked = AskedSnapshots(self.member.view, disk, self.mailbox.put, self.transfers.being_read)
        committed = self.storage.read_committed
        self._http = HttpPorts(
            config, self.member.view, look, disk, self._asked, committed, self._begin_anew, files.admin_stores
        )

    def _fsynced(self, took_ms: int) -> None:
        metrics = self.member.metrics
        metrics.fsynctime.add(took_ms)
        metrics.fsync_threshold_exceed_count += took_ms >= self.config.storage.fsync_warning_threshold_ms

    def _snapshot_answered(self, answer: SnapshotTaken | SnapshotFailed | TreeRebuilt | RebuildFailed) -> None:
        """In the thread that writes them: who asked for one is told in the loop's."""
        self.mailbox.put(answer)
        if isinstance(answer, SnapshotTaken | SnapshotFailed):
            ended = partial(self._asked.ended, failed=isinstance(answer, SnapshotFailed))
            with contextlib.suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(ended)

    def _snapshot_taken(self, took_ms: int) -> None:
        self.member.metrics.snapshottime.add(took_ms)

    @property
    def config_of_files(self) -> Config:
        """As the files of this server say it now: they have the configuration in force (`own_configuration`)."""
        in_force = self.addresses.in_force
        is_written = in_force.version and writes_files(self.config, in_force)
        return attrs.evolve(self.config, ensemble=in_force) if is_written else self.config

    @property
    def _stall_ms(self) -> int:
        return self.config.timing.sync_limit_ms or STANDALONE_STALL_MS

    async def run(self, started: Callable[[], None] | None) -> None:
        """Run all tasks until cancelled, or until there is something to begin anew with: `filled`, or what was staged.
        Raises ServerFailedError."""
        try:
            await self._run(started)
        finally:
            self.loop.close()
        if self._failure is not None:
            raise self._failure

    async def _run(self, started: Callable[[], None] | None) -> None:
        self._trio = trio.lowlevel.current_trio_token()
        await self._http.open()
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._http.run)
            greeting = self._greeting(nursery)
            election = self._election(greeting)
            self.turn = self._turn(nursery, election, greeting)
            self._tell_secret_name()
            if self._kerberos is not None:
                self._kerberos.put, self._kerberos.spawn = self.mailbox.put, nursery.start_soon
            if self._files.users is not None:
                self.mailbox.put(UsersRead(self._files.users.content))
            self._listen()
            self.log_thread.start()
            self.snapshotter.start()
            if self.config.storage.pre_alloc_size_kib:
                self.snapshotter.preallocate()
            if election is not None:
                nursery.start_soon(election.run, *self._sockets.election.values())
                own = OwnConfiguration(self.config, self.addresses.in_force, self._sockets, self._ports(election))
                self.addresses.comes_into_force = own.comes_into_force
                nursery.start_soon(own.run)
            if self.hole is not None:
                nursery.start_soon(self._fill, self.hole, greeting)
            if self.config.storage.purge_interval_hours > 0:
                nursery.start_soon(self._purge_regularly)
            if self.config.storage.scrub_interval_seconds:
                seconds, rate = self.config.storage.scrub_interval_seconds, self.config.storage.scrub_bytes_per_second
                nursery.start_soon(Scrubber(self.storage, self.mailbox.put, seconds, rate).run)
            for each in self._reread(nursery):
                nursery.start_soon(each.run)
            nursery.start_soon(give_back_when_quiet, lambda: self.member.applied)
            nursery.start_soon(self._run_loop, nursery.cancel_scope)
            line = None if self.config.is_standalone else self.config.own_line
            journal.info(
                "listening",
                server_id=self.config.server_id,
                client=_shown(self.config.client_address),
                secure=_shown(self.config.secure_client_address),
                quorum=None if line is None else line.quorum_port,
                election=None if line is None else line.election_port,
            )
            if self.audit is not None:
                self.audit.started()
            if started is not None:
                started()

    def _begin_anew(self) -> None:
        journal.warning("a snapshot was restored -> end, and begin anew with it")
        self._scope.cancel()

    async def _fill(self, hole: Hole, greeting: Greeting) -> None:
        member, members = self.member, self.addresses.quorum
        filler = HoleFiller(hole, member.server_id, members, greeting, self._stall_ms / 1000, member.peer)
        self.filled = await filler.run()
        if self.filled is not None:
            self._scope.cancel()

    async def _run_loop(self, scope: trio.CancelScope) -> None:
        try:
            await self.loop.run(self.turn)
        except ServerFailedError as failure:
            self._failure = failure
        scope.cancel()

    def _greeting(self, nursery: trio.Nursery) -> Greeting:
        def serve_snapshot(sock: socket.socket, side: TlsSide | None, agreed: Agreed, received: bytes) -> None:
            nursery.start_soon(self.transfers.serve, sock, side, agreed, received)

        return Greeting(
            PURPOSES,
            self.addresses.who_may_come,
            self._party,
            serve_snapshot,
            is_insecure=self.config.quorum.insecure,
            tls=self._files.quorum_tls,
            refused=self._member_refused,
            dial=self.dial,
            next_address_after_seconds=self.config.addresses.next_address_after_seconds,
        )

    def _member_refused(self, host: str, reason: str) -> None:
        self.member.metrics.members_refused += 1
        if self.audit is not None:
            self.audit.member_refused(host, reason)

    def _party(self) -> Party:
        secrets = () if self._files.secrets is None else self._files.secrets.content
        return party(self.config.server_id, secrets, is_open=needs_no_secret(self.config))

    def _believes(self, agreed: Agreed) -> bool:
        return self._party().believes(agreed)

    def _tell_secret_name(self) -> None:
        """What the key of sessions is to be made under: nobody else is there, or everybody proves who he is, by a
        secret, or by the certificate of an authority that is believed."""
        name = b""
        if self.config.is_standalone:
            name = ALONE
        elif self._files.secrets is not None and self.config.quorum.secret_required:
            name = self._files.secrets.content[0].name
        elif not is_open(self.config):
            assert self._files.quorum_tls is not None
            name = self._files.quorum_tls.trusted_name
        self.mailbox.put(SecretNamed(name))

    def _tell_secrets(self, nursery: trio.Nursery) -> None:
        assert self._files.secrets is not None
        journal.info("there are other secrets", names=",".join(each.name.hex() for each in self._files.secrets.content))
        nursery.start_soon(self._doubt_in_turn)
        self._tell_secret_name()

    async def _doubt_in_turn(self) -> None:
        """Cut off what a secret proved that was taken away: one member after the other, the leader last, so that a
        quorum is there all the time, whenever the file comes to whom. Nobody new is let in by that secret meanwhile."""
        members = sorted({*self.addresses.lines, self.config.server_id})
        place = members.index(self.config.server_id)
        await trio.sleep(place * DOUBT_SECONDS)
        for _ in members[place:]:
            if self.member.peer.leading is not None:
                await trio.sleep(DOUBT_SECONDS)
        self.links.doubt()

    def _tell_quorum_stores(self) -> None:
        assert self._files.quorum_tls is not None
        journal.info("there are other certificates of members")
        self._files.quorum_tls.take_new()
        self._tell_secret_name()

    def _tell_users(self) -> None:
        assert self._files.users is not None
        journal.info("there are other users", count=len(self._files.users.content))
        self.mailbox.put(UsersRead(self._files.users.content))

    def _tell_stores(self) -> None:
        assert self._files.stores is not None
        journal.info("there are other certificates")
        for policy in self._policies:
            policy.context = self._files.stores.content

    def _reread(self, nursery: trio.Nursery) -> Iterator[Reread]:
        """All files that are read again while this server runs."""
        config, files = self.config, self._files
        if files.secrets is not None:
            tell_secrets = partial(self._tell_secrets, nursery)
            yield Reread(files.secrets, tell_secrets, "the secrets cannot be read again -> those before stay")
        if files.users is not None:
            yield Reread(files.users, self._tell_users, "the users cannot be read again -> those before stay")
        if files.stores is not None and config.client_tls.reloads:
            kept = "the certificates cannot be read again -> those before stay"
            yield Reread(files.stores, self._tell_stores, kept)
        if files.quorum_tls is not None and config.quorum_tls.reloads:
            kept = "the certificates of members cannot be used -> those before stay"
            yield Reread(files.quorum_tls.watched, self._tell_quorum_stores, kept)
        if files.admin_stores is not None and config.quorum_tls.reloads:
            kept = "the certificates of the admin server cannot be used -> those before stay"
            yield Reread(files.admin_stores, self._http.take_new_stores, kept)

    def _election(self, greeting: Greeting) -> ElectionLinks | None:
        if self.config.is_standalone:
            return None
        timeout_ms = self.config.membership.election_connect_timeout_ms
        links = ElectionLinks(greeting, self.addresses.election, self.mailbox.put, connect_timeout_ms=timeout_ms)
        self.addresses.meet = links.meet
        return links

    def _turn(self, nursery: trio.Nursery, election: ElectionLinks | None, greeting: Greeting) -> Turn:
        config = self.config
        self.links = Links(self.loop, QUORUM_PROTOCOL, greeting, self._member_refused)
        self.storage.send = self.links.send_now
        tasks = Tasks(
            mailbox=self.mailbox,
            links=self.links,
            storage=self.storage,
            snapshotter=self.snapshotter,
            quorum_addresses=self.addresses.quorum,
            observer_addresses=self.addresses.observer_masters,
            greeting=greeting,
            connect_timeout_ms=config.timing.connect_to_leader_limit_ms
            or config.membership.election_connect_timeout_ms,
            stall_ms=self._stall_ms,
            spawn=nursery.start_soon,
            look=partial(look_around, config, self.clients.handshakes),
            purge=self._purge,
        )
        ports = Ports(
            clock=SystemClock(),
            links=self.links,
            election=election,
            clients=self.clients,
            storage=ThreadedStorage(self.storage, self.log_thread),
            tasks=tasks,
            operator=JournalOperator(self._role_changed),
            audit=self.audit,
            addresses=None if config.is_standalone else self.addresses,
            tracing=self.tracing,
        )
        return Turn(self.member, ports)

    def _listen(self) -> None:
        for sock in self._sockets.quorum.values():
            self._listen_for_members(sock)
        for sock in self._sockets.observer_master.values():
            self._listen_for_members(sock)
        for sock in self._sockets.client.values():
            self._listen_for_clients(sock)
        for sock in self._sockets.secure_client.values():
            self.clients.listen(sock, self._policy(takes_plain=False))

    def _listen_for_members(self, sock: socket.socket) -> None:
        self.links.listen(sock, None if self._files.quorum_tls is None else self._files.quorum_tls.policy)

    def _listen_for_clients(self, sock: socket.socket) -> None:
        self.clients.listen(sock, self._policy(takes_plain=True))

    def _ports(self, election: ElectionLinks) -> MovingPorts:
        """Those that move with the configuration in force."""
        return {
            "client": Port(self._listen_for_clients, self.clients.leave),
            "quorum": Port(self._listen_for_members, self.links.leave),
            "election": Port(election.listen, election.leave),
            "observer_master": Port(self._listen_for_members, self.links.leave),
        }

    def _policy(self, *, takes_plain: bool) -> TlsPolicy | None:
        """None: everybody comes in as he is."""
        if self._files.stores is None or (takes_plain and not self.config.clients.port_unification):
            return None
        policy = TlsPolicy(self._files.stores.content, takes_plain=takes_plain)
        self._policies.append(policy)
        return policy

    async def _purge_regularly(self) -> None:
        while True:
            await trio.sleep(self.config.storage.purge_interval_hours * 3600)
            self.turn.purge()

    def _purge(self, offered: Mapping[Link, Zxid]) -> None:
        """Have removed what retention lets go, but nothing that somebody was offered or reads."""
        self.snapshotter.run(partial(self._purge_now, offered, frozenset(self.transfers.being_read)))

    def _purge_now(self, offered: Mapping[Link, Zxid], being_read: frozenset[int]) -> None:
        config = self.config
        try:
            count, withdrawn = self.storage.purge(
                offered, being_read, config.storage.snap_retain_count, config.storage.max_pinned_log_bytes
            )
        except OSError as error:
            journal.error("cannot remove old files", reason=str(error))
            return
        for answer in withdrawn:
            self.mailbox.put(answer)
        if count:
            journal.info("removed old files", count=count)

    def close(self, *, drops: bool = False) -> None:
        """Stop the threads and close everything. The disk is waited for, up to a limit. `drops`: what the disk has not
        begun to write is lost, as when the process is killed."""
        self._sockets.close()
        self._http.close()
        self.snapshotter.close(STOP_SECONDS)
        if not self.log_thread.close(STOP_SECONDS, drops=drops):
            journal.error("the disk does not answer -> stop without it")
        self.disk.close()
        if self.audit is not None:
            self.audit.stop()
        if self.tracing is not None:
            self.tracing.stop()


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
