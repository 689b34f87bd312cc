"""One server of an explored ensemble: its disk, its peer, and waiting storage effects.

The peer is the `zab.protocol.peer.Peer` of production. Its surroundings are minimal: a disk on which effects are done
atomically and in order, and no clock. The effects of the peer are returned as outputs:

    Sent, Closed, Dialled                          for the wires
    Led, Broadcast, Started, Delivered, Marked     for the judges

Time stands still: the peer gets 0, or a time at which one of its limits is over (`give_up`), or at which it pings
(`ping`). The election is an oracle, as in the Zab paper: an electing server adopts the leader that the ensemble names,
possibly itself (`adopt`). So the explored protocol is safe for any election, and the order of server ids does not
matter. Votes decide nothing, but what they say about configurations and histories is heard (`hear`).

Pings are left out, since they only show that a server is alive. So are snapshots: the whole history is in memory.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from random import Random
from types import MethodType
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from datatree.log.batch import CHAIN_BYTES, LINEAGE_BYTES, RECONFIG, Batch, Position, continues, follows, genesis
from datatree.log.zxid import BEFORE_ALL, Epoch
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import Election, Vote
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.states import BATCHES, BROADCAST, LEADING, LOOKING, NOTHING
from zab.quorum.ids import Link, ServerId
from zab.simulator.explorer.configurations import body_of, reconfigurations_of, text_of
from zab.simulator.world.verdict import BrokenError

__all__ = ["Broadcast", "Closed", "Delivered", "Dialled", "Disk", "Led", "Marked", "Output", "Sent",
           "Site", "Started", "Told"]  # fmt: skip

_NEVER_MS: Final = 1 << 40


class _Lineages(Random):
    """The randomness of a peer, which is only used for a new lineage: each start of a server makes its own."""

    def __init__(self, sid: ServerId, starts: int) -> None:
        super().__init__(0)
        self._lineage = bytes([sid, starts]).rjust(LINEAGE_BYTES, b"\0")

    def randbytes(self, n: int) -> bytes:
        assert n == LINEAGE_BYTES
        return self._lineage


class _Oracle(Election):
    """An election that counts no votes: the ensemble ends it."""

    def on_notification(self, now: int, sid: ServerId, notification: msg.Notification) -> None:
        """Ignore the vote of another server."""

    def _consider(self, now: int) -> None:
        """Ignore its own vote, too."""


@attrs.frozen
class Sent:
    link: Link
    message: msg.Message


@attrs.frozen
class Closed:
    link: Link


@attrs.frozen
class Dialled:
    sid: ServerId


@attrs.frozen
class Led:
    """The server has established this epoch."""

    starts: int
    epoch: int


@attrs.frozen
class Broadcast:
    starts: int
    batch: Batch
    predecessor: Position


@attrs.frozen
class Started:
    """The server has started with a tree at this position, and these batches in its log."""

    position: Position
    recent: tuple[Batch, ...]


@attrs.frozen
class Delivered:
    batch: Batch


@attrs.frozen
class Marked:
    """The server takes everything up to here for committed."""

    position: Position


Output: TypeAlias = Sent | Closed | Dialled | Led | Broadcast | Started | Delivered | Marked


class Told(NamedTuple):
    """What a server sends together with its vote."""

    lineage: bytes
    has_history: bool
    in_force: bytes
    outstanding: bytes
    is_proven: bool = True


@attrs.frozen
class Disk:
    """The durable state. `member` is the lineage of the member record, empty without one."""

    lineage: bytes = b""
    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    member: bytes = b""
    log: tuple[Batch, ...] = ()

    @property
    def position(self) -> Position:
        """The end of the history; for an empty one, its beginning."""
        if self.log:
            return self.log[-1].zxid, self.log[-1].chain
        return BEFORE_ALL, genesis(self.lineage) if self.lineage else bytes(CHAIN_BYTES)

    def restored(self) -> Restored:
        """The state that recovery would restore (`zab.member.membership.restore`)."""
        # An empty log has no file with its lineage, but the member record has it.
        lineage = self.member or (self.lineage if self.log else b"")
        assert lineage == self.lineage or not self.log, "there is one lineage"
        base = attrs.evolve(self, lineage=lineage, log=()).position
        mark = max((batch.mark for batch in self.log), default=BEFORE_ALL)
        holds = BATCHES if self.log else NOTHING
        is_amnesiac = not self.member
        found = Restored(lineage, self.accepted, self.current, mark, base, list(self.log), is_amnesiac, holds)
        in_force = reconfigurations_of(batch for batch in self.log if batch.zxid <= mark)
        return attrs.evolve(found, config=in_force[-1][1].text) if in_force else found


@attrs.define(eq=False)
class Site:
    """One server. Methods change it, and return its outputs."""

    settings: Settings
    disk: Disk
    starts: int = 0
    peer: Peer | None = None
    to_store: deque[Any] = attrs.Factory(deque)
    older_copy: Disk = Disk()
    """A copy of its disk from the beginning."""
    is_rolled_back: bool = False
    """Whether its disk has less than it promised, and it was not readmitted since."""
    said: list[str] | None = None
    """The traces of the peer, if they are collected."""

    def copy(self) -> Site:
        peer = None if self.peer is None else _copy_of(self.peer)
        to_store = deque(self.to_store)
        return Site(self.settings, self.disk, self.starts, peer, to_store, self.older_copy, self.is_rolled_back)

    # ------------------------------------------------------------------------------------------------------------ steps

    def start(self) -> list[Output]:
        """Start the process from the disk."""
        assert self.peer is None
        self.starts += 1
        restored = self.disk.restored()
        self.disk = attrs.evolve(self.disk, lineage=restored.lineage)
        self.peer = Peer(self.settings, restored, _Lineages(self.settings.sid, self.starts))
        self.peer.election.__class__ = _Oracle
        position = self.peer.history.floor(self.peer.delivered)
        assert position is not None
        recent = self.disk.log if self.disk.member else ()
        return [Started(position, recent), *self.step(ev.TimePassed())]

    def crash(self) -> list[Output]:
        """End the process; waiting storage effects are lost."""
        self.peer = None
        self.to_store.clear()
        return []

    def wipe(self) -> list[Output]:
        """End the process, and lose its disk."""
        self.disk, self.is_rolled_back = Disk(), False
        return self.crash()

    def rollback(self) -> list[Output]:
        """End the process, and set its disk back to the older copy."""
        self.disk, self.is_rolled_back = self.older_copy, True
        return self.crash()

    def store(self) -> list[Output]:
        """Carry out the next storage effect, send the messages that waited for it, and tell the peer."""
        effect = self.to_store[0]
        answer = self.write()
        then = effect.then if isinstance(effect, fx.AppendBatches) else None
        sent: list[Output] = [] if then is None else [Sent(link, then.message) for link in then.links]
        return [*sent, *self.step(answer)]

    def write(self) -> ev.Event:
        """Carry out the next storage effect, and return its answer."""
        effect = self.to_store.popleft()
        disk = self.disk
        answer: ev.Event
        if isinstance(effect, fx.AppendBatches):
            last, chain = disk.position
            assert follows(last, effect.batches[0]), "the log is appended to after its end"
            assert continues(chain, effect.batches[0]), "the log is one history"
            disk = attrs.evolve(disk, log=(*disk.log, *effect.batches))
            answer = ev.Durable(effect.generation, effect.batches[-1].zxid)
        elif isinstance(effect, fx.TruncateLog):
            disk = attrs.evolve(disk, log=tuple(batch for batch in disk.log if batch.zxid <= effect.zxid))
            answer = ev.LogCut(effect.generation, effect.zxid)
        elif isinstance(effect, fx.ResetLog):
            disk = attrs.evolve(disk, lineage=effect.lineage, log=())
            answer = ev.LogCut(effect.generation, BEFORE_ALL)
        elif isinstance(effect, fx.SaveEpochs):
            disk = attrs.evolve(disk, accepted=effect.accepted, current=effect.current)
            answer = ev.EpochsSaved(effect.generation, effect.accepted, effect.current)
        elif isinstance(effect, fx.SaveMember):
            disk = attrs.evolve(disk, member=effect.lineage)
            answer = ev.MemberSaved(effect.generation)
        else:
            raise AssertionError(f"not explored: {effect}")
        self.disk = disk
        return answer

    def adopt(self, leader: ServerId) -> list[Output]:
        """End the election with this leader, which seems to have no less than this server."""
        peer = self.peer
        assert peer is not None
        assert leader in peer.election.candidates
        peer.election.proposal = Vote(leader, peer.history.last[0], peer.current_epoch)
        peer.election.winner = leader
        outputs = self.step(ev.TimePassed())
        assert peer.leader == leader or peer.halted
        return outputs

    def hear(self, sid: ServerId, told: Told) -> list[Output]:
        """Take a vote of this server."""
        peer = self.peer
        assert peer is not None
        holds = BATCHES if told.has_history else NOTHING
        # In the same round, with nothing received before: so no server has left, or changed its candidate.
        vote = msg.Notification(
            LOOKING, sid, BEFORE_ALL, Epoch(0), peer.election.round, told.lineage, False, holds, False, False, False
        )
        return self.step(ev.NotificationReceived(sid, vote, told.in_force, told.outstanding, told.is_proven))

    def give_up(self) -> list[Output]:
        """Let so much time pass that all limits are over."""
        return self.step(ev.TimePassed(), _NEVER_MS)

    def propose(self, data: bytes) -> list[Output]:
        """Propose one write."""
        assert self.peer is not None
        zxid = self.peer.next_zxid()
        assert zxid is not None
        return self.step(ev.Propose(zxid, body_of(zxid, data), 1, 0, 0, 0, 0, 1))

    def reconfigure(self, voters: frozenset[ServerId]) -> list[Output]:
        """Propose a configuration with these voters."""
        assert self.peer is not None
        zxid = self.peer.next_zxid()
        assert zxid is not None
        return self.step(ev.Propose(zxid, body_of(zxid, text_of(zxid, voters)), 1, 0, RECONFIG, 0, 0, 1))

    def hand_over(self, heir: ServerId) -> list[Output]:
        """Begin a hand-over of the lead to this server."""
        return self.step(ev.HandOver(heir))

    def ping(self) -> list[Output]:
        """Let a leader ping, and give up a hand-over that has begun."""
        assert self.peer is not None
        leading = self.peer.leading
        assert leading is not None
        due = leading.next_ping, leading.next_tick
        outputs = self.step(ev.TimePassed(), max(leading.next_ping, leading.heir_until))
        leading.next_ping, leading.next_tick = due
        leading.lag.count = 0
        return outputs

    def step(self, event: ev.Event, now: int = 0) -> list[Output]:
        """Hand an event to the peer."""
        peer = self.peer
        assert peer is not None
        is_propose, before = isinstance(event, ev.Propose), peer.history.last
        outputs: list[Output] = []
        for effect in peer.step(now, event):
            outputs += self._output(effect, before if is_propose else None)
        peer.invariants()
        if peer.following is not None and peer.following.redial_at is not None:
            outputs += self.step(ev.TimePassed(), peer.following.redial_at)
        return outputs

    def _output(self, effect: fx.Effect, before: Position | None) -> list[Output]:
        """The outputs of an effect."""
        peer = self.peer
        assert peer is not None
        if isinstance(effect, fx.Send):
            self.is_rolled_back &= not isinstance(effect.message, msg.Readmitted)
            return [] if isinstance(effect.message, msg.Ping) else [Sent(link, effect.message) for link in effect.links]
        if isinstance(effect, fx.CloseLink):
            return [Closed(effect.link)]
        if isinstance(effect, fx.ConnectQuorum):
            return [Dialled(effect.sid)]
        if isinstance(effect, fx.Deliver):
            return [Delivered(batch) for batch in effect.batches]
        if isinstance(effect, fx.MarkMoved):
            chain = peer.history.chain_at(effect.zxid)
            assert chain is not None
            return [Marked((effect.zxid, chain))]
        if isinstance(effect, fx.RoleChanged):
            is_leader = effect.state == LEADING and effect.phase is BROADCAST
            return [Led(self.starts, peer.current_epoch)] if is_leader else []
        if isinstance(effect, fx.Halt):
            raise BrokenError(f"server {self.settings.sid} halts: {effect.reason}")
        if isinstance(effect, fx.Trace) and self.said is not None:
            self.said.append(effect.text)
        if isinstance(effect, fx.Trace) and effect.text.startswith("ALARM"):
            raise BrokenError(f"server {self.settings.sid} says {effect.text}")
        if isinstance(effect, fx.STORAGE_EFFECTS):
            return self._to_store(effect, before)
        return []

    def _to_store(self, effect: Any, before: Position | None) -> list[Output]:
        self.to_store.append(effect)
        if isinstance(effect, fx.AppendBatches) and before is not None:
            return [Broadcast(self.starts, effect.batches[0], before)]
        if isinstance(effect, fx.ResetLog):
            return [Started((BEFORE_ALL, genesis(effect.lineage)), ())]
        return []

    def drain(self) -> list[Output]:
        """Carry out drains, which have no effect on the disk and are done as soon as they are next."""
        outputs: list[Output] = []
        while self.to_store and isinstance(self.to_store[0], fx.DrainLog):
            outputs += self.step(ev.LogDrained(self.to_store.popleft().generation))
        return outputs

    # ---------------------------------------------------------------------------------------------------- what it shows

    @property
    def is_electing(self) -> bool:
        return self.peer is not None and self.peer.state == LOOKING and not self.peer.draining

    @property
    def told(self) -> Told | None:
        """What the server sends together with its votes."""
        peer = self.peer
        if peer is None:
            return None
        assert not peer.effects
        peer._send_notification(self.settings.sid, peer.election._notification())
        sent = peer.effects.pop()
        assert isinstance(sent, fx.SendNotification)
        return Told(peer.lineage, peer.holds != NOTHING, sent.in_force, sent.outstanding)

    @property
    def logged(self) -> frozenset[Position]:
        """The positions on its disk."""
        return frozenset((batch.zxid, batch.chain) for batch in self.disk.log)

    @property
    def can_propose(self) -> bool:
        return self.peer is not None and self.peer.next_zxid() is not None

    @property
    def last_epoch(self) -> int:
        """The highest epoch that it has accepted, or is about to accept."""
        waiting = [effect.accepted for effect in self.to_store if isinstance(effect, fx.SaveEpochs)]
        return max([self.disk.accepted, *waiting])


def _copy_of(peer: Peer) -> Peer:
    """A copy of a peer that shares no mutable state with it."""
    other = object.__new__(Peer)
    for name, value in vars(peer).items():
        setattr(other, name, _copied(value, peer, other))
    return other


_SHARED: Final = frozenset({int, bool, bytes, str, type(None), tuple, frozenset, _Lineages, Batch})
_changing: dict[type, tuple[str, ...]] = {}
"""The mutable fields of each class; empty for classes whose objects may be shared."""


def _copied(value: Any, peer: Peer, other: Peer) -> Any:
    kind = type(value)
    if kind in _SHARED:
        return value
    if kind is dict:
        return {key: _copied(item, peer, other) for key, item in value.items()}
    if kind in (list, deque):
        return kind(_copied(item, peer, other) for item in value)
    if kind is set:
        return set(value)
    if kind is MethodType:
        return MethodType(value.__func__, other) if value.__self__ is peer else value
    names = _changing.get(kind)
    if names is None:
        names = _changing[kind] = _changing_fields(value)
    if not names:
        return value
    made = object.__new__(kind)
    for name in names:
        item = getattr(value, name)
        setattr(made, name, item if type(item) in _SHARED else _copied(item, peer, other))
    return made


def _changing_fields(value: Any) -> tuple[str, ...]:
    kind = type(value)
    if not kind.__module__.startswith("zab.") or isinstance(value, Enum) or kind in msg.MESSAGES:
        return ()
    if not attrs.has(kind):
        return tuple(vars(value))
    is_frozen = kind.__setattr__ is Settings.__setattr__
    return () if is_frozen else tuple(field.name for field in attrs.fields(kind))
