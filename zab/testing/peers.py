"""Peers in one thread: the protocol alone, with links, disks and time in the hands of the test.

    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    zxid = ensemble.propose(leader, b"a batch")
    ensemble.settle()
    assert all(server.applied[-1].zxid == zxid for server in ensemble.servers.values())

Every message, vote and storage effect waits in a queue until it is delivered. `settle` delivers all of them at one
moment, `run` lets time pass, `deliver_one` takes a single step. Between them a test looks at the queues (`wires`,
`votes`, `Server.storage`), holds a kind of storage effect back (`Server.held`), pauses a server, crashes it or cuts it
off, and reads what each peer said (`trace`). Time is in milliseconds and begins at 0; nothing is random unless `rng` is
set. After each step the peer checks its own invariants.

The simulator (`zab.simulator`) runs whole members with real logs, clients and checkers; `zab.testing.members` runs
whole members step by step.
"""

from collections import deque
from random import Random
from typing import Any

from datatree.log.batch import CHAIN_BYTES, Batch, Position, imported
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid, end_of, epoch_of, make_zxid, next_epoch
from zab import events as ev
from zab import message as msg
from zab.ids import Link, ServerId
from zab.peer import Peer
from zab.peer_state import Restored, Settings, nothing
from zab.quorum import Majority, Quorum
from zab.states import BATCHES, BEGINNING, FOUNDER, LEADING, NOTHING

TICK_MS = 100

LOG_READ_COUNT_MAX = 2
"""Batches in the answer to one `ReadLog`: few, so that catching up takes several."""


class Disk:
    """What one server has on its disk. It outlives a crash, up to what was made durable before."""

    def __init__(self) -> None:
        self.lineage = b""
        """Of the log and the snapshots; empty before there is one."""
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.member: bytes | None = None
        """The lineage in the member record, None without a record: the server is an amnesiac."""
        self.base: Position = (BEFORE_ALL, bytes(CHAIN_BYTES))
        """Where the log begins: everything up to here is in a snapshot."""
        self.batches: list[Batch] = []
        """The log."""
        self.mark = BEFORE_ALL
        """The highest known high-water mark."""
        self.beginning = BEFORE_ALL
        """The zxid that the lineage began with, where forced recovery or restore made it."""
        self.founder = False
        """Forced recovery, on this disk."""
        self.conflicts: list[Batch] = []
        """Batches that were set aside because a leader had others at the same zxid."""
        self.marker = False
        """Whether there is a file `initialize`."""

    def restored(self) -> Restored:
        """What a start finds; the marker is gone then."""
        marker, self.marker = self.marker, False
        last = self.batches[-1].zxid if self.batches else self.base[0]
        holds = NOTHING if last == 0 else BATCHES
        if 0 < last == self.beginning:
            holds = FOUNDER if self.founder and self.member is not None else BEGINNING
        if self.member is None:
            return Restored(
                self.lineage,
                self.accepted,
                self.current,
                BEFORE_ALL,
                nothing().base,
                [],
                amnesiac=True,
                holds=holds,
                marked=marker and holds == NOTHING,
                beginning=self.beginning,
            )
        marks = [batch.mark for batch in self.batches]
        mark = min(max([self.mark, self.base[0], *marks]), last)
        return Restored(
            self.member,
            self.accepted,
            self.current,
            mark,
            self.base,
            list(self.batches),
            amnesiac=False,
            holds=holds,
            beginning=self.beginning,
        )

    def recover(self) -> None:
        """`zab recover --force`: all that is here is what a new lineage begins with."""
        last = self.batches[-1].zxid if self.batches else self.base[0]
        self.accepted = self.current = next_epoch(self.accepted, epoch_of(last))
        self.lineage = self.member = imported(self.lineage, last, 0)
        self.beginning, self.founder = make_zxid(self.accepted, 1), True
        self.base = self.beginning, imported(self.lineage, self.beginning, 0)
        self.batches, self.mark = [], BEFORE_ALL


