"""Every place in the protocol where a peer can be told something: role, phase, and how far the link has come.

Each has a name, and a function that brings a peer there. The peer has a disk (`Disk`) that does what it is told, and
notices what no disk may be told: a gap in the log, a cut of what was delivered, an epoch that is out of reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from datatree.log import batch as codec
from datatree.log.batch import Batch, Position, genesis
from datatree.log.zxid import EPOCH_MAX, Epoch, Zxid, make_zxid
from tests.protocol.alone import (
    FIRST,
    HISTORY,
    LAST,
    LEADERS_LINK,
    LINEAGE,
    Alone,
    Follower,
    Leader,
    nothing_held,
    restored,
)
from zab.member.storage.events import StorageEffect
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.discovery import EPOCH_JUMP_MAX
from zab.protocol.peer_settings import Restored
from zab.protocol.roles import Stage
from zab.protocol.states import (
    BROADCAST,
    DISCOVERY,
    ELECTION,
    FOLLOWING,
    LEADING,
    LOOKING,
    NOTHING,
    OBSERVING,
    SYNCHRONIZATION,
    Phase,
    State,
)
from zab.quorum.ids import Link, ServerId
from zab.service.disk_space import EXHAUSTED

BASE = (Zxid(0), genesis(LINEAGE))
OTHER_BYTES = bytes(16)
STRANGERS_LINK = Link(99)
"""A server id that the peer does not know."""
ANSWERS = (ev.Durable, ev.LogCut, ev.EpochsSaved, ev.MemberSaved, ev.SnapshotInstalled, ev.LogDrained)


class Disk:
    """What the storage of a peer holds, and what it still has to do."""

    def __init__(self, found: Restored) -> None:
        self.epochs = found.accepted_epoch, found.current_epoch
        self.ends: list[Position] = [found.base, *((batch.zxid, batch.chain) for batch in found.batches)]
        self.batches = {batch.zxid: batch for batch in found.batches}
        self.delivered = BASE[0] if found.amnesiac else found.mark
        self.holds_nothing = found.holds is NOTHING
        self.queue: deque[StorageEffect] = deque()

    @property
    def last(self) -> Position:
        return self.ends[-1]

    def perform(self) -> ev.Event | None:
        """Do the oldest thing that is waiting; SAVESESSIONKEYS has no answer."""
        effect = self.queue.popleft()
        if isinstance(effect, fx.AppendBatches):
            for batch in effect.batches:
                assert codec.follows(self.last[0], batch), "a gap in the log"
                assert codec.continues(self.last[1], batch), "a break in the chain"
                self.ends.append((batch.zxid, batch.chain))
                self.batches[batch.zxid] = batch
            return ev.Durable(effect.generation, Zxid(self.last[0]))
        if isinstance(effect, fx.TruncateLog):
            assert effect.zxid >= self.delivered, "a cut of what is committed"
            del self.ends[self.ends.index((effect.zxid, effect.chain)) + 1 :]
            return ev.LogCut(effect.generation, effect.zxid)
        if isinstance(effect, fx.ResetLog):
            assert self.delivered == 0, "a reset of what is committed"
            self.ends = [(Zxid(0), genesis(effect.lineage))]
            return ev.LogCut(effect.generation, Zxid(0))
        if isinstance(effect, fx.FetchSnapshot):
            assert effect.zxid >= self.delivered, "a snapshot below what is committed"
            self.ends = [(effect.zxid, effect.chain)]
            return ev.SnapshotInstalled(effect.generation, effect.zxid, effect.chain)
        if isinstance(effect, fx.SaveEpochs):
            assert effect.accepted >= self.epochs[0]
            assert effect.current >= self.epochs[1]
            assert effect.current <= effect.accepted < EPOCH_MAX, "the last epoch of all"
            assert self.holds_nothing or effect.accepted <= self.epochs[0] + EPOCH_JUMP_MAX, "an epoch out of reach"
            self.epochs = effect.accepted, effect.current
            return ev.EpochsSaved(effect.generation, effect.accepted, effect.current)
        if isinstance(effect, fx.SaveMember):
            return ev.MemberSaved(effect.generation)
        return ev.LogDrained(effect.generation) if isinstance(effect, fx.DrainLog) else None

    def read(self, zxid: int) -> tuple[Position | None, list[Batch]]:
        """The last position at or below this one, and what comes after it."""
        below = [end for end in self.ends if end[0] <= zxid]
        return (below[-1] if below else None), [batch for end, batch in self.batches.items() if end > zxid]


class Kept(Alone):
    """A peer alone, with its disk."""

    def __init__(self, *arguments: Any, found: Restored, **more: Any) -> None:
        self.disk = Disk(found)
        super().__init__(*arguments, **more)

    def tell(self, event: ev.Event) -> None:
        if isinstance(event, ANSWERS):
            while self.disk.perform() is None:
                pass
        self._tell(event)

    def _tell(self, event: ev.Event) -> None:
        count = len(self.effects)
        super().tell(event)
        for effect in self.effects[count:]:
            if isinstance(effect, fx.STORAGE_EFFECTS):
                self.disk.queue.append(effect)
            elif isinstance(effect, fx.Deliver):
                self.disk.delivered = effect.batches[-1].zxid

    def rest(self) -> None:
        """What the peer wants of its disk is done, and what it asks for is answered."""
        asked = 0
        while self.disk.queue or asked < len(self.effects):
            if self.disk.queue:
                answer = self.disk.perform()
                if answer is not None:
                    self._tell(answer)
                continue
            effect = self.effects[asked]
            asked += 1
            if isinstance(effect, fx.ReadLog):
                self._tell(ev.LogRead(effect.link, *self.disk.read(effect.zxid)))
            elif isinstance(effect, fx.OfferSnapshot):
                self._tell(ev.NothingToOffer(effect.link, effect.above))


class Leads(Kept, Leader):
    """It leads, or is about to."""

    def __init__(self, voters: int = 3, found: Restored | None = None, **settings: int) -> None:
        found = found or restored()
        super().__init__(found, voters, found=found, **settings)

    def offer(self, zxid: int = LAST) -> None:
        """Learner 1 comes with other bytes; files lead it on no more, and a snapshot is chosen."""
        self.dial(1)
        self.hear(10, msg.AckEpoch(Epoch(1), FIRST, OTHER_BYTES))
        self.tell(ev.LogRead(Link(10), None, []))
        self.tell(ev.SnapshotOffered(Link(10), Zxid(zxid), HISTORY[1].chain))

    def renew(self) -> None:
        """A server dials that can only follow a higher epoch."""
        self.dial(2, accepted_epoch=Epoch(7))
        assert self.peer.phase is DISCOVERY
        assert self.leading.established


class Learns(Kept, Follower):
    """It follows or observes server 3."""

    def __init__(self, sid: int = 1, found: Restored | None = None, *, dialled: bool = True) -> None:
        found = found or restored()
        self.dialled = dialled
        self.sid = sid
        super().__init__(found, found=found)

    def elect(self) -> None:
        if self.dialled:
            super().elect()

    def renew(self) -> None:
        self.serve()
        self.from_leader(msg.LeaderInfo(Epoch(3), LINEAGE))


class Watches(Learns):
    """An observer's place, as server 4."""

    def __init__(self, found: Restored | None = None, *, dialled: bool = True) -> None:
        found = found or restored()
        self.disk = Disk(found)
        self.dialled, self.sid = dialled, 4
        Alone.__init__(self, 4, found, 3, observers=(4,))
        self.elect()

    def elect(self) -> None:
        if self.dialled:
            for sid in (1, 2):
                self.vote(sid, 3, FOLLOWING)
            self.vote(3, 3, LEADING)
            self.tell(ev.QuorumLinkUp(LEADERS_LINK, ServerId(3), inbound=False))


