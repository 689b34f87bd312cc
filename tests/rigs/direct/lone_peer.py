"""One server of `tests.rigs.direct.peers`: a peer without its member, in the turn and over the storage of production.

`LonePeer` takes a member's place in `zab.member.turn.Turn`. `Process` is what lives from a start to a crash: the peer,
its turn with all ports, and a real `Storage`. `Server` outlives it: the disk, and what the peer has delivered.

Storage effects and tasks wait in the server's queues until the ensemble carries them out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol, TypeAlias

import attrs

from datatree.log.aside import CONFLICT
from datatree.log.batch import Batch, imported
from datatree.log.disk import Disk
from datatree.log.epochs import DIRECTORY, INITIALIZE, load_epochs, save_epochs
from datatree.log.frame import Frame, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, index_path
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import Epoch, Zxid, epoch_of, make_zxid, next_epoch
from datatree.opcodes import OpCode
from datatree.record import Txn, decode_fields, encode
from datatree.recovery.beginning import begin_history
from datatree.recovery.recover import examine, recover
from datatree.recovery.recovered import Recovered
from datatree.snapshot import SnapshotWriter, fetch_path, snapshot_files, snapshot_path
from datatree.tree import DataTree
from tests.rigs.direct.ports import DirectClients, DirectLinks
from zab.member.events import Answer, Input, MemberEffect
from zab.member.membership.restore import restored_of, tree_of
from zab.member.ports import Ports
from zab.member.settings.storage import StorageSettings
from zab.member.state.metrics import Metrics
from zab.member.storage.events import (
    ChooseSnapshot,
    FetchFailed,
    FetchTree,
    LookBackSlice,
    ReadChanges,
    SnapshotFetched,
    StorageEffect,
    TakeSnapshot,
    TreeInstalled,
)
from zab.member.storage.storage import Storage
from zab.member.trees.events import KeepSnapshot, RebuildTree
from zab.member.turn import Turn
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Settings
from zab.quorum.ids import Link, ServerId
from zab.simulator.world.disk import FaultyDisk

LOG_READ_BYTES_MAX: Final = 300
"""In the answer to one `ReadLog`, about two batches: so few that catching up takes several."""
_WALL: Final = 1_700_000_000_000
_NEVER: Final = 1 << 62

Task: TypeAlias = fx.FetchSnapshot | fx.ReadLog | fx.OfferSnapshot


def transactions(first: int, count: int, data: bytes) -> bytes:
    """The body of a batch: this many times, the root gets these bytes."""
    one = Txn(0, 0, 0, 0, int(OpCode.SET_DATA), 0, b"/", data, None)
    return b"".join(encode(one._replace(zxid=zxid)) for zxid in range(first, first + count))


class Environment(Protocol):
    """What a process reaches beyond itself."""

    now: int

    def connect(self, sid: ServerId, to: ServerId) -> None: ...

    def send(self, sid: ServerId, links: Iterable[Link], message: msg.Message) -> None: ...

    def vote(self, sid: ServerId, vote: fx.SendNotification) -> None: ...

    def close(self, link: Link, by: ServerId | None) -> None: ...

    def close_dialled(self, sid: ServerId, to: ServerId) -> None: ...

    def say(self, text: str) -> None: ...

    def crash(self, *sids: ServerId) -> None: ...


class Server:
    """One server: its process while it is up, its disk always, and what the peer has delivered."""

    def __init__(self, sid: ServerId) -> None:
        self.sid = sid
        self.disk = FaultyDisk()
        self.process: Process | None = None
        self.to_store: deque[StorageEffect] = deque()
        """Storage effects that are not carried out yet, first in first out."""
        self.tasks: deque[Task] = deque()
        """Reads and transfers that are not done yet."""
        self.held: set[type] = set()
        """Kinds of storage effects and tasks that wait for now; one of them holds up all after it in its queue."""
        self.applied: list[Batch] = []
        """Everything that was delivered, by this process or known as committed at its start."""
        self.synced: list[tuple[int, Zxid]] = []
        """(token, mark) of each `SyncConfirmed`."""
        self.member_messages: list[fx.MemberMessage] = []
        """What came for the member, not for the protocol."""
        self.inbox: deque[ev.Event] = deque()
        """What happened to it while it was paused."""
        self.halted: str | None = None
        """Why the peer stopped for good."""

    @property
    def peer(self) -> Peer | None:
        return None if self.process is None else self.process.alone.peer

    @property
    def offered(self) -> dict[Link, Zxid | None]:
        """The snapshots that it holds for learners."""
        return {} if self.process is None else self.process.offered

    # ---------------------------------------------------------------------------------------- what is on the disk

    @property
    def epochs(self) -> tuple[int, int]:
        """acceptedEpoch and currentEpoch."""
        return load_epochs(self.disk) or (0, 0)

    @property
    def logged(self) -> list[Batch]:
        """What its log files hold."""
        log = TransactionLog(self.disk, examine(self.disk).log)
        return log.read_from(log.first_position[0], 1 << 40)[1]

    @property
    def lineage(self) -> bytes:
        """The lineage of the log and the snapshots; empty before there is one."""
        return examine(self.disk).lineage

    @property
    def conflicts(self) -> list[Batch]:
        """Batches that were set aside because a leader had others at the same zxid."""
        batches: list[Batch] = []
        for name in self.disk.list(DIRECTORY):
            if CONFLICT in name:
                data = self.disk.read(f"{DIRECTORY}/{name}")
                parts = scan(data, int(name.split(".")[1], 16), SEGMENT_HEADER_BYTES).parts
                batches += [batch for part in parts if isinstance(part, Frame) for batch in part.batches]
        return batches

    def accept(self, epoch: int) -> None:
        """It has promised this epoch to somebody."""
        save_epochs(self.disk, epoch, self.epochs[1])

    def leave_marker(self) -> None:
        """The operator makes a file `initialize`."""
        self.disk.replace(INITIALIZE, b"")

    def wipe(self) -> None:
        """While it is down, it loses its disk."""
        assert self.process is None
        self.disk, self.applied = FaultyDisk(), []

    def recover_by_force(self) -> None:
        """`zab recover --force`: all that is here is what a new lineage begins with."""
        assert self.process is None
        found = examine(self.disk)
        for batch in found.pending:
            for txn in decode_fields(batch.body, batch.first, batch.count):
                found.tree.apply(txn)
        last = found.last[0]
        zxid = make_zxid(next_epoch(Epoch(self.epochs[0]), epoch_of(last)), 1)
        self.wipe()
        begin_history(self.disk, found.tree, zxid, imported(found.lineage or bytes(16), last, 0), self.sid)

    def take_snapshot(self) -> None:
        """A snapshot of what this server has applied takes the place of its log up to there, and of older snapshots."""
        assert self.process is not None
        tree, storage = self.process.alone.tree, self.process.storage
        zxid, chain = self.process.alone.position
        if zxid == 0 or self.disk.exists(snapshot_path(zxid)):
            return
        SnapshotWriter(self.disk, tree.begin_snapshot(), storage.log.lineage, chain).write()
        storage.log.roll()
        gone = [segment.path for segment in storage.log.segments if segment.last[0] <= zxid]
        storage.log.release(set(gone))
        gone += [snapshot_path(older) for older in snapshot_files(self.disk) if older < zxid]
        for path in gone + [index_path(path) for path in gone]:
            if self.disk.exists(path):
                self.disk.remove(path)
        self.disk.sync_directory(DIRECTORY)


@attrs.define
class Dirty:
    """Connections of clients: none."""

    dirty: tuple[()] = ()


@attrs.define
class Unpurged:
    """What a turn asks of a configuration: retention is off, tests remove files themselves."""

    storage = StorageSettings(data_dir="", purge_interval_hours=0)


class LonePeer:
    """In a member's place: a peer alone. What would be the member's is kept for the test to look at.

    Time passes when the test says so, by a `TimePassed` of its own, and not whenever a deadline is over."""

    clients = Dirty()
    config = Unpurged()
    may_have_more = has_more = is_between_states = False
    awaits_durable = True

    def __init__(self, server: Server, settings: Settings, recovered: Recovered, rng: Random) -> None:
        restored = restored_of(recovered)
        self.peer = Peer(settings, restored, rng)
        self.tree = tree_of(recovered)
        self.metrics = Metrics()
        self._server = server
        self._start = self.peer.history.base
        server.applied = [batch for batch in restored.batches if batch.zxid <= self.peer.delivered]

    @property
    def position(self) -> tuple[Zxid, bytes]:
        """Where its tree is."""
        return (self._server.applied[-1].zxid, self._server.applied[-1].chain) if self._server.applied else self._start

    def take_message(self, now: int, link: int, payload: bytes) -> bool:
        return False

    def take_durable(self, now: int, event: ev.Durable) -> bool:
        return False

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        effects: list[MemberEffect] = []
        for event in inputs:
            if isinstance(event, TreeInstalled):
                assert not self.peer.serving, "no tree is replaced under clients"
                self.tree = event.tree
                continue
            if isinstance(event, SnapshotFetched | FetchFailed):
                continue  # only the turn has to do with it
            if isinstance(event, ev.SnapshotInstalled):
                self._start, self._server.applied = (event.zxid, event.chain), []
            assert isinstance(event, ev.Event)
            for effect in self.peer.step(now, event):
                effects += self._keep(effect)
            self.peer.invariants()
        return effects

    def _keep(self, effect: fx.Effect) -> list[fx.Effect]:
        """What is left of an effect for the turn."""
        server = self._server
        if isinstance(effect, fx.Deliver):
            for batch in effect.batches:
                for txn in decode_fields(batch.body, batch.first, batch.count):
                    self.tree.apply(txn)
            server.applied += effect.batches
        elif isinstance(effect, fx.SyncConfirmed):
            server.synced.append((effect.token, effect.zxid))
        elif isinstance(effect, fx.MemberMessage):
            server.member_messages.append(effect)
        elif isinstance(effect, fx.AnswerPing):
            return [fx.Send((effect.link,), msg.Ping(0, 0, 0, [], False))]
        elif not isinstance(effect, fx.LearnerDropped):  # there are no sessions
            if isinstance(effect, fx.ResetLog):
                assert not self.peer.serving, "no tree is replaced under clients"
                self.tree, server.applied = DataTree(), []
                self._start = self.peer.history.base
            return [effect]
        return []

    def next_deadline(self) -> int:
        deadline = self.peer.next_deadline()
        return _NEVER if deadline is None else deadline


class Process(DirectClients):
    """A server's process from a start to a crash. It is all of its own ports but the links."""

    def __init__(self, environment: Environment, server: Server, settings: Settings, rng: Random) -> None:
        self._environment = environment
        self._server = server
        self.answers: deque[Answer] = deque()
        self._is_in_turn = False
        recovered = recover(server.disk, server.sid)
        assert not recovered.damage, recovered.damage
        self.alone = LonePeer(server, settings, recovered, rng)
        # Each append has a file of its own, so that a snapshot can take the place of exactly what is in it.
        log = TransactionLog(server.disk, recovered.log, segment_bytes=1)
        links = Links(environment, server.sid)
        self.storage = Storage(
            server.disk,
            log,
            server.sid,
            lambda sentence, reason: self.error(f"{sentence}: {reason}"),
            hold=lambda link, message: partial(links.send, (link,), message),
        )
        self.waits = self.storage.waits
        self._turn = Turn(self.alone, Ports(self, links, links.election, self, self, self, self, self.role_changed))

    @property
    def offered(self) -> dict[Link, Zxid | None]:
        return self._turn.offered

    def take(self, event: Answer) -> None:
        """Tell the peer, and take turns until nothing is left to be told."""
        self.answers.append(event)
        if self._is_in_turn:
            return
        self._is_in_turn = True
        while self.answers and self._server.process is self:
            self._turn.take()
        self._is_in_turn = False

    def perform(self, effect: StorageEffect) -> None:
        """Carry out one storage effect."""
        if isinstance(effect, fx.AppendBatches):
            assert self.storage.log.lineage == self.alone.peer.lineage, "a history begins with its lineage"
        answers = self.storage.perform([effect])
        self._note_mark()
        self.answers += answers[:-1]
        for answer in answers[-1:]:
            self.take(answer)

    def do(self, task: Task, source: Disk | None) -> None:
        """Do what waited; `source` is the disk of the server that a snapshot is fetched from, None when it is down."""
        if isinstance(task, fx.ReadLog):
            self.take(self.storage.read_log(attrs.evolve(task, bytes_max=LOG_READ_BYTES_MAX)))
        elif isinstance(task, fx.OfferSnapshot):
            self.take(self.storage.offer_snapshot(task))
        elif source is None or not source.exists(snapshot_path(task.zxid)):
            self.take(FetchFailed(task, "it is not there"))
        else:
            self._server.disk.replace(fetch_path(task.zxid), source.read(snapshot_path(task.zxid)))
            self.take(SnapshotFetched(task))

    def _note_mark(self) -> None:
        """With nothing to do, the log is idle."""
        if not self._server.to_store:
            self.storage.idle()

    # Clock.

    def monotonic_ns(self) -> int:
        return self._environment.now * 1_000_000

    def wall_ns(self) -> int:
        return (self._environment.now + _WALL) * 1_000_000

    def processor_ns(self) -> int:
        return 0

    # Storage.

    def put(self, effect: StorageEffect) -> None:
        self._server.to_store.append(effect)

    def mark_moved(self, zxid: Zxid) -> None:
        self.storage.mark = zxid
        self._note_mark()

    # Tasks.

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        self._environment.connect(self._server.sid, sid)

    def read_log(self, effect: fx.ReadLog) -> None:
        self._server.tasks.append(effect)

    def offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        self._server.tasks.append(effect)

    def fetch(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        assert isinstance(effect, fx.FetchSnapshot)
        self._server.tasks.append(effect)

    def stop_fetching(self) -> None:
        tasks = self._server.tasks
        for task in [task for task in tasks if isinstance(task, fx.FetchSnapshot)]:
            tasks.remove(task)

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        raise NotImplementedError("a peer has no clients")

    def rebuild_tree(self, effect: RebuildTree) -> None:
        raise NotImplementedError("there is no tree here")

    def choose_snapshot(self, effect: ChooseSnapshot) -> None:
        raise NotImplementedError("there is no tree here")

    def look_around(self) -> None:
        raise NotImplementedError("a peer tells nobody about itself")

    def keep_snapshot(self, effect: KeepSnapshot) -> None:
        raise NotImplementedError("there is no tree here")

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        raise NotImplementedError("a peer takes no snapshots; a test does, by `Server.take_snapshot`")

    def purge(self, offered: Mapping[Link, Zxid]) -> None:
        raise NotImplementedError("retention is off")

    # Operator.

    def trace(self, text: str) -> None:
        self._environment.say(f"{self._server.sid}: {text}")

    def warn(self, text: str) -> None:
        pass

    def error(self, sentence: str, **pairs: object) -> None:
        self.trace(" ".join([sentence, *(f"{name}={value}" for name, value in pairs.items())]))

    def role_changed(self, effect: fx.RoleChanged) -> None:
        pass

    def stop(self, reason: str) -> None:
        self._server.halted = reason
        self._environment.say(f"{self._server.sid} halts: {reason}")
        self._environment.crash(self._server.sid)


class Links(DirectLinks):
    """The quorum links of one process, and its election links."""

    def __init__(self, environment: Environment, sid: ServerId) -> None:
        self._environment = environment
        self._sid = sid
        self.election = Election(environment, sid)

    def send(self, links: Iterable[Link], message: msg.Message) -> None:
        self._environment.send(self._sid, links, message)

    def close(self, link: Link, reason: str) -> None:
        self._environment.close(link, self._sid)

    def break_off(self, link: Link, reason: str) -> None:
        self._environment.close(link, None)

    def break_off_dialled(self, sid: ServerId, reason: str) -> None:
        self._environment.close_dialled(self._sid, sid)


@attrs.define
class Election:
    """The election links of one process."""

    environment: Environment
    sid: ServerId

    def send(self, effect: fx.SendNotification) -> None:
        self.environment.vote(self.sid, effect)
