"""A turn of a member: what it does, in which order, and what happens with each effect. This is the only place: the
server on trio, the simulator and the tests hand in ports (`zab.member.ports`) and run this.

A turn, in this order (H2 turn budget):

    1  answers of the storage and of tasks are taken; quorum links are read, all of them. What belongs to the steady
       state and comes before anything else the member takes at once; the rest are inputs
    2  clients are read, within the budget; while a batch is applied in part, only ended connections are noticed
    3  the member takes one step with all of it
    4  its effects are carried out: messages are queued, storage effects are collected
    5  everything is sent, once for each socket. With something to store: quorum links, then the storage gets its work,
       then clients; so followers write while this member does. With nothing to store: clients first, since they wait
       for answers
    6  log reads begin for links that have room (H4 slow learners); new connections are accepted

| effect | what happens with it |
|---|---|
| SendNotification | `election` sends it |
| MembershipsChanged | `addresses` |
| ConnectQuorum | a task dials |
| Send, CloseLink | `links` |
| AppendBatches, TruncateLog, ResetLog, SaveEpochs, SaveMember, SaveSessionKeys, DrainLog | `storage`, in order |
| FetchSnapshot | a task; `storage` installs what it fetched |
| ReadLog | a task, when the link has room |
| OfferSnapshot | a task; the snapshot, and the log after it, are held from now on |
| ReleaseSnapshot | they are no longer held |
| ReadChanges, LookBackSlice | a task |
| RebuildTree, ChooseSnapshot, KeepSnapshot | a task |
| FetchTree | a task, beside everything else |
| TakeSnapshot | the log begins a new file, and a task writes the snapshot; then old files are removed |
| MarkMoved | `storage`, written down when the log is idle |
| LookAround | a task |
| WriteAudit | `audit` |
| ExportSpans | `tracing` |
| Halt, Trace, Warn, RoleChanged | `operator` |

The member carries out all other effects itself, before they come out.

A snapshot that is being fetched holds the place of a storage effect: a later storage effect means that the role it was
fetched for is over, so the transfer is given up. A failed transfer breaks the link to that leader, as if it had gone.

Not here: what the member makes of its inputs (`member`), and what the ports do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from datatree.log.zxid import Zxid
from zab.member.clients.connection import ClientConnection
from zab.member.clients.events import WriteAudit
from zab.member.events import FOR_THE_TURN, Answer, ExportSpans, Input, MemberEffect, Warn
from zab.member.ports import Ports
from zab.member.settings.storage import StorageSettings
from zab.member.state.metrics import Metrics
from zab.member.storage.events import (
    ChooseSnapshot,
    DamageFound,
    FetchFailed,
    FetchTree,
    InstallSnapshot,
    LookAtSpace,
    LookBackSlice,
    ReadChanges,
    RepairRecords,
    RollLog,
    SnapshotFetched,
    SnapshotTaken,
    SnapshotUnusable,
    StorageEffect,
    StorageFailed,
    TakeSnapshot,
)
from zab.member.trees.events import KeepSnapshot, RebuildTree
from zab.member.words.events import LookAround
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.quorum.ids import Link
from zab.service.disk_space import AMPLE, LOW

READ_AHEAD_BYTES: Final = 1 << 20
"""Unsent bytes on a link above which log reads for it wait."""

TURN_NS: Final = 4_000_000
"""How long a turn may read from clients."""


class Connections(Protocol):
    """The connections that need attention after a step."""

    @property
    def dirty(self) -> Collection[ClientConnection]: ...


class Retention(Protocol):
    """The settings that say how often files are removed."""

    @property
    def storage(self) -> StorageSettings: ...


class Stepped(Protocol):
    """What a turn drives: a `Member`, or a part of one in a test."""

    @property
    def clients(self) -> Connections: ...

    @property
    def config(self) -> Retention: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def may_have_more(self) -> bool: ...

    @property
    def has_more(self) -> bool: ...

    @property
    def is_between_states(self) -> bool: ...

    @property
    def awaits_durable(self) -> bool: ...

    @property
    def take_message(self) -> Callable[[int, Link, bytes], bool]: ...

    @property
    def take_durable(self) -> Callable[[int, ev.Durable], bool]: ...

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]: ...

    def next_deadline(self) -> int: ...


class Turn:
    """Runs the turns of one member. Attributes without an underscore may be read."""

    def __init__(self, member: Stepped, ports: Ports) -> None:
        self.member = member
        self._monotonic_ns = ports.clock.monotonic_ns
        self._wall_ns = ports.clock.wall_ns
        self._processor_ns = ports.clock.processor_ns
        self._links = ports.links
        self._election = ports.election
        self._clients = ports.clients
        self._storage = ports.storage
        self._waits = ports.storage.waits
        self._tasks = ports.tasks
        self._operator = ports.operator
        self._tell_role = ports.role_changed
        self._audit = ports.audit
        self._tracing = ports.tracing
        self._addresses = ports.addresses
        self._to_store: list[StorageEffect] = []
        self._reads: list[fx.ReadLog] = []
        """Log reads that wait for room on their link."""
        self._fetching: fx.FetchSnapshot | FetchTree | None = None
        self.offered: dict[Link, Zxid | None] = {}
        """Snapshots that learners may be fetching or installing: link to zxid, None while one is being chosen.
        Retention keeps them, and the log after them."""
        self.longest_ns = 0

    def take(self) -> bool:
        """Take one turn. True: there is more to do at once."""
        started_ns = self._monotonic_ns()
        began_ns = self._processor_ns()
        now = started_ns // 1_000_000
        links, clients, answers = self._links, self._clients, self._tasks.answers
        inputs: list[Input] = []
        for _ in range(len(answers)):
            answer = answers.popleft()
            # Nothing overtakes an input.
            if isinstance(answer, ev.Durable) and not inputs and self.member.take_durable(now, answer):
                continue
            on_answer = _ON_ANSWER.get(type(answer))
            if on_answer is not None:
                on_answer(self, answer)
            if not isinstance(answer, FOR_THE_TURN):
                inputs.append(answer)
        if links.has_news:
            links.receive(inputs, partial(self.member.take_message, now))
        is_reading = clients.has_news and not self.member.is_between_states
        if is_reading:
            clients.receive(inputs, started_ns + TURN_NS)
        elif clients.has_news:
            clients.notice_ends(inputs)
        member = self.member
        for effect in member.step(now, self._wall_ns() // 1_000_000, inputs):
            kind = type(effect)
            if kind is fx.Send:
                links.send(effect.links, effect.message)  # type: ignore[union-attr]
            elif kind is fx.MarkMoved:
                self._storage.mark_moved(effect.zxid)  # type: ignore[union-attr, arg-type]
            else:
                _CARRY_OUT[kind](self, effect)
        dirty, to_store = member.clients.dirty, self._to_store
        has_stored = bool(to_store)
        if has_stored:
            if links.has_unsent:
                links.flush()
            for effect_to_store in to_store:
                self._storage.put(effect_to_store)
            to_store.clear()
        if dirty or clients.has_unsent:
            clients.flush(dirty, now)
        if links.has_unsent and not has_stored:
            links.flush()
        if self._reads:
            self._start_reads()
        if clients.has_knocks:
            clients.accept(now)
        if links.has_knocks:
            links.accept(now)
        took_ns = self._monotonic_ns() - started_ns
        if is_reading:
            clients.adapt_budget(took_ns)
        if took_ns > self.longest_ns:
            self.longest_ns = took_ns
        metrics = member.metrics
        if took_ns > metrics.longest_turn_ns:
            # Other processes may have had the processor meanwhile.
            worked_ns = self._processor_ns() - began_ns
            if worked_ns > metrics.longest_turn_ns:
                metrics.longest_turn_ns = worked_ns
        if member.awaits_durable is not self._waits.for_durable:
            self._waits.for_durable = member.awaits_durable
            # Answers that came before this, while nobody waited, have started no turn.
            if answers and member.awaits_durable:
                return True
        return clients.has_news or links.has_news or (member.may_have_more and member.has_more)

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens (monotonic ms)."""
        return self.member.next_deadline()

    @property
    def waits_for_room(self) -> bool:
        """Whether a log read waits for its link to have sent something."""
        return bool(self._reads)

    def purge(self) -> None:
        """Remove the files that retention does not need, unless purging is off or a snapshot is being chosen: then it
        can wait for the next snapshot."""
        held = {link: zxid for link, zxid in self.offered.items() if zxid is not None}
        if self.member.config.storage.purge_interval_hours > 0 and len(held) == len(self.offered):
            self._tasks.purge(held)

    # ---------------------------------------------------------------------------------------------------------- answers

    def _on_storage_failed(self, answer: StorageFailed) -> None:
        self._operator.stop(f"the disk has failed -> stop: {answer.reason}")

    def _on_space_changed(self, answer: ev.SpaceChanged) -> None:
        if answer.space is AMPLE:
            self._operator.trace("the disk has room again")
        elif answer.space is LOW:
            self._operator.error("the disk is nearly full -> log only what the ensemble needs")
        else:
            self._operator.error("the disk is full -> take part in nothing until it has room")

    def _on_damage_found(self, answer: DamageFound) -> None:
        self._operator.error("a file is damaged, as reading through all of them shows", damage=answer.text)
        if answer.is_record:
            self._to_store.append(RepairRecords())

    def _on_snapshot_taken(self, answer: SnapshotTaken) -> None:
        self.purge()

    def _on_snapshot_offered(self, answer: ev.SnapshotOffered) -> None:
        if answer.link in self.offered:
            self.offered[answer.link] = answer.zxid

    def _on_snapshot_withdrawn(self, answer: ev.SnapshotWithdrawn) -> None:
        self._operator.error(
            "snapshot is given up: the log after it takes more than maxPinnedLogBytes",
            link=answer.link,
            zxid=f"{answer.zxid:#x}",
        )

    def _on_nothing_to_offer(self, answer: ev.NothingToOffer) -> None:
        self._operator.error("there is no snapshot to synchronize a learner with", link=answer.link)

    def _on_snapshot_fetched(self, answer: SnapshotFetched) -> None:
        # A storage effect that came meanwhile has replaced it.
        if self._fetching is answer.fetch:
            self._fetching = None
            if isinstance(answer.fetch, fx.FetchSnapshot):
                self._to_store.append(InstallSnapshot(answer.fetch))

    def _on_fetch_failed(self, answer: FetchFailed) -> None:
        if self._fetching is answer.fetch:
            self._fetching = None
            if isinstance(answer.fetch, fx.FetchSnapshot):
                self._give_up_fetch(answer.fetch, answer.reason)

    def _on_snapshot_unusable(self, answer: SnapshotUnusable) -> None:
        self._give_up_fetch(answer.fetch, answer.reason)

    def _give_up_fetch(self, fetch: fx.FetchSnapshot, reason: str) -> None:
        self._operator.error("snapshot cannot be fetched -> leave this leader", sid=fetch.sid, reason=reason)
        self._links.break_off_dialled(fetch.sid, "its snapshot cannot be fetched")

    # ---------------------------------------------------------------------------------------------------------- effects

    def _send_notification(self, effect: fx.SendNotification) -> None:
        if self._election is not None:
            self._election.send(effect)

    def _memberships_changed(self, effect: fx.MembershipsChanged) -> None:
        if self._addresses is not None:
            self._addresses.changed(effect)

    def _connect_quorum(self, effect: fx.ConnectQuorum) -> None:
        self._tasks.dial(effect.sid, as_observer=effect.as_observer)

    def _close_link(self, effect: fx.CloseLink) -> None:
        self._links.close(effect.link, effect.reason)

    def _store(self, effect: StorageEffect) -> None:
        if isinstance(self._fetching, fx.FetchSnapshot):
            self._fetching = None
            self._tasks.stop_fetching()
        self._to_store.append(effect)

    def _look_at_space(self, effect: LookAtSpace) -> None:
        self._to_store.append(effect)

    def _fetch_snapshot(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        if self._fetching is not None:
            self._tasks.stop_fetching()
        self._fetching = effect
        self._tasks.fetch(effect)

    def _read_log(self, effect: fx.ReadLog) -> None:
        self._reads.append(effect)

    def _start_reads(self) -> None:
        """Start the log reads whose link has room: this is the flow control of the transfer (H4 slow learners)."""
        waiting, self._reads = self._reads, []
        for effect in waiting:
            if self._links.unsent_bytes(effect.link) > READ_AHEAD_BYTES:
                self._reads.append(effect)
            else:
                self._tasks.read_log(effect)

    def _offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        self.offered[effect.link] = None
        self._tasks.offer_snapshot(effect)

    def _release_snapshot(self, effect: fx.ReleaseSnapshot) -> None:
        self.offered.pop(effect.link, None)

    def _read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self._tasks.read_for_changes(effect)

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        self._to_store.append(RollLog())
        self._tasks.take_snapshot(effect)

    def _rebuild_tree(self, effect: RebuildTree) -> None:
        self._tasks.rebuild_tree(effect)

    def _choose_snapshot(self, effect: ChooseSnapshot) -> None:
        self._tasks.choose_snapshot(effect)

    def _keep_snapshot(self, effect: KeepSnapshot) -> None:
        self._tasks.keep_snapshot(effect)

    def _look_around(self, effect: LookAround) -> None:
        self._tasks.look_around()

    def _write_audit(self, effect: WriteAudit) -> None:
        if self._audit is not None:
            self._audit.write(effect.records)

    def _export_spans(self, effect: ExportSpans) -> None:
        if self._tracing is not None:
            self._tracing.export(effect.spans)

    def _halt(self, effect: fx.Halt) -> None:
        self._operator.stop(f"this member must not go on: {effect.reason}")

    def _trace(self, effect: fx.Trace) -> None:
        self._operator.trace(effect.text)

    def _warn(self, effect: Warn) -> None:
        self._operator.warn(effect.text)

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        self._tell_role(effect)


E = TypeVar("E", bound=MemberEffect | Answer)


def _on(kind: type[E], take: Callable[[Turn, E], None]) -> tuple[type[object], Callable[[Turn, Any], None]]:
    return kind, take


_CARRY_OUT = dict(
    (
        _on(fx.SendNotification, Turn._send_notification),
        _on(fx.MembershipsChanged, Turn._memberships_changed),
        _on(fx.ConnectQuorum, Turn._connect_quorum),
        _on(fx.CloseLink, Turn._close_link),
        _on(fx.AppendBatches, Turn._store),
        _on(fx.TruncateLog, Turn._store),
        _on(fx.ResetLog, Turn._store),
        _on(fx.SaveEpochs, Turn._store),
        _on(fx.SaveMember, Turn._store),
        _on(fx.SaveSessionKeys, Turn._store),
        _on(fx.DrainLog, Turn._store),
        _on(fx.FetchSnapshot, Turn._fetch_snapshot),
        _on(fx.ReadLog, Turn._read_log),
        _on(fx.OfferSnapshot, Turn._offer_snapshot),
        _on(fx.ReleaseSnapshot, Turn._release_snapshot),
        _on(fx.Halt, Turn._halt),
        _on(fx.Trace, Turn._trace),
        _on(fx.RoleChanged, Turn._role_changed),
        _on(LookAtSpace, Turn._look_at_space),
        _on(TakeSnapshot, Turn._take_snapshot),
        _on(RebuildTree, Turn._rebuild_tree),
        _on(ChooseSnapshot, Turn._choose_snapshot),
        _on(FetchTree, Turn._fetch_snapshot),
        _on(KeepSnapshot, Turn._keep_snapshot),
        _on(ReadChanges, Turn._read_for_changes),
        _on(LookBackSlice, Turn._read_for_changes),
        _on(LookAround, Turn._look_around),
        _on(WriteAudit, Turn._write_audit),
        _on(ExportSpans, Turn._export_spans),
        _on(Warn, Turn._warn),
    )
)

_AT_ONCE: Final = frozenset({fx.Send, fx.MarkMoved})
"""Effects that `take` carries out itself, since each turn has some."""

_ON_ANSWER = dict(
    (
        _on(StorageFailed, Turn._on_storage_failed),
        _on(SnapshotTaken, Turn._on_snapshot_taken),
        _on(DamageFound, Turn._on_damage_found),
        _on(ev.SpaceChanged, Turn._on_space_changed),
        _on(ev.SnapshotOffered, Turn._on_snapshot_offered),
        _on(ev.SnapshotWithdrawn, Turn._on_snapshot_withdrawn),
        _on(ev.NothingToOffer, Turn._on_nothing_to_offer),
        _on(SnapshotFetched, Turn._on_snapshot_fetched),
        _on(FetchFailed, Turn._on_fetch_failed),
        _on(SnapshotUnusable, Turn._on_snapshot_unusable),
    )
)
"""Answers that the turn itself handles. The member gets all that are not `FOR_THE_TURN`."""