@attrs.frozen
class Place:
    """Where a peer is, and on which link it is told something."""

    state: State
    phase: Phase
    go: Callable[[], Kept]
    link: Link
    stage: Stage | None = None
    """The id of the leader's learner on that link."""

    def enter(self) -> Kept:
        rig = self.go()
        peer = rig.peer
        assert (peer.state, peer.phase) == (self.state, self.phase)
        if peer.leading is not None:
            assert (h := peer.leading.handlers.get(self.link)) is None or h.stage is self.stage, h and h.stage
            assert (h is None) == (self.stage is None)
        return rig


Step: TypeAlias = Callable[[Any], object]


def _leads(phase: Phase, stage: Stage | None, *steps: Step, link: int = 10, **settings: Any) -> Place:
    def go() -> Kept:
        rig = Leads(**settings)
        for step in steps:
            step(rig)
        return rig

    return Place(LEADING, phase, go, Link(link), stage)


def _elects(*steps: Step, link: Link) -> Place:
    def go() -> Kept:
        rig = Learns(dialled=False)
        for step in steps:
            step(rig)
        return rig

    return Place(LOOKING, ELECTION, go, link)


def _leave(rig: Learns) -> None:
    """It served, and its link broke: the log is being drained."""
    rig.dialled = True
    rig.elect()
    rig.serve()
    rig.tell(ev.QuorumLinkDown(LEADERS_LINK))
    assert rig.peer.draining


def _fill(rig: Learns) -> None:
    rig.tell(ev.SpaceChanged(EXHAUSTED))


