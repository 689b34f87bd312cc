"""One server of an explored ensemble: what is on its disk, its peer, and the storage effects that wait.

The peer is `zab.protocol.peer.Peer`, as it serves. Around it is as little as can be: a disk on which each effect is
done whole or not at all, in their order, and no clock. What the peer wants done comes back as outputs:

    Sent, Closed, Dialled         for the wires
    Led, Broadcast, Started, Delivered, Marked     for the judges

Time stands still: the peer is told 0, or a moment at which a limit of its own is over (`give_up`), or at which it pings
(`ping`). The election is an oracle, as in the Zab paper: a server that elects adopts whatever leader the ensemble says,
itself included (`adopt`). So what is explored is safe whatever the election does, and the order of server ids means
nothing. Votes decide nothing then, but what they tell of configurations and histories is heard (`hear`).

Pings are left out: they carry signs of life and nothing else. Snapshots are too: all of the history is in memory.
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

__all__ = ["Broadcast", "BrokenError", "Closed", "Delivered", "Dialled", "Disk", "Led", "Marked", "Output", "Sent",
           "Site", "Started", "Told"]  # fmt: skip

_NEVER_MS: Final = 1 << 40


class _Lineages(Random):
    """All that a peer takes by chance is the lineage that it may have to make: each start of a server makes its own."""

    def __init__(self, sid: ServerId, starts: int) -> None:
        super().__init__(0)
        self._lineage = bytes([sid, starts]).rjust(LINEAGE_BYTES, b"\0")

    def randbytes(self, n: int) -> bytes:
        assert n == LINEAGE_BYTES
        return self._lineage


class _Oracle(Election):
    """An election that counts no votes: it is over when the ensemble says so."""

    def on_notification(self, now: int, sid: ServerId, notification: msg.Notification) -> None:
        """Nobody's vote counts."""

    def _consider(self, now: int) -> None:
        """Nor does its own."""


class BrokenError(Exception):
    """The code under test did what it never may: it says so itself."""


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
    """It has established this epoch."""

    starts: int
    epoch: int


@attrs.frozen
class Broadcast:
    starts: int
    batch: Batch
    predecessor: Position


@attrs.frozen
class Started:
    """Its tree stands at this position; the batches that its log holds."""

    position: Position
    recent: tuple[Batch, ...]


@attrs.frozen
class Delivered:
    batch: Batch


@attrs.frozen
class Marked:
    """It takes everything up to here for committed."""

    position: Position


Output: TypeAlias = Sent | Closed | Dialled | Led | Broadcast | Started | Delivered | Marked


class Told(NamedTuple):
    """What a server's vote says beside the vote."""

    lineage: bytes
    has_history: bool
    in_force: bytes
    outstanding: bytes
    is_proven: bool = True


