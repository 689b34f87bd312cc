"""Peers in one thread: the protocol alone, with links, disks and time in the hands of the test.

    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    zxid = ensemble.propose(leader, b"a batch")
    ensemble.settle()
    assert all(server.applied[-1].zxid == zxid for server in ensemble.servers.values())

Each peer runs in a turn (`zab.member.turn`) over a real storage on a disk in memory, as it does in a member. The rest
of the member is missing (`tests.rigs.direct.lone_peer`).

Every message, vote, storage effect and task waits in a queue until it is delivered. `settle` delivers all of them at
one moment, `run` lets time pass, `deliver_one` takes a single step. Between them a test looks at the queues (`wires`,
`votes`, `Server.to_store`, `Server.tasks`), holds a kind of storage effect or task back (`Server.held`), pauses a
server, crashes it or cuts it off, and reads what each peer said (`trace`). Time is in milliseconds and begins at 0;
nothing is random unless `rng` is set. After each step the peer checks its own invariants.

The simulator (`zab.simulator`) runs whole members with real logs, clients and checkers; `members` runs whole members
step by step.
"""

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import Position
from datatree.log.zxid import Zxid, end_of
from tests.rigs.direct.lone_peer import Process, Server, Task, transactions
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Settings
from zab.protocol.states import LEADING
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Majority, Quorum

TICK_MS = 100