def _link_up(sid: int) -> Step:
    return lambda rig: rig.tell(ev.QuorumLinkUp(Link(10 * sid), ServerId(sid), inbound=True))


def _dial(*sids: int, **fields: object) -> Step:
    return lambda rig: [Leader.dial(rig, sid, **fields) for sid in sids]


def _accept(sid: int, zxid: int = LAST) -> Step:
    return lambda rig: rig.accept(sid, zxid=zxid)


def _saved(rig: Leads) -> None:
    rig.saved()


def _synchronize(*sids: int) -> Step:
    return lambda rig: rig.synchronize(*sids)


def _establish(*sids: int) -> Step:
    return lambda rig: rig.establish(*sids)


def _acknowledge(sid: int) -> Step:
    return lambda rig: rig.acknowledge(sid)


def _renew(rig: Leads | Learns) -> None:
    rig.renew()


def _readmit(rig: Leads) -> None:
    """Server 2 has lost its data, and is told to record that it is a member."""
    rig.readmit(2)


def _in_memory_from_first() -> Restored:
    return attrs.evolve(restored(HISTORY[1:], mark=LAST), base=(FIRST, HISTORY[0].chain))


LEADERS = {
    "discovery: a link": _leads(DISCOVERY, Stage.CONNECTED, _link_up(1)),
    "discovery: no such link": _leads(DISCOVERY, None, link=STRANGERS_LINK),
    "discovery: told who it is": _leads(DISCOVERY, Stage.INFORMED, _dial(1), voters=5),
    "discovery: the promise is not durable": _leads(DISCOVERY, Stage.INFORMED, _dial(1)),
    "discovery: LEADERINFO sent": _leads(DISCOVERY, Stage.EPOCH_PROPOSED, _dial(1, 2), _saved, voters=5),
    "discovery: ACKEPOCH came": _leads(DISCOVERY, Stage.EPOCH_ACCEPTED, _dial(1, 2), _saved, _accept(1), voters=5),
    "discovery: the epoch is not durable": _leads(DISCOVERY, Stage.EPOCH_ACCEPTED, _dial(1), _saved, _accept(1)),
    "synchronization: a link": _leads(SYNCHRONIZATION, Stage.CONNECTED, _synchronize(1), _link_up(2), link=20),
    "synchronization: LEADERINFO sent": _leads(
        SYNCHRONIZATION, Stage.EPOCH_PROPOSED, _synchronize(1), _dial(2), link=20
    ),
    "synchronization: the log is read": _leads(
        SYNCHRONIZATION, Stage.SYNCING, _synchronize(1), _dial(2), _accept(2, 0), link=20, found=_in_memory_from_first()
    ),
    "synchronization: NEWLEADER sent": _leads(SYNCHRONIZATION, Stage.NEWLEADER_SENT, _synchronize(1)),
    "synchronization: ACK-LD came": _leads(
        SYNCHRONIZATION, Stage.SYNCHRONIZED, _synchronize(1, 2), _acknowledge(1), voters=5
    ),
    "broadcast: a link": _leads(BROADCAST, Stage.CONNECTED, _establish(2), _link_up(1)),
    "broadcast: it waits, its disk is low": _leads(BROADCAST, Stage.INFORMED, _establish(2), _dial(1, is_low=True)),
    "broadcast: LEADERINFO sent": _leads(BROADCAST, Stage.EPOCH_PROPOSED, _establish(2), _dial(1)),
    "broadcast: the log is read": _leads(
        BROADCAST, Stage.SYNCING, _establish(2), _dial(1), _accept(1, 0), found=_in_memory_from_first()
    ),
    "broadcast: it fetches a snapshot": _leads(
        BROADCAST, Stage.SYNCING, _establish(2), Leads.offer, found=_in_memory_from_first()
    ),
    "broadcast: NEWLEADER sent": _leads(BROADCAST, Stage.NEWLEADER_SENT, _establish(2), _dial(1), _accept(1)),
    "broadcast: up to date": _leads(BROADCAST, Stage.UP_TO_DATE, _establish(1)),
    "broadcast: proposals are under way": _leads(
        BROADCAST, Stage.UP_TO_DATE, _establish(1, 2), Leads.propose, Leads.propose
    ),
    "broadcast: a sync waits": _leads(
        BROADCAST, Stage.UP_TO_DATE, _establish(1), lambda rig: rig.tell(ev.SyncRequested(1))
    ),
    "broadcast: READMIT sent": _leads(BROADCAST, Stage.UP_TO_DATE, _establish(1), _readmit, link=20),
    "renewal: the promise is not durable": _leads(DISCOVERY, Stage.INFORMED, _establish(1), _renew),
    "renewal: LEADERINFO sent": _leads(DISCOVERY, Stage.EPOCH_PROPOSED, _establish(1), _renew, _saved),
    "renewal: ACKEPOCH came": _leads(DISCOVERY, Stage.EPOCH_ACCEPTED, _establish(1), _renew, _saved, _accept(1)),
    "renewal: NEWLEADER sent": _leads(
        SYNCHRONIZATION, Stage.NEWLEADER_SENT, _establish(1), _renew, _saved, _accept(1), _saved
    ),
    "renewal: a new link": _leads(DISCOVERY, Stage.CONNECTED, _establish(1), _renew, _link_up(2), link=20),
}

