"""Whole members in one thread: real peers, trees and sessions; links, storage and clients are lists in memory.

`Ensemble.settle()` carries messages, storage answers and client bytes until nothing moves; time stands still meanwhile
and passes only in `advance`. A test holds back what it wants to be late: `durable_held` of a server, or all that is on
the links of servers that are `cut`.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from datatree.jute import Reader
from datatree.log.batch import Batch
from datatree.log.transaction_log import LogContents
from datatree.opcodes import OpCode
from datatree.past_acls import PastAcls
from datatree.recovery.recover import Recovered
from datatree.requests import OPEN_ACL, Create, PathKind, PathOnly, PathVersion, PathWatch, SetData
from datatree.tree import DataTree
from zab import events as ev
from zab import message as msg
from zab.jute.changes import PageStatus
from zab.jute.framing import FrameReader, frame, request_frame
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, WatcherEvent, decode_body
from zab.member.change_rows import gather, is_known, rows_of, start_of
from zab.member.config import parse
from zab.member.connection import ClientConnection, Closing
from zab.member.inputs import (
    ChangesRead,
    ClientBytes,
    ClientClosed,
    ClientConnected,
    Input,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    SnapshotTaken,
    TakeSnapshot,
)
from zab.member.member import Member

TICK_MS = 1000
WALL = 1_700_000_000_000
NOTIFICATION = -1


def nothing_on_disk() -> Recovered:
    log = LogContents(b"", [], (0, bytes(16)), 0, False)
    return Recovered(DataTree(), b"", 0, (0, bytes(16)), [], [], log, 0, None, True, False)


class Client:
    """A client that speaks the protocol by hand and keeps everything that it is told, in order."""

    def __init__(self, server: "Server", number: int) -> None:
        self.server = server
        self.connection = ClientConnection(number, "127.0.0.1", 40_000 + number, FrameReader())
        self.received: list[tuple[Any, ...]] = []
        """("reply", xid, zxid, error, body), ("event", zxid, type, path), in their order."""
        self.response: ConnectResponse | None = None
        self.raw = b""
        self.is_closed = False
        self.opcodes: dict[int, int] = {}
        self.last_xid = 0
        self._frames = FrameReader(1 << 26)
        server.inputs.append(ClientConnected(self.connection))

    def say(self, data: bytes) -> None:
        self.server.inputs.append(ClientBytes(self.connection, data))

    def close(self) -> None:
        self.server.inputs.append(ClientClosed(self.connection))

    def connect_request(
        self, session: int = 0, password: bytes = bytes(16), timeout_ms: int = 10_000, seen: int = 0
    ) -> bytes:
        return frame(ConnectRequest(seen, timeout_ms, session, password).encode())

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> bytes:
        if xid is None:
            self.last_xid += 1
            xid = self.last_xid
        self.opcodes[xid] = opcode
        return request_frame(xid, opcode, body)

    def create(self, path: bytes, data: bytes = b"", flags: int = 0, acl: Any = OPEN_ACL) -> bytes:
        return self.request(OpCode.CREATE, Create(path, data, acl, flags).encode())

    def set(self, path: bytes, data: bytes) -> bytes:
        return self.request(OpCode.SET_DATA, SetData(path, data, -1).encode())

    def get(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.GET_DATA, PathWatch(path, watch).encode())

    def exists(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.EXISTS, PathWatch(path, watch).encode())

    def children(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.GET_CHILDREN, PathWatch(path, watch).encode())

    def delete(self, path: bytes) -> bytes:
        return self.request(OpCode.DELETE, PathVersion(path, -1).encode())

    def sync(self, path: bytes = b"/") -> bytes:
        return self.request(OpCode.SYNC, PathOnly(path).encode())

    def add_watch(self, path: bytes, mode: int) -> bytes:
        return self.request(OpCode.ADD_WATCH, PathKind(path, mode).encode())

    def take(self, output: bytes) -> None:
        """What the server sent."""
        self.raw += output
        for payload in self._frames.feed(output):
            if self.response is None:
                self.response = ConnectResponse.decode(payload)
                continue
            header = ReplyHeader.decode(payload)
            if header.xid == NOTIFICATION:
                event = WatcherEvent.decode(payload)
                self.received.append(("event", header.zxid, event.type, event.path))
                continue
            body = None
            if not header.error and header.xid in self.opcodes and len(payload) > ReplyHeader.BYTES:
                body = decode_body(self.opcodes[header.xid], payload)
            self.received.append(("reply", header.xid, header.zxid, header.error, body))

    def take_received(self) -> list[tuple[Any, ...]]:
        received, self.received = self.received, []
        return received

    def replies(self) -> list[tuple[int, int, Any]]:
        """(xid, error, body) of the replies since the last look; events stay."""
        replies = [item for item in self.received if item[0] == "reply"]
        self.received = [item for item in self.received if item[0] == "event"]
        return [(xid, error, body) for _, xid, _, error, body in replies]

    def events(self) -> list[tuple[int, bytes]]:
        """(type, path) of the events since the last look; replies stay."""
        events = [item for item in self.received if item[0] == "event"]
        self.received = [item for item in self.received if item[0] == "reply"]
        return [(kind, path) for _, _, kind, path in events]


class Server:
    """One member, with what it is to be told next."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.inputs: list[Input] = []
        self.durable_held = False
        self.held: list[Input] = []
        self.traces: list[str] = []
        self.halted: str | None = None
        self.snapshots: list[TakeSnapshot] = []
        self.keep_output = False
        """The socket takes nothing."""
        self.logged: list[Batch] = []
        """What its log files hold; a test takes the oldest away."""
        self.reads: list[ReadChanges | LookBackSlice] = []
        self.reads_held = False
        """Reads for the feed of changes are answered by `answer_read` alone."""
        self.looked_back: list[PastAcls | None] = []
        """The answers to slices of looking back; behind the last one nothing is found."""

    @property
    def sid(self) -> int:
        return self.member.config.server_id

    @property
    def value(self) -> Callable[[bytes], bytes | None]:
        return lambda path: (self.member.tree.get(path) or (None,))[0]


