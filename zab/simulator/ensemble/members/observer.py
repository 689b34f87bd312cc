"""Feeds the checkers with all inputs and effects of peers, turn by turn, and with the content of disks.

It checks members (`session_checker` checks answers to clients):

    history before currentEpoch     a member whose disk says that it is in an epoch has the initial history of that
                                    epoch
    durability                      the promises of a member are on its disk at its next start: the history that it
                                    acknowledged or claimed, the epochs that it accepted and acknowledged; and whenever
                                    a mark moves, a quorum has it on disk
    digests                         equal zxid, equal digest: on every member, live, recovered or installed
    snapshots                       equal zxid, equal bytes: on every member
    observers                       only a leader sends batches that no quorum is known to have
    rollbacks                       a leader does not count a learner that has less than it acknowledged to that leader
    sessions                        a leader ends none before its timeout (`session_timeouts`)
    whole state                     now and then, and at the end: each tree against the model, znode by znode

It also counts events, so that a test can see what runs reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from attrs import define

from datatree.digest import MASK
from datatree.log.batch import parse
from datatree.log.zxid import BEFORE_ALL, counter_of
from datatree.recovery.recovered import Recovered
from datatree.tree import DataTree
from datatree.znode import stat_of
from zab.member.events import Input
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.membership import Membership
from zab.protocol.roles import Leading
from zab.protocol.states import BROADCAST, LEADING
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum
from zab.simulator.ensemble.judges.configurations import Configurations
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.judges.linearizability import demand_linearizability
from zab.simulator.ensemble.judges.model import Model
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.session_timeouts import SessionTimeouts
from zab.simulator.ensemble.members.spoiled import is_spoiled
from zab.simulator.world.verdict import SafetyError


@define
class Promises:
    """The promises of one member about its disk."""

    logged: int = 0
    accepted_epoch: int = 0
    current_epoch: int = 0
    saved_epoch: int = 0
    """Its currentEpoch."""
    is_cut: bool = False
    """Whether it had to cut its history since it entered its current epoch."""
    durable: int = 0
    """The end of its durable log when its process ended."""
    lost: int = 0
    """The end of its durable log before it was wiped, which counted once."""


class Observer:
    """All checkers of one run."""

    def __init__(self, recorder: Recorder, history: History | None = None) -> None:
        self.history = history or History()
        self.counts: Counter[str] = Counter()
        self.recorder = recorder
        """Records the requests and answers of clients."""
        self._process: Callable[[ServerId], MemberProcess | None]
        self.configurations: Configurations
        self.lineage: bytes | None = None
        """The current lineage, after an operator ended one; None: the first one."""
        self._over: set[MemberProcess] = set()
        """Processes that were last seen in a lineage that is over."""
        self._promises: dict[ServerId, Promises] = {}
        self._committed = 0
        """The highest mark so far, which a quorum had on disk."""
        self._initial: dict[int, int] = {}
        """Epoch → the end of its initial history: its leader has no more when it saves currentEpoch."""
        self._digests: dict[int, int] = {}
        self.spoiled_by: set[int] = set()
        """The differences of digests of trees that were made wrong on purpose."""
        self._snapshots: dict[int, bytes] = {}
        self.timeouts = SessionTimeouts(self.counts)
        self._acknowledged: dict[MemberProcess, tuple[Leading, dict[int, int]]] = {}
        """The acknowledgements of learners to each leader, while it leads."""

    def begin_lineage(self, lineage: bytes, history: History, of_files: Membership) -> None:
        """Judge the lineage that an operator has ended, and begin the next one."""
        self.recorder.finish(self.history)
        self.count("operations judged", len(self.recorder.records))
        self.count("lineages ended")
        demand_linearizability(self.recorder.records)
        self.recorder.begin_anew(history)
        self.lineage, self.history, self.configurations = lineage, history, Configurations(of_files)
        self._committed = history.end
        for judged in (
            self._initial,
            self._digests,
            self._snapshots,
            self._acknowledged,
        ):
            judged.clear()
        self.timeouts.begin_lineage()
        for sid, promises in self._promises.items():
            # Promises about epochs stay if the history is not lost (B8 restored members).
            self._promises[sid] = Promises(accepted_epoch=promises.accepted_epoch if history.primaries else 0)

    def is_over(self, process: MemberProcess) -> bool:
        """Whether this member belongs to a lineage that was ended: then it only must not serve."""
        return self.lineage is not None and process.peer.lineage not in (b"", self.lineage)

    def _has_quorum(self, leader: MemberProcess) -> bool:
        """Whether a quorum runs in the lineage of this leader. A member may be gone whose last acknowledgement arrives
        now."""
        processes = filter(None, map(self._process, self._promises))
        return leader.peer.quorum.contains({each.sid for each in processes if each.peer.lineage == leader.peer.lineage})

    def watch(
        self, of_files: Membership, sids: Sequence[ServerId], process: Callable[[ServerId], MemberProcess | None]
    ) -> None:
        """Watch these servers; `process` finds the process of a server; None while there is none."""
        self.configurations = Configurations(of_files)
        self._process = process
        self._promises = {sid: Promises() for sid in sids}

    def turn_begins(self, process: MemberProcess, inputs: Sequence[Input]) -> None:
        self.timeouts.turn_begins(process, inputs)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def traced(self, process: MemberProcess, text: str) -> None:
        """Count the traces that show what a run has reached."""
        if text.startswith("ALARM") and not self.spoiled_by and not self.is_over(process):
            raise SafetyError("no two members disagree", f"server {process.sid} says {text}")
        if text.startswith("session ") and "was silent" in text:
            self.history.ending.add(int(text.split()[1], 16))
        for words, what in _TRACED.items():
            if words in text:
                self.counts[what] += 1

    # ---------------------------------------------------------------------------------------------- starts and promises

    def process_started(self, process: MemberProcess, recovered: Recovered) -> None:
        """Check what a process has recovered from its disk."""
        machine, promises = process.machine, self._promises[process.sid]
        accepted, current = recovered.epochs or (0, 0)
        if machine.is_wiped or machine.has_forgotten:
            lost = max(promises.lost, promises.durable)
            # An amnesiac may have its epochs without the history that belongs to them.
            is_cut = machine.has_forgotten or promises.is_cut or recovered.amnesiac
            promises = Promises(saved_epoch=current, is_cut=is_cut, lost=lost)
            self._promises[process.sid] = promises
            machine.has_forgotten = False
        if self.is_over(process):
            self._over.add(process)
            return
        if not promises.is_cut and recovered.last[0] < self._initial.get(current, 0):
            reason = (
                f"server {process.sid} is in epoch {current} without its initial history, at {recovered.last[0]:#x}"
            )
            raise SafetyError("history before currentEpoch", reason)
        found = recovered.last[0], accepted, current
        promised = promises.logged, promises.accepted_epoch, promises.current_epoch
        if any(has < said for has, said in zip(found, promised, strict=True)):
            raise SafetyError(
                "durability",
                f"server {process.sid} promised to hold (log, acceptedEpoch, currentEpoch) = {_shown(promised)}; "
                f"after its restart it holds {_shown(found)}",
            )
        member = process.member
        self.history.starts_at(process.sid, member.applied, _chain_at(recovered, member.applied), recovered.recent)
        self._digest(process, member.applied, member.tree)
        if recovered.snapshot_zxid:
            self.counts["recovered from a snapshot"] += 1
        if recovered.problems:
            self.counts["recovered with problems"] += 1

    def process_stopped(self, process: MemberProcess, *, with_power: bool) -> None:
        """Note the end of a process, and its durable log."""
        self._promises[process.sid].durable = 0 if self.is_over(process) else process.durable
        self._over.discard(process)
        self.timeouts.process_stopped(process)
        self._acknowledged.pop(process, None)
        self.count("power lost" if with_power else "killed")

    def durable(self, sid: ServerId) -> int:
        """The end of a server's durable log, also while it has no process."""
        process = self._process(sid)
        if process is None:
            return self._promises[sid].durable
        return 0 if self.is_over(process) else process.durable

    # --------------------------------------------------------------------------------------------------------- the peer

    def peer_stepped(self, process: MemberProcess, event: ev.Event, effects: list[fx.Effect]) -> None:
        """Check the effects of a peer's step."""
        if self.is_over(process):
            self._over.add(process)
            if any(
                type(each) is fx.RoleChanged and (each.state, each.phase) == (LEADING, BROADCAST) for each in effects
            ) and self._has_quorum(process):
                raise SafetyError("a lineage that is over serves nobody", f"server {process.sid} leads in it")
            return
        if process in self._over:
            self._over.remove(process)
            self._promises[process.sid] = Promises()
            self.history.starts_at(process.sid, BEFORE_ALL, b"", [])
            process.delivered.clear()
        if isinstance(event, ev.SnapshotInstalled):
            self.history.starts_at(process.sid, event.zxid, event.chain, [])
            process.delivered.clear()
            self.counts["snapshots installed"] += 1
        elif isinstance(event, ev.MessageReceived):
            if process.peer.leading is not None:
                self._leader_heard(process, process.peer.leading, event)
        elif isinstance(event, ev.MemberSaved):
            process.machine.synchronized()
        elif isinstance(event, ev.EpochsSaved) and event.current > self._promises[process.sid].saved_epoch:
            self._promises[process.sid].saved_epoch = event.current
            self._promises[process.sid].is_cut = False
        for effect in effects:
            kind = type(effect)
            if kind is fx.Send:
                self._sent(process, effect.message)  # type: ignore[union-attr]
            elif kind is fx.AppendBatches:
                self.configurations.appended(process.peer.memberships)
                if process.peer.leading is not None:
                    self._broadcast(process, effect)  # type: ignore[arg-type]
            elif kind is fx.Deliver:
                for batch in effect.batches:  # type: ignore[union-attr]
                    self.history.deliver(process.sid, batch)
                    process.delivered.append(batch.zxid)
            elif kind is fx.MemberMessage:
                self.timeouts.heard_behind_another(process, effect)  # type: ignore[arg-type]
            elif kind is fx.MarkMoved:
                self._mark_moved(process, effect.zxid)  # type: ignore[union-attr]
            elif kind is fx.RoleChanged:
                if (effect.state, effect.phase) == (LEADING, BROADCAST):  # type: ignore[union-attr]
                    self.history.leads((process.sid, process.machine.starts_count), process.peer.epoch)
                    self.counts["leaders established"] += 1
            elif kind is fx.SaveEpochs:
                if process.peer.leading is not None and effect.current == process.peer.leading.epoch:  # type: ignore[union-attr]
                    self._initial[effect.current] = process.peer.history.last[0]  # type: ignore[union-attr]
            elif kind is fx.TruncateLog:
                promises = self._promises[process.sid]
                promises.logged = min(promises.logged, effect.zxid)  # type: ignore[union-attr]
                promises.is_cut = True
                self.counts["logs cut"] += 1
            elif kind is fx.ResetLog or (kind is fx.FetchSnapshot and not effect.keeps_record):  # type: ignore[union-attr]
                self._promises[process.sid].logged = 0
                self._promises[process.sid].is_cut = True

    def _leader_heard(self, process: MemberProcess, leading: Leading, event: ev.MessageReceived) -> None:
        """Check a message to a leader: a learner that has less than it acknowledged before does not count."""
        handler = leading.handlers.get(event.link)
        if handler is None:
            return
        known_to, acknowledged = self._acknowledged.get(process, (leading, {}))
        if known_to is not leading:
            acknowledged = {}
        self._acknowledged[process] = leading, acknowledged
        if isinstance(event.message, msg.AckEpoch):
            before = acknowledged.get(handler.sid, 0)
            if event.message.zxid < before and not handler.amnesiac:
                reason = (
                    f"leader {process.sid} counts server {handler.sid} at {event.message.zxid:#x}, after {before:#x}"
                )
                raise SafetyError("rollbacks", reason)
            self.counts["rollbacks noticed"] += event.message.zxid < before
        elif isinstance(event.message, msg.Ack):
            acknowledged[handler.sid] = max(acknowledged.get(handler.sid, 0), handler.acked)

    def _sent(self, process: MemberProcess, message: msg.Message) -> None:
        promises, peer = self._promises[process.sid], process.peer
        if isinstance(message, msg.Ack):
            if counter_of(message.zxid):
                self.acknowledged(process, message)
            else:
                assert peer.following is not None
                promises.logged = max(promises.logged, peer.following.acked)
                promises.current_epoch = max(promises.current_epoch, message.epoch)
                is_readmitted_later = peer.amnesiac and not peer.following.is_founder
                if not process.machine.has_been_synchronized and not is_readmitted_later:
                    reason = f"server {process.sid} acknowledges NEWLEADER of {message.epoch} without a member record"
                    raise SafetyError("durability", reason)
        elif isinstance(message, msg.Readmitted):
            if not process.machine.has_been_synchronized:
                raise SafetyError("durability", f"server {process.sid} is readmitted without a member record")
        elif isinstance(message, msg.AckEpoch):
            assert peer.following is not None
            promises.accepted_epoch = max(promises.accepted_epoch, peer.following.epoch or 0)
        elif isinstance(message, msg.LeaderInfo):
            promises.accepted_epoch = max(promises.accepted_epoch, message.epoch)
        elif isinstance(message, msg.Proposal):
            if peer.leading is None:
                self._sent_on(process, message)
        elif isinstance(message, (msg.Trunc, msg.Diff, msg.Snap, msg.Attached, msg.Relayed)):
            self.counts[f"sent {type(message).__name__}"] += 1

    def _sent_on(self, process: MemberProcess, message: msg.Proposal) -> None:
        """Check batches that a follower sends to an observer."""
        end = parse(message.batches[-1]).zxid
        if end > self._committed:
            reason = f"server {process.sid} sends {end:#x}, committed is {self._committed:#x}"
            raise SafetyError("observers get what is committed", reason)
        self.count("proposals sent on")

    def acknowledged(self, process: MemberProcess, message: msg.Message) -> None:
        """Note that a learner says that its log is durable up to here."""
        assert isinstance(message, msg.Ack)
        if self.is_over(process):
            return
        promises = self._promises[process.sid]
        promises.logged = max(promises.logged, message.zxid)

    def _broadcast(self, process: MemberProcess, effect: fx.AppendBatches) -> None:
        name = process.sid, process.machine.starts_count
        for batch in effect.batches:
            before = process.peer.history.floor(batch.first - 1)
            assert before is not None
            self.timeouts.leads(process)
            for txn in self.history.broadcast(name, batch, before):
                if txn.type == -10:
                    self.timeouts.begins(process, txn.session)
                elif txn.type == -11:
                    self.history.ending.add(txn.session)
                    if txn.cxid == 0:
                        self.timeouts.expires(process, txn.session, self.history.model)

    def _mark_moved(self, process: MemberProcess, zxid: int) -> None:
        if zxid <= self.history.beginning:
            return  # the operator has decided about that
        holders = self._holders(zxid)
        both = self.configurations.committed(process.peer.memberships)
        if both:
            self.count("configurations")
            version = process.peer.memberships.in_force.version
            self._demand_on_disks(process, version, self._holders(version), both)
        self._demand_on_disks(process, zxid, holders, [self.configurations.governing(zxid)])
        self._committed = max(self._committed, zxid)

    def _holders(self, zxid: int) -> set[ServerId]:
        """The servers whose disks have this, or had it before they were lost."""
        return {sid for sid, promises in self._promises.items() if max(promises.lost, self.durable(sid)) >= zxid}

    def _demand_on_disks(
        self, process: MemberProcess, zxid: int, holders: set[ServerId], deciding: Sequence[Quorum]
    ) -> None:
        if not all(quorum.contains(holders) for quorum in deciding):
            reason = f"server {process.sid} takes {zxid:#x} for committed; it is on the disks of {sorted(holders)} only"
            raise SafetyError("durability", reason)

    # ----------------------------------------------------------------------------------------------------------- trees

    def turn_ended(self, process: MemberProcess) -> None:
        """Compare the trees after a turn."""
        if self.is_over(process):
            return
        member = process.member
        delivered = process.delivered
        while delivered and delivered[0] <= member.applied:
            digest = member.digests.find(delivered[0])
            if digest is not None:
                self._compare_digest(process, delivered[0], digest)
            else:
                # Read from the log during a repair; the digest of the repaired tree comes last.
                self.counts["batches applied beside the turns"] += 1
                assert member.digests.find(member.applied) is not None
            delivered.popleft()
        self.timeouts.turn_ended(process)

    def _digest(self, process: MemberProcess, zxid: int, tree: DataTree) -> None:
        self._compare_digest(process, zxid, tree.digest)

    def _compare_digest(self, process: MemberProcess, zxid: int, digest: int) -> None:
        other = self._digests.setdefault(zxid, digest)
        if other != digest and not {(digest - other) & MASK, (other - digest) & MASK} & self.spoiled_by:
            reason = f"server {process.sid} has {digest:016x} at {zxid:#x}, another one had {other:016x}"
            raise SafetyError("equal zxid, equal digest", reason)

    def snapshot_written(self, sid: int, zxid: int, data: bytes) -> None:
        """Check that a complete snapshot has the same bytes as all others at this zxid."""
        process = self._process(ServerId(sid))
        if process is not None and self.is_over(process):
            return
        if self._snapshots.setdefault(zxid, data) != data and not self.spoiled_by:
            raise SafetyError("snapshots are exact", f"server {sid} has other bytes at {zxid:#x}")
        self.counts["snapshots written"] += 1

    def compare_trees(self) -> None:
        """Compare every tree with the model, znode by znode, except those between two states."""
        for process in filter(None, map(self._process, self._promises)):
            tree = process.member.tree
            if process.member.is_between_states or self.is_over(process):
                continue
            if tree.recompute_digest() != tree.digest:
                raise SafetyError("equal zxid, equal digest", f"the digest of server {process.sid} is not its tree's")
            if tree.applied <= self.history.end_txn and not is_spoiled(tree):
                _compare(process.name, tree, self.history.model)