_NEXT = codec.build(
    HISTORY[1].chain, epoch=Epoch(2), first=make_zxid(2, 1), count=1, time=0, flags=0, mark=LAST, applied=0, digest=0,
    body=b"next",
)  # fmt: skip


def _from_leader(*messages: msg.Message) -> Step:
    return lambda rig: rig.from_leader(*messages)


_LEARNERS: dict[str, tuple[Phase, tuple[Step, ...]]] = {
    "discovery: a link": (DISCOVERY, ()),
    "discovery: the promise is not durable": (DISCOVERY, (_from_leader(msg.LeaderInfo(Epoch(2), LINEAGE)),)),
    "discovery: ACKEPOCH sent": (DISCOVERY, (Follower.accept,)),
    "synchronization: DIFF came": (SYNCHRONIZATION, (Follower.accept, _from_leader(msg.Diff(LAST)))),
    "synchronization: TRUNC came": (
        SYNCHRONIZATION,
        (Follower.accept, _from_leader(msg.Trunc(FIRST, HISTORY[0].chain, True))),
    ),
    "synchronization: it fetches a snapshot": (
        SYNCHRONIZATION,
        (Follower.accept, _from_leader(msg.Snap(Zxid(LAST + 7), bytes(16), False))),
    ),
    "synchronization: its log is not durable": (
        SYNCHRONIZATION,
        (
            Follower.accept,
            _from_leader(msg.Diff(LAST), msg.Proposal([_NEXT.raw]), msg.NewLeader(Epoch(2), _NEXT.zxid, False)),
        ),
    ),
    "synchronization: its epoch is not durable": (
        SYNCHRONIZATION,
        (Follower.accept, _from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False))),
    ),
    "synchronization: ACK-LD sent": (SYNCHRONIZATION, (Follower.synchronize,)),
    "broadcast: up to date": (BROADCAST, (Follower.serve,)),
    "broadcast: its log is not durable": (BROADCAST, (Follower.serve, _from_leader(msg.Proposal([_NEXT.raw])))),
    "renewal: the promise is not durable": (DISCOVERY, (_renew,)),
    "renewal: ACKEPOCH sent": (DISCOVERY, (_renew, Learns.saved)),
    "renewal: DIFF came": (SYNCHRONIZATION, (_renew, Learns.saved, _from_leader(msg.Diff(LAST)))),
    "renewal: its epoch is not durable": (
        SYNCHRONIZATION,
        (_renew, Learns.saved, _from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(3), LAST, False))),
    ),
    "renewal: ACK-LD sent": (
        SYNCHRONIZATION,
        (_renew, Learns.saved, _from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(3), LAST, False)), Learns.saved),
    ),
}


def _learns(role: State, name: str, found: Restored | None = None, link: Link = LEADERS_LINK) -> Place:
    phase, steps = _LEARNERS[name]

    def go() -> Kept:
        rig = (Learns if role is FOLLOWING else Watches)(found=found)
        for step in steps:
            step(rig)
        return rig

    return Place(role, phase, go, link)


PLACES: dict[str, Place] = {
    "LOOKING: the log is drained": _elects(_leave, link=LEADERS_LINK),
    "LOOKING: no such link": _elects(link=STRANGERS_LINK),
    "LOOKING: an early link": _elects(_link_up(2), link=Link(20)),
    "LOOKING: an early link that said who it is": _elects(_dial(2), link=Link(20)),
    "LOOKING: this member's disk is full": _elects(_link_up(2), _fill, link=Link(20)),
    **{f"LEADING {name}": place for name, place in LEADERS.items()},
    **{f"FOLLOWING {name}": _learns(FOLLOWING, name) for name in _LEARNERS},
    **{f"OBSERVING {name}": _learns(OBSERVING, name) for name in _LEARNERS},
    "FOLLOWING discovery: it holds nothing": _learns(
        FOLLOWING, "discovery: a link", found=nothing_held(NOTHING, amnesiac=False)
    ),
    "FOLLOWING discovery: an amnesiac": _learns(FOLLOWING, "discovery: a link", found=nothing_held(NOTHING)),
    "FOLLOWING broadcast: no such link": _learns(FOLLOWING, "broadcast: up to date", link=STRANGERS_LINK),
}
