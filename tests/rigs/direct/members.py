"""Whole members in one thread: real peers, trees, sessions, turns and storage; links, disks and clients are in memory.

`Ensemble.settle()` carries messages, storage answers and client bytes until nothing moves; time stands still meanwhile
and passes only in `advance`. A test holds back what it wants to be late: `durable_held` of a server, all that is on
the links of servers that are `cut`, or all that is on the way to servers that are `late`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

from datatree.jute import Reader
from datatree.log.batch import Batch
from datatree.log.segment import log_files, log_path
from datatree.log.transaction_log import TransactionLog
from datatree.past_acls import PastAcls
from datatree.recovery.recover import recover
from datatree.snapshot import snapshot_path, tree_fetch_path
from tests.rigs.direct.client import Client
from tests.rigs.direct.ports import DirectClients, DirectLinks
from zab.member.clients.connection import ClientConnection, Closing
from zab.member.events import Answer, Input
from zab.member.member import Member
from zab.member.ports import Ports
from zab.member.settings.zoo_cfg import Config, parse
from zab.member.storage.events import (
    ChooseSnapshot,
    FetchFailed,
    FetchTree,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    SnapshotFetched,
    SnapshotTaken,
    StorageEffect,
    TakeSnapshot,
)
from zab.member.storage.storage import Storage
from zab.member.trees import tree_repair
from zab.member.trees.events import KeepSnapshot, RebuildTree
from zab.member.turn import Turn
from zab.member.words.events import LookedAround
from zab.member.words.surroundings import Surroundings
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.features import ALL
from zab.protocol.states import FOLLOWING, LEADING
from zab.quorum.ids import Link, ServerId
from zab.service.audit import Record
from zab.service.disk_space import DiskSpace
from zab.simulator.world.disk import FaultyDisk
from zab.wire.link_protocol import TakeAtOnce

TICK_MS = 1000
WALL = 1_700_000_000_000
SURROUNDINGS = Surroundings(
    2_000, 3_000, 0x100000002, 1_700_000_000, 40, 1024, {"host.name": "here", "os.name": "Linux"}, 2, 5, 3
)


class KeptAudit:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, records: Iterable[Record]) -> None:
        self.records += records

    def take_lines(self) -> list[str]:
        """The lines since the last look, of a server that `own` runs."""
        records, self.records = self.records, []
        return [line for record in records for line in record.lines("own")]


class Server(DirectClients):
    """One member with its turn, and what it is to be told next. It is all of its own ports but the links."""

    def __init__(self, ensemble: "Ensemble", config: Config, disk: FaultyDisk | None = None) -> None:
        self._ensemble = ensemble
        self.sid = ServerId(config.server_id)
        self.answers: deque[Answer] = deque()
        self.durable_held = False
        self.held: list[StorageEffect] = []
        self.traces: list[str] = []
        self.halted: str | None = None
        self.snapshots: list[TakeSnapshot] = []
        self.keep_output = False
        """The socket takes nothing."""
        self.wall_offset_ms = WALL
        self.reads: list[ReadChanges | LookBackSlice] = []
        self.reads_held = False
        """Reads for the feed of changes are answered by `answer_read` alone."""
        self.looked_back: list[PastAcls | None] = []
        """Answers to slices of looking back, in place of what the log says."""
        self.keeps_rebuilt = False
        """Trees that are made again are not handed over, but kept in `rebuilt_held`."""
        self.rebuilt_held: list[Answer] = []
        self.disk = disk or FaultyDisk()
        recovered = recover(self.disk, self.sid)
        # Each batch has a file of its own, so that a test can take the oldest away.
        log = TransactionLog(self.disk, recovered.log, segment_bytes=1)
        space = DiskSpace(self.disk, config.storage.disk_low_bytes, config.storage.disk_reserve_bytes)
        self.links = links = MemoryLinks(ensemble, self)
        election = MemoryElection(ensemble, self)
        self.storage = Storage(
            self.disk,
            log,
            self.sid,
            lambda sentence, reason: self.error(sentence, reason=reason),
            space=space,
            hold=lambda link, message: partial(links.send, (link,), message),
        )
        self.waits = self.storage.waits
        self.member = Member(config, recovered, Random(self.sid), ensemble.now, WALL)
        self.audit = KeptAudit()
        ports = Ports(self, links, election, self, self, self, self, self.role_changed, self.audit)
        self.turn = Turn(self.member, ports)

    @property
    def value(self) -> Callable[[bytes], bytes | None]:
        def value(path: bytes) -> bytes | None:
            znode = self.member.tree.get(path)
            return None if znode is None else self.member.tree.data_of(path, znode)

        return value

    @property
    def logged(self) -> list[Batch]:
        """What its log files hold."""
        return self.storage.log.read_from(self.storage.log.first_position[0], 1 << 40)[1]

    def forget_oldest(self, count: int) -> None:
        """As retention does: the oldest batches are not in the log any more."""
        paths = [log_path(first) for first in log_files(self.disk)[:count]]
        self.storage.log.release(set(paths))
        for path in paths:
            self.disk.remove(path)

    # Clock.

    def monotonic_ns(self) -> int:
        return self._ensemble.now * 1_000_000

    def wall_ms(self) -> int:
        return self._ensemble.now + self.wall_offset_ms

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def processor_ns(self) -> int:
        return 0

    # Clients.

    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None:
        for connection in list(dirty):
            client = self._ensemble.clients[connection]
            if self.keep_output:
                connection.unsent_bytes += connection.out_bytes
                client.raw += b"".join(connection.take_output())
            elif connection.closing is not Closing.AT_ONCE:
                client.take(b"".join(connection.take_output()))
            if connection.closing:
                client.is_closed = True

    # Storage.

    def put(self, effect: StorageEffect) -> None:
        if self.durable_held:
            self.held.append(effect)
        else:
            self.answers += self.storage.perform([effect])

    @property
    def is_woken(self) -> bool:
        """Whether something came that begins a turn."""
        return self.links.has_news or any(map(self.storage.is_awaited, self.answers))

    def mark_moved(self, zxid: int) -> None:
        self.storage.mark = zxid

    # Tasks.

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        self._ensemble.dial(self, sid)

    def read_log(self, effect: fx.ReadLog) -> None:
        self.answers.append(self.storage.read_log(effect))

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self.reads.append(effect)
        if not self.reads_held:
            self.answer_read()

    def answer_read(self) -> None:
        """What the worker makes of the last read."""
        effect = self.reads[-1]
        if isinstance(effect, LookBackSlice) and self.looked_back:
            self.answers.append(LookedBack(self.looked_back.pop(0)))
        else:
            self.answers.append(self.storage.read_for_changes(effect))

    def offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        self.answers.append(self.storage.offer_snapshot(effect))

    def choose_snapshot(self, effect: ChooseSnapshot) -> None:
        self.answers.append(self.storage.choose_snapshot(effect))

    def fetch(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        """A whole tree at once; the simulator transfers snapshots for synchronization."""
        assert isinstance(effect, FetchTree)
        try:
            data = self._ensemble.servers[effect.sid].disk.read(snapshot_path(effect.zxid))
        except FileNotFoundError:
            self.answers.append(FetchFailed(effect, "it is not there"))
            return
        self.disk.replace(tree_fetch_path(effect.zxid), data)
        self.answers.append(SnapshotFetched(effect))

    def stop_fetching(self) -> None:
        pass

    def look_around(self) -> None:
        self.answers.append(LookedAround(SURROUNDINGS))

    def rebuild_tree(self, effect: RebuildTree) -> None:
        rebuild = tree_repair.begin(effect, self.disk, self.storage.log)
        while not rebuild.step():
            pass
        (self.rebuilt_held if self.keeps_rebuilt else self.answers).append(tree_repair.answer(effect, rebuild))

    def keep_snapshot(self, effect: KeepSnapshot) -> None:
        tree_repair.keep(effect, self.disk)

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        self.snapshots.append(effect)

    def purge(self, offered: Mapping[Link, int]) -> None:
        pass

    # Operator.

    def trace(self, text: str) -> None:
        self.traces.append(text)

    def warn(self, text: str) -> None:
        self.traces.append(text)

    def error(self, sentence: str, **pairs: object) -> None:
        self.traces.append(f"{sentence} {pairs}")

    def role_changed(self, effect: fx.RoleChanged) -> None:
        pass

    def stop(self, reason: str) -> None:
        self.halted = reason


class MemoryElection:
    """The election links of one server."""

    def __init__(self, ensemble: "Ensemble", server: Server) -> None:
        self._ensemble = ensemble
        self._server = server

    def send(self, effect: fx.SendNotification) -> None:
        receiver = self._ensemble.servers.get(effect.sid)
        if receiver is not None and not {self._server.sid, effect.sid} & self._ensemble.cut:
            said = effect.notification, effect.in_force, effect.outstanding
            receiver.answers.append(ev.NotificationReceived(self._server.sid, *said, is_proven=True))


class MemoryLinks(DirectLinks):
    """The quorum links of one server."""

    def __init__(self, ensemble: "Ensemble", server: Server) -> None:
        self._ensemble = ensemble
        self._server = server
        self.happened: list[Input | tuple[Link, bytes]] = []
        """Events about links, and messages with the link that they came on, since the last turn."""

    @property
    def has_news(self) -> bool:  # type: ignore[override]
        return bool(self.happened)

    def receive(self, inputs: list[Input], take_at_once: TakeAtOnce) -> None:
        happened, self.happened = self.happened, []
        for event in happened:
            if not isinstance(event, tuple):
                inputs.append(event)
            elif inputs or not take_at_once(*event):
                inputs.append(ev.MessageReceived(event[0], msg.decode(event[1])))

    def send(self, links: Iterable[Link], message: msg.Message) -> None:
        for link in links:
            if link in self._ensemble.links:
                self._ensemble.sent.append((self._server.sid, message))
                self._ensemble.on_wire[link].append((self._server.sid, message))

    def close(self, link: Link, reason: str) -> None:
        self._ensemble.break_link(link, self._server.sid)

    def break_off(self, link: Link, reason: str) -> None:
        self._ensemble.break_link(link)

    def break_off_dialled(self, sid: ServerId, reason: str) -> None:
        for link, ends in list(self._ensemble.links.items()):
            if ends == (self._server.sid, sid):
                self._ensemble.break_link(link)


class Ensemble:
    """Members 1..n; with one it is standalone. The last ones may be observers. Further lines of the configuration as
    keyword arguments."""

    def __init__(self, size: int = 1, start: bool = True, observers: int = 0, **lines: object) -> None:
        self.now = 1_000_000
        self.links: dict[Link, tuple[ServerId, ServerId]] = {}
        self.cut: set[int] = set()
        """Servers whose links carry nothing for now."""
        self.old: set[int] = set()
        """Servers that greet as those of a version before do."""
        self.late: set[int] = set()
        """Servers that get nothing for now; what they send arrives."""
        self.on_wire: dict[Link, deque[tuple[ServerId, msg.Message]]] = {}
        self.clients: dict[ClientConnection, Client] = {}
        self.servers: dict[ServerId, Server] = {}
        self.sent: list[tuple[int, msg.Message]] = []
        """Everything that was sent between members: sender and message."""
        self._lines = lines
        self._voters = range(1, size - observers + 1)
        for sid in map(ServerId, range(1, size + 1)):
            self.servers[sid] = Server(self, self._config(sid, size, lines))
        if size > 1:
            for sid, server in self.servers.items():
                server.answers += [ev.ElectionLinkUp(other, 1) for other in self.servers if other != sid]
        if start:
            self.start()

    def add(self, *sids: int) -> None:
        """More servers, whose files name all that there are then; nobody else's does."""
        size = max(*sids, *self.servers)
        for sid in map(ServerId, sids):
            self.servers[sid] = Server(self, self._config(sid, size, self._lines))
            self.servers[sid].answers += [ev.ElectionLinkUp(other, 1) for other in self.servers if other != sid]
        self.start()

    def restart(self, sid: int) -> None:
        """With what is on its disk, and nothing else; it has no connections."""
        before = self.servers[ServerId(sid)]
        for link in [link for link, ends in self.links.items() if sid in ends]:
            self.break_link(link, ServerId(sid))
        server = self.servers[ServerId(sid)] = Server(self, before.member.config, before.disk)
        server.answers += [ev.ElectionLinkUp(other, 1) for other in self.servers if other != sid]

    def _config(self, sid: ServerId, size: int, lines: dict[str, object]) -> Config:
        text = [f"dataDir=/nowhere/{sid}", "clientPort=2181", f"tickTime={TICK_MS}", "initLimit=10", "syncLimit=5"]
        if size > 1:
            roles = {n: "participant" if n in self._voters else "observer" for n in range(1, size + 1)}
            text += [f"server.{n}=127.0.0.1:{2000 + n}:{3000 + n}:{role}" for n, role in roles.items()]
        lines = {"diskLowBytes": 0, **lines}
        text += [f"{key.replace('__', '.')}={value}" for key, value in lines.items()]
        return parse("\n".join(text), "zoo.cfg", my_id=sid if size > 1 else None)

    def start(self) -> None:
        self.settle()
        for _ in range(200):
            if all(server.member.serving for server in self.servers.values()):
                return
            self.advance(50)
        raise AssertionError([server.traces[-3:] for server in self.servers.values()])

    @property
    def leader(self) -> Server:
        return next(server for server in self.servers.values() if server.member.peer.state == LEADING)

    @property
    def follower(self) -> Server:
        return next(server for server in self.servers.values() if server.member.peer.state == FOLLOWING)

    def others(self, server: Server) -> list[Server]:
        return [other for other in self.servers.values() if other is not server]

    # ---------------------------------------------------------------------------------------------------------- clients

    def client(self, server: Server | None = None, subject: str = "") -> Client:
        """A socket that is open, and nothing more."""
        client = Client(server or self.servers[ServerId(1)], len(self.clients) + 1, subject)
        self.clients[client.connection] = client
        return client

    def session(self, server: Server | None = None, timeout_ms: int = 10_000, subject: str = "") -> Client:
        """A client with a session."""
        client = self.client(server, subject)
        client.say(client.connect_request(timeout_ms=timeout_ms))
        self.settle()
        assert client.response is not None
        assert client.response.timeout_ms > 0
        return client

    def reattach(self, old: Client, server: Server | None = None, **changes: Any) -> Client:
        """Another connection that asks for the session of an old one."""
        assert old.response is not None
        client = self.client(server)
        arguments = {"session": old.response.session_id, "password": old.response.password, **changes}
        client.say(client.connect_request(**arguments))
        return client

    def do(self, client: Client, *requests: bytes) -> list[tuple[int, int, Any]]:
        """Send these in one segment, let everything settle, return the replies."""
        client.replies()
        client.say(b"".join(requests))
        self.settle()
        return client.replies()

    # ------------------------------------------------------------------------------------------------------------- time

    def settle(self) -> None:
        """Until nothing moves."""
        for _ in range(2000):
            moved = False
            for server in self.servers.values():
                if server.is_woken or self._is_due(server):
                    self.step(server)
                    moved = True
            moved = self._deliver() or moved
            if not moved:
                return
        raise AssertionError("it never settles")

    def _is_due(self, server: Server) -> bool:
        return server.halted is None and server.member.next_deadline() <= self.now

    def advance(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.now + milliseconds
        while True:
            due = min(s.member.next_deadline() for s in self.servers.values() if s.halted is None)
            if due > end:
                break
            self.now = max(self.now + 1, due)
            self.settle()
        self.now = end

    def step(self, server: Server) -> None:
        """One turn of one member."""
        server.turn.take()

    def finish_snapshot(self, server: Server) -> None:
        taken = server.snapshots[-1]
        taken.cursor.close()
        server.answers.append(SnapshotTaken(taken.zxid))

    def release(self, server: Server) -> None:
        """The storage of a server goes on, with what has come meanwhile."""
        server.durable_held = False
        held, server.held = server.held, []
        for effect in held:
            server.put(effect)

    def dial(self, server: Server, sid: ServerId) -> None:
        if {server.sid, sid} & self.cut:
            server.links.happened.append(ev.DialFailed(sid))
            return
        link = Link(len(self.on_wire) + 1)
        self.links[link] = (server.sid, sid)
        self.on_wire[link] = deque()
        features = 0 if {server.sid, sid} & self.old else ALL
        server.links.happened.append(ev.QuorumLinkUp(link, sid, False, features))
        self.servers[sid].links.happened.append(ev.QuorumLinkUp(link, server.sid, True, features))

    def break_link(self, link: Link, by: ServerId | None = None) -> None:
        for sid in self.links.pop(link, ()):
            if sid != by:
                self.servers[sid].links.happened.append(ev.QuorumLinkDown(link))

    def deliver_until(self, server: Server, kind: type[msg.Message]) -> None:
        """What is on the way to a server that is late, up to the first message of this kind."""
        for link, waiting in self.on_wire.items():
            to_server = [item for item in waiting if link in self.links and item[0] != server.sid]
            kinds = [type(message) for _, message in to_server]
            for item in to_server[: kinds.index(kind) + 1 if kind in kinds else 0]:
                waiting.remove(item)
                server.links.happened.append((link, msg.encode(item[1])))

    def _deliver(self) -> bool:
        moved = False
        for link, waiting in self.on_wire.items():
            if link not in self.links or set(self.links[link]) & self.cut:
                continue
            one, two = self.links[link]
            for _ in range(len(waiting)):
                sender, message = waiting.popleft()
                receiver = two if sender == one else one
                if receiver in self.late:
                    waiting.append((sender, message))
                    continue
                self.servers[receiver].links.happened.append((link, msg.encode(message)))
                moved = True
        return moved


def texts(payload: bytes) -> list[bytes]:
    """A vector of texts."""
    return Reader(payload).vector(lambda reader: reader.string() or b"") or []