class Ensemble:
    """Servers 1 to `size`, the observers, and what is on its way between all of them.

    Without a `quorum` it is the majority of the servers 1 to `size`. Further settings are those of
    `zab.protocol.peer_settings.Settings`, as keyword arguments."""

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
        self.votes: dict[tuple[ServerId, ServerId], deque[ev.NotificationReceived]] = {}
        """(sender, receiver) to the votes on their way."""
        self.named: dict[ServerId, frozenset[ServerId]] = {}
        """The servers in the file of a server, where those are not all."""
        self.unproven: set[ServerId] = set()
        """Servers that prove nothing: what is secret is left out of their links."""
        self.paused: set[ServerId] = set()
        """Servers that stand still: nothing reaches them, and no time passes for them."""
        self.rng: Random | None = None
        """With it, what is delivered next is drawn; without, storage comes before tasks, then votes, then
        messages."""
        self._links_count = 0
        self._starts = 0

    # ------------------------------------------------------------------------------------------------------- driving

    def start(self, *sids: ServerId) -> None:
        """Start these servers, or all, from what is on their disks, and connect them to the others that are up."""
        for sid in sids or self.servers:
            server = self.servers[sid]
            assert server.process is None
            settings = Settings(
                sid, self.quorum, self.named.get(sid, frozenset(self.servers)), self.observers, **self.settings
            )
            self._starts += 1
            # Two foundings by one server must make two lineages.
            server.process = Process(self, server, settings, Random(1000 * self._starts + sid))
            self.step(sid, ev.TimePassed())
            for other in self.servers.values():
                if other.sid != sid and other.process is not None and frozenset((sid, other.sid)) not in self.cut:
                    self.step(sid, ev.ElectionLinkUp(other.sid, 1))
                    self.step(other.sid, ev.ElectionLinkUp(sid, 1))
                elif other.sid != sid:
                    self.step(sid, ev.ElectionLinkDown(other.sid))

    def crash(self, *sids: ServerId) -> None:
        """End the processes of these servers: what is not durable is lost, and their links break."""
        for sid in sids:
            server = self.servers[sid]
            server.process = None
            server.disk.kill()
            server.to_store.clear()
            server.tasks.clear()
            server.inbox.clear()
            self.paused.discard(sid)
            for link, ends in list(self.links.items()):
                if sid in ends:
                    self.close(link, sid)
            for pair in [pair for pair in self.votes if sid in pair]:
                del self.votes[pair]
            for other in self.up():
                self.step(other, ev.ElectionLinkDown(sid))

    def partition(self, one: ServerId, two: ServerId) -> None:
        """Cut two servers off from each other; what is on its way between them is lost."""
        self.cut.add(frozenset((one, two)))
        for link, ends in list(self.links.items()):
            if set(ends) == {one, two}:
                self.close(link, None)
        for pair in ((one, two), (two, one)):
            self.votes.pop(pair, None)
        self.step(one, ev.ElectionLinkDown(two))
        self.step(two, ev.ElectionLinkDown(one))

    def heal(self, one: ServerId, two: ServerId) -> None:
        """End their partition."""
        self.cut.discard(frozenset((one, two)))
        if self.servers[one].process is not None and self.servers[two].process is not None:
            self.step(one, ev.ElectionLinkUp(two, 1))
            self.step(two, ev.ElectionLinkUp(one, 1))

    def resume(self, sid: ServerId) -> None:
        """A paused server goes on: first with what happened to its connections, in order."""
        self.paused.discard(sid)
        inbox = self.servers[sid].inbox
        while inbox and sid not in self.paused:
            self.step(sid, inbox.popleft())

    def up(self) -> list[ServerId]:
        """The servers whose process runs."""
        return [sid for sid, server in self.servers.items() if server.process is not None]

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

    def propose(self, sid: ServerId, data: bytes = b"x", count: int = 1) -> Zxid:
        """Let this leader propose one batch of writes of these bytes; the last zxid of it."""
        process = self.servers[sid].process
        assert process is not None
        first = process.alone.peer.next_zxid()
        assert first is not None
        applied, digest = process.alone.peer.delivered, process.alone.tree.digest
        body = transactions(first, count, data)
        self.step(sid, ev.Propose(first, body, count, 0, 0, applied, digest, DIGEST_VERSION))
        return end_of(first, count)

    def step(self, sid: ServerId, event: ev.Event) -> None:
        """Give a server an event, and carry out what its peer wants. One that is down hears nothing; one that is
        paused hears it later."""
        server = self.servers[sid]
        if server.process is None:
            return
        if sid in self.paused:
            server.inbox.append(event)
            return
        server.process.take(event)

    # --------------------------------------------------------------------------------------------------- one delivery

    def deliver_one(self) -> bool:
        """Deliver the next thing that is on its way; False when there is none."""
        going = [server for server in self.servers.values() if server.process and server.sid not in self.paused]
        waiting: list[tuple[str, Any]] = []
        waiting += [("storage", one) for one in going if one.to_store and type(one.to_store[0]) not in one.held]
        waiting += [("task", one) for one in going if one.tasks and type(one.tasks[0]) not in one.held]
        waiting += [("vote", pair) for pair, votes in self.votes.items() if votes and pair[1] not in self.paused]
        waiting += [("message", at) for at, queue in self.wires.items() if queue and at[1] not in self.paused]
        if not waiting:
            return False
        kind, at = waiting[0] if self.rng is None else self.rng.choice(waiting)
        if kind == "storage":
            at.process.perform(at.to_store.popleft())
        elif kind == "task":
            self.do(at, at.tasks.popleft())
        elif kind == "vote":
            self.step(at[1], self.votes[at].popleft())
        else:
            self.step(at[1], ev.MessageReceived(at[0], self.wires[at].popleft()))
        return True

    def do(self, server: Server, task: Task) -> None:
        """Do something that a server has begun beside its turns."""
        assert server.process is not None
        source = self.servers[task.sid] if isinstance(task, fx.FetchSnapshot) else server
        server.process.do(task, source.disk if source.process is not None else None)

    def settle(self, limit: int = 20_000) -> None:
        """Deliver everything that is on its way, at one moment."""
        for _ in range(limit):
            if not self.deliver_one():
                return
        raise AssertionError("the ensemble does not come to rest")

    def run(self, ms: int) -> None:
        """Let time pass: deliver everything, then step the peers with a deadline, in order."""
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

    # ------------------------------------------------------------------------------------- what a process reaches

    def send(self, sid: ServerId, links: Iterable[Link], message: msg.Message) -> None:
        """A message on each of these links, as far as they are open."""
        for link in links:
            if link in self.links and not (type(message) in msg.SECRET and self.unproven & {*self.links[link]}):
                self.wires[link, self._other(link, sid)].append(msg.decode(msg.encode(message)))

    def vote(self, sid: ServerId, vote: fx.SendNotification) -> None:
        """A vote for a server; it is lost when that cannot be reached."""
        if frozenset((sid, vote.sid)) not in self.cut and self.servers[vote.sid].process is not None:
            decoded = msg.decode(msg.encode(vote.notification))
            assert isinstance(decoded, msg.Notification)
            received = ev.NotificationReceived(sid, decoded, vote.in_force, vote.outstanding, sid not in self.unproven)
            self.votes.setdefault((sid, vote.sid), deque()).append(received)

    def connect(self, sid: ServerId, to: ServerId) -> None:
        """A server dials another one."""
        if self.servers[to].process is None or frozenset((sid, to)) in self.cut or to in self.paused:
            self.step(sid, ev.DialFailed(to))
            return
        self._links_count += 1
        link = Link(self._links_count)
        self.links[link] = sid, to
        self.wires[link, sid] = deque()
        self.wires[link, to] = deque()
        self.step(to, ev.QuorumLinkUp(link, sid, inbound=True))
        self.step(sid, ev.QuorumLinkUp(link, to, inbound=False))

    def close(self, link: Link, by: ServerId | None) -> None:
        """End a link. What its closer had sent still arrives; the other way, and where it broke by itself, nothing
        does."""
        if link not in self.links:
            return
        ends = self.links.pop(link)
        for end in ends:
            queue = self.wires.pop((link, end))
            if end == by or self.servers[end].process is None:
                continue
            if by is not None and self.servers[by].process is not None:
                for message in queue:
                    self.step(end, ev.MessageReceived(link, message))
            self.step(end, ev.QuorumLinkDown(link))

    def close_dialled(self, sid: ServerId, to: ServerId) -> None:
        """Break the links that a server dialled to another one."""
        for link in [link for link, ends in self.links.items() if ends == (sid, to)]:
            self.close(link, None)

    def say(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(text)

    def _other(self, link: Link, sid: ServerId) -> ServerId:
        dialler, acceptor = self.links[link]
        return acceptor if sid == dialler else dialler


def histories(ensemble: Ensemble) -> set[Position]:
    """The ends of the histories of all members that are up."""
    return {ensemble.peer(sid).history.last for sid in ensemble.up()}