def _compare(name: str, tree: DataTree, model: Model) -> None:
    zxid = tree.applied
    for path in model.paths():
        wanted, got = model.znode_at(path, zxid), tree.get(path)
        if (got is None) != (wanted is None) or (
            got is not None
            and wanted is not None
            and (tree.data_of(path, got), stat_of(got)) != (wanted.data, wanted.stat())
        ):
            raise SafetyError("whole state", f"server {name} has {got!r} at {path!r}, the model {wanted}, at {zxid:#x}")
    if zxid == model.zxid and tree.sessions != model.sessions:
        raise SafetyError("whole state", f"server {name} has sessions {tree.sessions}, the model {model.sessions}")


def _chain_at(recovered: Recovered, zxid: int) -> bytes:
    """The chain at the position of a recovered tree."""
    if zxid == recovered.base[0]:
        return recovered.base[1]
    return next((batch.chain for batch in recovered.recent if batch.zxid == zxid), b"")


def _shown(numbers: tuple[int, ...]) -> str:
    return "(" + ", ".join(f"{number:#x}" for number in numbers) + ")"


_TRACED = {
    "the epoch is renewed": "epochs renewed",
    "a quorum without server": "amnesiacs that count again",
    "the tree is repaired": "wrong trees repaired",
    "history is cut": "histories cut",
    "a quorum of marked, empty voters": "ensembles begun by markers",
    "is given up: the log after it has grown too long": "offered snapshots given up",
    "it needs a snapshot, and serves clients": "learners that left a renewal for a snapshot",
}