class Server:
    """One server: its peer while it is up, its disk always, and what the peer has delivered."""

    def __init__(self, sid: ServerId) -> None:
        self.sid = sid
        self.disk = Disk()
        self.peer: Peer | None = None
        self.storage: deque[ev.Effect] = deque()
        """Storage effects that are not carried out yet, first in first out."""
        self.held: set[type] = set()
        """Kinds of storage effects that are not carried out for now; one of them holds up all after it."""
        self.applied: list[Batch] = []
        """Everything that was delivered, by this process or known as committed at its start."""
        self.synced: list[tuple[int, Zxid]] = []
        """(token, mark) of each `SyncConfirmed`."""
        self.member_messages: list[ev.MemberMessage] = []
        """What came for the member, not for the protocol."""
        self.inbox: deque[ev.Event] = deque()
        """What happened to it while it was paused."""
        self.halted: str | None = None
        """Why the peer stopped for good."""


class Ensemble:
    """Servers 1 to `size`, the observers, and what is on its way between all of them.

    Without a `quorum` it is the majority of the servers 1 to `size`. Further settings are those of
    `zab.peer_state.Settings`, as keyword arguments."""

    def __init__(
        self, size: int = 3, quorum: Quorum | None = None, observers: frozenset[ServerId] = frozenset(), **settings: int
    ):
        voters = frozenset(ServerId(sid) for sid in range(1, size + 1))
        ids = voters | observers
        self.quorum = quorum or Majority(voters)
        self.observers = observers
        self.settings = {"tick_ms": TICK_MS, "init_limit": 10, "sync_limit": 5, **settings}
        self.servers = {sid: Server(sid) for sid in sorted(ids)}
        self.now = 0
        self.trace: list[str] = []
        """What the peers said, each with its server id before it."""
        self.cut: set[frozenset[ServerId]] = set()
        """Pairs that cannot reach each other."""
        self.links: dict[Link, tuple[ServerId, ServerId]] = {}
        """Open quorum links: number to (dialler, acceptor)."""
        self.wires: dict[tuple[Link, ServerId], deque[msg.Message]] = {}
        """(link, receiver) to the messages on their way."""
        self.votes: dict[tuple[ServerId, ServerId], deque[msg.Notification]] = {}
        """(sender, receiver) to the votes on their way."""
        self.paused: set[ServerId] = set()
        """Servers that stand still: nothing reaches them, and no time passes for them."""
        self.rng: Random | None = None
        """With it, what is delivered next is drawn; without, storage comes before votes, and votes before messages."""
        self._links_count = 0
        self._starts = 0

    # ------------------------------------------------------------------------------------------------------- driving

    def start(self, *sids: ServerId) -> None:
        """Start these servers, or all, from what is on their disks, and connect them to the others that are up."""
        for sid in sids or self.servers:
            server = self.servers[sid]
            assert server.peer is None
            settings = Settings(sid, self.quorum, frozenset(self.servers), self.observers, **self.settings)
            server.storage.clear()
            restored = server.disk.restored()
            server.applied = [batch for batch in restored.batches if batch.zxid <= restored.mark]
            self._starts += 1
            # Two foundings by one server must make two lineages.
            server.peer = Peer(settings, restored, Random(1000 * self._starts + sid))
            self.step(sid, ev.TimePassed())
            for other in self.servers.values():
                if other.sid != sid and other.peer is not None and frozenset((sid, other.sid)) not in self.cut:
                    self.step(sid, ev.ElectionLinkUp(other.sid, 1))
                    self.step(other.sid, ev.ElectionLinkUp(sid, 1))
                elif other.sid != sid:
                    self.step(sid, ev.ElectionLinkDown(other.sid))

    def crash(self, *sids: ServerId) -> None:
        """End the processes of these servers: what is not durable is lost, and their links break."""
        for sid in sids:
            server = self.servers[sid]
            server.peer = None
            server.storage.clear()
            server.inbox.clear()
            self.paused.discard(sid)
            for link, ends in list(self.links.items()):
                if sid in ends:
                    self._break(link, sid)
            for pair in [pair for pair in self.votes if sid in pair]:
                del self.votes[pair]
            for other in self.up():
                self.step(other, ev.ElectionLinkDown(sid))

    def partition(self, one: ServerId, two: ServerId) -> None:
        """Cut two servers off from each other; what is on its way between them is lost."""
        self.cut.add(frozenset((one, two)))
        for link, ends in list(self.links.items()):
            if set(ends) == {one, two}:
                self._break(link, None)
        for pair in ((one, two), (two, one)):
            self.votes.pop(pair, None)
        self.step(one, ev.ElectionLinkDown(two))
        self.step(two, ev.ElectionLinkDown(one))

    def heal(self, one: ServerId, two: ServerId) -> None:
        """End their partition."""
        self.cut.discard(frozenset((one, two)))
        if self.servers[one].peer is not None and self.servers[two].peer is not None:
            self.step(one, ev.ElectionLinkUp(two, 1))
            self.step(two, ev.ElectionLinkUp(one, 1))

    def resume(self, sid: ServerId) -> None:
        """A paused server goes on: first with what happened to its connections, in order."""
        self.paused.discard(sid)
        inbox = self.servers[sid].inbox
        while inbox and sid not in self.paused:
            self.step(sid, inbox.popleft())

    def wipe(self, sid: ServerId) -> None:
        """A server that is down loses its disk."""
        server = self.servers[sid]
        assert server.peer is None
        server.disk, server.applied = Disk(), []

    def cut_log(self, sid: ServerId) -> None:
        """What this server has applied goes from its log: a snapshot has it."""
        server = self.servers[sid]
        disk, applied = server.disk, self.peer(sid).delivered
        for batch in disk.batches:
            if batch.zxid <= applied:
                disk.base = batch.zxid, batch.chain
        disk.batches = [batch for batch in disk.batches if batch.zxid > disk.base[0]]

    def up(self) -> list[ServerId]:
        """The servers whose process runs."""
        return [sid for sid, server in self.servers.items() if server.peer is not None]

    def peer(self, sid: ServerId) -> Peer:
        """The peer of a server that is up."""
        peer = self.servers[sid].peer
        assert peer is not None
        return peer

    def leader(self) -> ServerId | None:
        """A server that serves as leader; there may be one more, which does not know yet that it is deposed."""
        for sid in self.up():
            if self.peer(sid).state == LEADING and self.peer(sid).serving:
                return sid
        return None

    def propose(self, sid: ServerId, body: bytes = b"x", count: int = 1) -> Zxid:
        """Let this leader propose one batch; the last zxid of it."""
        peer = self.peer(sid)
        first = peer.next_zxid()
        assert first is not None
        self.step(sid, ev.Propose(body, count, 0, 0, peer.delivered, 0, 1))
        return end_of(first, count)

    def step(self, sid: ServerId, event: ev.Event) -> None:
        """Give a server an event, and carry out what its peer wants. One that is down hears nothing; one that is
        paused hears it later."""
        server = self.servers[sid]
        if server.peer is None:
            return
        if sid in self.paused:
            server.inbox.append(event)
            return
        for effect in server.peer.step(self.now, event):
            self._carry_out(server, effect)

    # --------------------------------------------------------------------------------------------------- one delivery

    def deliver_one(self) -> bool:
        """Deliver the next thing that is on its way; False when there is none."""
        waiting: list[tuple[str, Any]] = [
            ("storage", server)
            for server in self.servers.values()
            if server.peer is not None
            and server.storage
            and type(server.storage[0]) not in server.held
            and server.sid not in self.paused
        ]
        waiting += [("vote", pair) for pair, votes in self.votes.items() if votes and pair[1] not in self.paused]
        waiting += [("message", at) for at, queue in self.wires.items() if queue and at[1] not in self.paused]
        if not waiting:
            return False
        kind, at = waiting[0] if self.rng is None else self.rng.choice(waiting)
        if kind == "storage":
            self._store(at, at.storage.popleft())
        elif kind == "vote":
            self.step(at[1], ev.NotificationReceived(at[0], self.votes[at].popleft()))
        else:
            self.step(at[1], ev.MessageReceived(at[0], self.wires[at].popleft()))
        return True

    def settle(self, limit: int = 20_000) -> None:
        """Deliver everything that is on its way, at one moment."""
        for _ in range(limit):
            if not self.deliver_one():
                return
        raise AssertionError("the ensemble does not come to rest")

    def run(self, ms: int) -> None:
        """Let time pass: deliver everything, then step whoever has a deadline, in its order."""
        end = self.now + ms
        self.settle()
        while True:
            deadlines = [(self.peer(sid).next_deadline(), sid) for sid in self.up() if sid not in self.paused]
            due = min(((at, sid) for at, sid in deadlines if at is not None), default=None)
            if due is None or due[0] > end:
                break
            self.now = max(self.now, due[0])
            self.step(due[1], ev.TimePassed())
            self.settle()
        self.now = end

    def elect(self, ms: int = 3000) -> ServerId:
        """Run until somebody serves as leader."""
        for _ in range(ms // 10):
            self.run(10)
            leader = self.leader()
            if leader is not None:
                return leader
        raise AssertionError("no leader:\n" + "\n".join(self.trace[-30:]))

    # -------------------------------------------------------------------------------------------------------- effects

    def _carry_out(self, server: Server, effect: ev.Effect) -> None:
        sid = server.sid
        if isinstance(effect, ev.STORAGE_EFFECTS):
            server.storage.append(effect)
        elif isinstance(effect, ev.SendNotification):
            if frozenset((sid, effect.sid)) not in self.cut and self.servers[effect.sid].peer is not None:
                vote = msg.decode(msg.encode(effect.notification))
                assert isinstance(vote, msg.Notification)
                self.votes.setdefault((sid, effect.sid), deque()).append(vote)
        elif isinstance(effect, ev.ConnectQuorum):
            self._connect(sid, effect.sid)
        elif isinstance(effect, ev.Send):
            for link in effect.links:
                if link in self.links:
                    self.wires[link, self._other(link, sid)].append(msg.decode(msg.encode(effect.message)))
        elif isinstance(effect, ev.CloseLink):
            if effect.link in self.links:
                self._break(effect.link, sid)
        elif isinstance(effect, ev.Deliver):
            server.applied.extend(effect.batches)
        elif isinstance(effect, ev.MarkMoved):
            server.disk.mark = effect.zxid
        elif isinstance(effect, ev.SyncConfirmed):
            server.synced.append((effect.token, effect.zxid))
        elif isinstance(effect, ev.MemberMessage):
            server.member_messages.append(effect)
        elif isinstance(effect, ev.AnswerPing):
            self._carry_out(server, ev.Send((effect.link,), msg.Ping(0, 0, 0, [])))
        elif isinstance(effect, ev.ReadLog):
            self.step(sid, self._read(server, effect))
        elif isinstance(effect, ev.OfferSnapshot):
            self.step(sid, ev.SnapshotOffered(effect.link, *server.disk.base))
        elif isinstance(effect, ev.Halt):
            server.halted = effect.reason
            self.trace.append(f"{sid} halts: {effect.reason}")
            self.crash(sid)
        elif isinstance(effect, ev.Trace):
            self.trace.append(f"{sid}: {effect.text}")
        else:
            assert isinstance(effect, ev.RoleChanged), effect

    def _read(self, server: Server, effect: ev.ReadLog) -> ev.LogRead:
        disk = server.disk
        if effect.zxid < disk.base[0]:
            return ev.LogRead(effect.link, None, [])
        position = disk.base
        for batch in disk.batches:
            if batch.zxid <= effect.zxid:
                position = batch.zxid, batch.chain
        return ev.LogRead(effect.link, position, [b for b in disk.batches if b.zxid > position[0]][:LOG_READ_COUNT_MAX])

    def _connect(self, sid: ServerId, to: ServerId) -> None:
        if self.servers[to].peer is None or frozenset((sid, to)) in self.cut or to in self.paused:
            self.step(sid, ev.DialFailed(to))
            return
        self._links_count += 1
        link = Link(self._links_count)
        self.links[link] = sid, to
        self.wires[link, sid] = deque()
        self.wires[link, to] = deque()
        self.step(to, ev.QuorumLinkUp(link, sid, inbound=True))
        self.step(sid, ev.QuorumLinkUp(link, to, inbound=False))

    def _other(self, link: Link, sid: ServerId) -> ServerId:
        dialler, acceptor = self.links[link]
        return acceptor if sid == dialler else dialler

    def _break(self, link: Link, by: ServerId | None) -> None:
        """Close a link. What its closer had sent still arrives; the other way, and after a partition, nothing does."""
        ends = self.links.pop(link)
        for end in ends:
            queue = self.wires.pop((link, end))
            if end == by or self.servers[end].peer is None:
                continue
            if by is not None and self.servers[by].peer is not None:
                for message in queue:
                    self.step(end, ev.MessageReceived(link, message))
            self.step(end, ev.QuorumLinkDown(link))

    def _store(self, server: Server, effect: ev.Effect) -> None:
        disk = server.disk
        if isinstance(effect, ev.AppendBatches):
            assert disk.lineage == self.peer(server.sid).lineage, "a history begins with its lineage"
            disk.batches.extend(effect.batches)
            self.step(server.sid, ev.Durable(effect.generation, effect.batches[-1].zxid))
        elif isinstance(effect, ev.TruncateLog):
            if effect.conflict:
                disk.conflicts += [batch for batch in disk.batches if batch.zxid > effect.zxid]
            disk.batches = [batch for batch in disk.batches if batch.zxid <= effect.zxid]
            self.step(server.sid, ev.LogCut(effect.generation, effect.zxid))
        elif isinstance(effect, ev.ResetLog):
            disk.batches, disk.lineage, disk.mark = [], effect.lineage, BEFORE_ALL
            disk.base = (BEFORE_ALL, self.peer(server.sid).history.base[1])
            server.applied = []
            self.step(server.sid, ev.LogCut(effect.generation, BEFORE_ALL))
        elif isinstance(effect, ev.FetchSnapshot):
            source = self.servers[effect.sid]
            if source.peer is None or source.disk.base != (effect.zxid, effect.chain):
                self._fail_fetch(server, effect)
                return
            disk.member = None
            if effect.conflict:
                disk.conflicts += disk.batches
            disk.batches, disk.base, disk.lineage = [], (effect.zxid, effect.chain), effect.lineage
            server.applied = [batch for batch in source.applied if batch.zxid <= effect.zxid]
            disk.mark = effect.zxid
            disk.beginning = effect.zxid if effect.zxid == source.disk.beginning else BEFORE_ALL
            begins = disk.beginning > 0
            self.step(server.sid, ev.SnapshotInstalled(effect.generation, effect.zxid, effect.chain, begins))
        elif isinstance(effect, ev.SaveEpochs):
            disk.accepted, disk.current = effect.accepted, effect.current
            self.step(server.sid, ev.EpochsSaved(effect.generation, effect.accepted, effect.current))
        elif isinstance(effect, ev.SaveMember):
            disk.member, disk.founder = effect.lineage, False
            self.step(server.sid, ev.MemberSaved(effect.generation))
        else:
            assert isinstance(effect, ev.DrainLog)
            self.step(server.sid, ev.LogDrained(effect.generation))

    def _fail_fetch(self, server: Server, effect: ev.FetchSnapshot) -> None:
        """As if the leader had gone; when the role is over already, nothing is left to say."""
        link = self.peer(server.sid).link_to_leader
        if link in self.links and not server.storage:
            self._break(link, None)


def histories(ensemble: Ensemble) -> set[Position]:
    """The ends of the histories of all members that are up."""
    return {ensemble.peer(sid).history.last for sid in ensemble.up()}