@attrs.frozen
class Disk:
    """What is durable. `member` is the lineage of the member record, empty without one."""

    lineage: bytes = b""
    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    member: bytes = b""
    log: tuple[Batch, ...] = ()

    @property
    def position(self) -> Position:
        """Where its history ends; also where one without any begins."""
        if self.log:
            return self.log[-1].zxid, self.log[-1].chain
        return BEFORE_ALL, genesis(self.lineage) if self.lineage else bytes(CHAIN_BYTES)

    def restored(self) -> Restored:
        """What recovery makes of it (`zab.member.membership.restore`)."""
        # An empty log has no file that could name its lineage; the member record does.
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
    """See the module. Methods change it, and return what it wants done."""

    settings: Settings
    disk: Disk
    starts: int = 0
    peer: Peer | None = None
    to_store: deque[Any] = attrs.Factory(deque)
    older_copy: Disk = Disk()
    """Of its disk: what it began with."""
    is_rolled_back: bool = False
    """Its disk has less than it has said, and nobody has readmitted it since."""
    said: list[str] | None = None
    """What the peer says, if somebody wants to know."""

    def copy(self) -> Site:
        peer = None if self.peer is None else _copy_of(self.peer)
        to_store = deque(self.to_store)
        return Site(self.settings, self.disk, self.starts, peer, to_store, self.older_copy, self.is_rolled_back)

    # ------------------------------------------------------------------------------------------------------------ steps

    def start(self) -> list[Output]:
        """The process begins with what is on the disk."""
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
        """It ends; what waits to be stored is lost."""
        self.peer = None
        self.to_store.clear()
        return []

    def wipe(self) -> list[Output]:
        """It ends, and its disk is lost."""
        self.disk, self.is_rolled_back = Disk(), False
        return self.crash()

    def rollback(self) -> list[Output]:
        """It ends, and somebody puts an older copy in the place of its disk."""
        self.disk, self.is_rolled_back = self.older_copy, True
        return self.crash()

    def store(self) -> list[Output]:
        """Carry out the storage effect that is next, send what was to be sent then, and tell the peer."""
        effect = self.to_store[0]
        answer = self.write()
        then = effect.then if isinstance(effect, fx.AppendBatches) else None
        sent: list[Output] = [] if then is None else [Sent(link, then.message) for link in then.links]
        return [*sent, *self.step(answer)]

    def write(self) -> ev.Event:
        """Carry out the storage effect that is next; its answer."""
        effect = self.to_store.popleft()
        disk = self.disk
        answer: ev.Event
        if isinstance(effect, fx.AppendBatches):
            last, chain = disk.position
            assert follows(last, effect.batches[0]), "the log is appended to behind its end"
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
        """Its election ends with this leader, who has no less than it has, as it seems."""
        peer = self.peer
        assert peer is not None
        assert leader in peer.election.candidates
        peer.election.proposal = Vote(leader, peer.history.last[0], peer.current_epoch)
        peer.election.winner = leader
        outputs = self.step(ev.TimePassed())
        assert peer.leader == leader or peer.halted
        return outputs

    def hear(self, sid: ServerId, told: Told) -> list[Output]:
        """A vote comes from this server."""
        peer = self.peer
        assert peer is not None
        holds = BATCHES if told.has_history else NOTHING
        # Of the same round, and nothing was received before: so nobody has left, or turned to another candidate.
        vote = msg.Notification(
            LOOKING, sid, BEFORE_ALL, Epoch(0), peer.election.round, told.lineage, False, holds, False, False, False
        )
        return self.step(ev.NotificationReceived(sid, vote, told.in_force, told.outstanding, told.is_proven))

    def give_up(self) -> list[Output]:
        """It has heard nothing for so long that every limit is over."""
        return self.step(ev.TimePassed(), _NEVER_MS)

    def propose(self, data: bytes) -> list[Output]:
        """Its member has one write."""
        assert self.peer is not None
        zxid = self.peer.next_zxid()
        assert zxid is not None
        return self.step(ev.Propose(body_of(zxid, data), 1, 0, 0, 0, 0, 1))

    def reconfigure(self, voters: frozenset[ServerId]) -> list[Output]:
        """Somebody who may has asked that these decide from now on."""
        assert self.peer is not None
        zxid = self.peer.next_zxid()
        assert zxid is not None
        return self.step(ev.Propose(body_of(zxid, text_of(zxid, voters)), 1, 0, RECONFIG, 0, 0, 1))

    def hand_over(self, heir: ServerId) -> list[Output]:
        """Somebody who may has asked that this server leads."""
        return self.step(ev.HandOver(heir))

    def ping(self) -> list[Output]:
        """The time has come for a leader's next ping, and to give up a hand-over that has begun."""
        assert self.peer is not None
        leading = self.peer.leading
        assert leading is not None
        due = leading.next_ping, leading.next_tick
        outputs = self.step(ev.TimePassed(), max(leading.next_ping, leading.heir_until))
        leading.next_ping, leading.next_tick = due
        leading.lag.count = 0
        return outputs

    def step(self, event: ev.Event, now: int = 0) -> list[Output]:
        """Tell the peer."""
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
        """What is left of an effect."""
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
        """A drain has no effect on the disk: it is over as soon as it is next."""
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
        """What its votes say beside the vote."""
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
        """The positions that its disk holds."""
        return frozenset((batch.zxid, batch.chain) for batch in self.disk.log)

    @property
    def can_propose(self) -> bool:
        return self.peer is not None and self.peer.next_zxid() is not None

    @property
    def last_epoch(self) -> int:
        """The highest epoch that it has accepted, or is about to."""
        waiting = [effect.accepted for effect in self.to_store if isinstance(effect, fx.SaveEpochs)]
        return max([self.disk.accepted, *waiting])


def _copy_of(peer: Peer) -> Peer:
    """A peer in the same state that shares nothing with it that changes."""
    other = object.__new__(Peer)
    for name, value in vars(peer).items():
        setattr(other, name, _copied(value, peer, other))
    return other


_SHARED: Final = frozenset({int, bool, bytes, str, type(None), tuple, frozenset, _Lineages, Batch})
_changing: dict[type, tuple[str, ...]] = {}
"""The fields of a class whose objects change; none of one whose objects may be shared."""


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