class Ensemble:
    """Members 1..n; with one it is standalone. Further lines of the configuration as keyword arguments."""

    def __init__(self, size: int = 1, start: bool = True, **lines: object) -> None:
        self.now = 1_000_000
        self.links: dict[int, tuple[int, int]] = {}
        self.cut: set[int] = set()
        """Servers whose links carry nothing for now."""
        self.on_wire: dict[int, deque[tuple[int, msg.Message]]] = {}
        self.clients: dict[ClientConnection, Client] = {}
        self.servers: dict[int, Server] = {}
        self.sent: list[tuple[int, msg.Message]] = []
        """Everything that was sent between members: sender and message."""
        for sid in range(1, size + 1):
            member = Member(self._config(sid, size, lines), nothing_on_disk(), Random(sid), self.now, WALL)
            self.servers[sid] = Server(member)
        if size > 1:
            for sid, server in self.servers.items():
                server.inputs += [ev.ElectionLinkUp(other, 1) for other in self.servers if other != sid]
        if start:
            self.start()

    @staticmethod
    def _config(sid: int, size: int, lines: dict[str, object]) -> Any:
        text = [f"dataDir=/nowhere/{sid}", "clientPort=2181", f"tickTime={TICK_MS}", "initLimit=10", "syncLimit=5"]
        if size > 1:
            text += [f"server.{n}=127.0.0.1:{2000 + n}:{3000 + n}" for n in range(1, size + 1)]
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
        return next(server for server in self.servers.values() if server.member.peer.state == 2)

    @property
    def follower(self) -> Server:
        return next(server for server in self.servers.values() if server.member.peer.state == 1)

    def others(self, server: Server) -> list[Server]:
        return [other for other in self.servers.values() if other is not server]

    # ---------------------------------------------------------------------------------------------------------- clients

    def client(self, server: Server | None = None) -> Client:
        """A socket that is open, and nothing more."""
        client = Client(server or self.servers[1], len(self.clients) + 1)
        self.clients[client.connection] = client
        return client

    def session(self, server: Server | None = None, timeout_ms: int = 10_000) -> Client:
        """A client with a session."""
        client = self.client(server)
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
                if server.inputs or self._is_due(server):
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
        inputs, server.inputs = server.inputs, []
        for effect in server.member.step(self.now, WALL + self.now, inputs):
            self._carry_out(server, effect)
        for connection in list(server.member.clients.dirty):
            self._flush(server, connection)

    def _flush(self, server: Server, connection: ClientConnection) -> None:
        client = self.clients[connection]
        if server.keep_output:
            connection.unsent_bytes += connection.out_bytes
            client.raw += b"".join(connection.take_output())
        elif connection.closing is not Closing.AT_ONCE:
            client.take(b"".join(connection.take_output()))
        if connection.closing:
            client.is_closed = True

    # ---------------------------------------------------------------------------------------------------------- effects

    def _carry_out(self, server: Server, effect: Any) -> None:
        answers = server.held if server.durable_held else server.inputs
        match effect:
            case ev.AppendBatches():
                server.logged += effect.batches
                answers.append(ev.Durable(effect.generation, effect.batches[-1].zxid))
            case ev.TruncateLog():
                answers.append(ev.LogCut(effect.generation, effect.zxid))
            case ev.ResetLog():
                answers.append(ev.LogCut(effect.generation, 0))
            case ev.SaveEpochs():
                answers.append(ev.EpochsSaved(effect.generation, effect.accepted, effect.current))
            case ev.SaveMember():
                answers.append(ev.MemberSaved(effect.generation))
            case ev.DrainLog():
                answers.append(ev.LogDrained(effect.generation))
            case ev.SendNotification():
                if not {server.sid, effect.sid} & self.cut:
                    self.servers[effect.sid].inputs.append(ev.NotificationReceived(server.sid, effect.notification))
            case ev.ConnectQuorum():
                self._dial(server, effect.sid)
            case ev.Send():
                for link in effect.links:
                    if link in self.links:
                        self.sent.append((server.sid, effect.message))
                        self.on_wire[link].append((server.sid, effect.message))
            case ev.CloseLink():
                self.break_link(effect.link, server.sid)
            case TakeSnapshot():
                server.snapshots.append(effect)
            case ReadChanges() | LookBackSlice():
                server.reads.append(effect)
                if not server.reads_held:
                    self.answer_read(server)
            case ev.Trace():
                server.traces.append(effect.text)
            case ev.Halt():
                server.halted = effect.reason

    def answer_read(self, server: Server) -> None:
        """What the worker makes of the last read."""
        effect = server.reads[-1]
        if isinstance(effect, LookBackSlice):
            past = server.looked_back.pop(0) if server.looked_back else PastAcls(effect.upto)
            server.inputs.append(LookedBack(past))
            return
        start = start_of(effect.place)
        batches = effect.batches
        if not batches:
            before = [batch.zxid for batch in server.logged if batch.zxid <= start]
            oldest = 0 if not server.logged or server.logged[0].first & 0xFFFFFFFF == 1 else server.logged[0].first - 1
            if start < oldest:
                server.inputs.append(ChangesRead(PageStatus.OLDER, oldest=oldest))
                return
            batches = [batch for batch in server.logged if start < batch.zxid <= effect.upto]
            if not is_known(effect.place, before[-1] if before else oldest, batches):
                server.inputs.append(ChangesRead(PageStatus.ELSEWHERE))
                return
        found = ((batch.zxid, rows_of(batch, effect.prefix)) for batch in batches)
        server.inputs.append(
            ChangesRead(PageStatus.GIVEN, *gather(found, effect.place, effect.prefix, effect.bytes_max))
        )

    def finish_snapshot(self, server: Server) -> None:
        taken = server.snapshots[-1]
        taken.cursor.close()
        server.inputs.append(SnapshotTaken(taken.zxid))

    def release(self, server: Server) -> None:
        """What the storage of a server has done meanwhile."""
        server.durable_held = False
        server.inputs += server.held
        server.held = []

    def _dial(self, server: Server, sid: int) -> None:
        if {server.sid, sid} & self.cut:
            server.inputs.append(ev.QuorumLinkDown(0))
            return
        link = len(self.on_wire) + 1
        self.links[link] = (server.sid, sid)
        self.on_wire[link] = deque()
        server.inputs.append(ev.QuorumLinkUp(link, sid, False))
        self.servers[sid].inputs.append(ev.QuorumLinkUp(link, server.sid, True))

    def break_link(self, link: int, by: int | None = None) -> None:
        for sid in self.links.pop(link, ()):
            if sid != by:
                self.servers[sid].inputs.append(ev.QuorumLinkDown(link))

    def _deliver(self) -> bool:
        moved = False
        for link, waiting in self.on_wire.items():
            if link not in self.links or set(self.links[link]) & self.cut:
                continue
            while waiting:
                sender, message = waiting.popleft()
                receiver = sum(self.links[link]) - sender
                decoded = msg.decode(msg.encode(message))
                self.servers[receiver].inputs.append(ev.MessageReceived(link, decoded))
                moved = True
        return moved


def texts(payload: bytes) -> list[bytes]:
    """A vector of texts."""
    return Reader(payload).vector(lambda reader: reader.string() or b"") or []
