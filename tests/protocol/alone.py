"""One peer without an ensemble: the test says every event, and sees every effect.

    leader = Leader()                      server 3 of three, with a history, in discovery; nobody has dialled yet
    leader.learner(1, upto=...)            server 1 dials and walks so far
    follower = Follower()                  server 1 of three; its leader, server 3, is dialled

Nothing happens that is not said: a promise becomes durable when the test says so (`saved`, `durable`, `drained`).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, TypeVar

import attrs

from datatree.log.batch import RECONFIG, Batch, build, genesis
from datatree.log.zxid import Epoch, Zxid, make_zxid
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.membership import Membership
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.roles import Leading, Stage
from zab.protocol.states import BATCHES, FOLLOWING, LEADING, LOOKING, Holds
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Majority

LINEAGE = b"lineage of tests"
OTHER_LINEAGE = b"another lineage."
LEADERS_LINK = Link(30)

Effect = TypeVar("Effect", bound=fx.Effect)
Message = TypeVar("Message", bound=msg.Message)


def reconfiguration(previous: tuple[int, bytes], epoch: int, counter: int, *voters: int, mark: int = 0) -> Batch:
    """A batch that says that these decide from now on."""
    first = make_zxid(epoch, counter)
    return build(
        previous[1], epoch=epoch, first=first, count=1, time=0, flags=RECONFIG, mark=mark, applied=0, digest=0,
        body=config(first, voters), digest_version=0,
    )  # fmt: skip


def batch_after(previous: tuple[int, bytes], epoch: int, counter: int, *, size: int = 10, mark: int = 0) -> Batch:
    """A batch of one transaction of about this size. Nobody looks at what is in it."""
    first = make_zxid(epoch, counter)
    return build(
        previous[1], epoch=epoch, first=first, count=1, time=0, flags=0, mark=mark, applied=0, digest=0,
        body=b"x" * size, digest_version=0,
    )  # fmt: skip


def history(*zxids: tuple[int, int], size: int = 10) -> list[Batch]:
    """Batches of this lineage, by epoch and counter."""
    position, batches = (0, genesis(LINEAGE)), list[Batch]()
    for epoch, counter in zxids:
        batches.append(batch_after(position, epoch, counter, size=size))
        position = batches[-1].zxid, batches[-1].chain
    return batches


HISTORY = history((1, 1), (1, 2))
FIRST, LAST = HISTORY[0].zxid, HISTORY[1].zxid


def restored(batches: list[Batch] = HISTORY, *, accepted: int = 1, mark: int = FIRST) -> Restored:
    """What a member with this history finds on its disk."""
    base = (Zxid(0), genesis(LINEAGE))
    return Restored(LINEAGE, Epoch(accepted), Epoch(1), Zxid(mark), base, batches, amnesiac=False, holds=BATCHES)


def config(version: int, voters: Iterable[int], observers: Iterable[int] = ()) -> bytes:
    """The text of a configuration, as these tests have it."""
    return " ".join([hex(version), *map(str, sorted(voters)), "|", *map(str, sorted(observers))]).encode()


class Texts:
    """Reads such texts; a flagged batch is one of them."""

    def of_text(self, text: bytes) -> Membership:
        version, _, rest = text.decode().partition(" ")
        voters, observers = ([ServerId(int(sid)) for sid in sids.split()] for sids in rest.split("|"))
        servers = frozenset((*voters, *observers))
        return Membership(Zxid(int(version, 16)), Majority(frozenset(voters)), servers, frozenset(observers), text)

    def of_batch(self, batch: Batch) -> Membership:
        membership = self.of_text(batch.body)
        if membership.version != batch.zxid:
            raise ValueError("another version")
        return membership


class Alone:
    """A peer, started, with its log drained; `effects` is what came of the last events, until `forget`."""

    def __init__(
        self, sid: int, found: Restored, voters: int, *, observers: tuple[int, ...] = (), **settings: Any
    ) -> None:
        deciding = frozenset(map(ServerId, range(1, voters + 1)))
        watching = frozenset(map(ServerId, observers))
        known = Settings(
            ServerId(sid), Majority(deciding), deciding | watching, watching, **{"reader": Texts(), **settings}
        )
        self.now = 0
        self.effects: list[fx.Effect] = []
        self._logging: list[fx.AppendBatches] = []
        self.peer = Peer(known, found, Random(1))
        self.tell(ev.TimePassed())
        self.drained()

    def tell(self, event: ev.Event) -> None:
        effects = self.peer.step(self.now, event)
        self.peer.invariants()
        self.effects += effects
        self._logging += [effect for effect in effects if isinstance(effect, fx.AppendBatches)]

    def hear(self, link: int, *messages: msg.Message) -> None:
        for message in messages:
            self.tell(ev.MessageReceived(Link(link), message))

    def drained(self) -> None:
        self.tell(ev.LogDrained(self.peer.generation))

    def saved(self, effect: fx.SaveEpochs | None = None) -> None:
        """The epochs that were to be saved last, or by this effect, are durable."""
        effect = effect or self.did(fx.SaveEpochs)[-1]
        self.tell(ev.EpochsSaved(effect.generation, effect.accepted, effect.current))

    def durable(self, zxid: int) -> None:
        """The log is durable up to here; what was to be sent then is sent."""
        while self._logging and self._logging[0].batches[-1].zxid <= zxid:
            then = self._logging.pop(0).then
            self.effects += [] if then is None else [then]
        self.tell(ev.Durable(self.peer.generation, Zxid(zxid)))

    def vote(
        self,
        sid: int,
        leader: int,
        state: object = LOOKING,
        config: bytes = b"",
        is_proven: bool = False,
        **fields: object,
    ) -> None:
        """Server `sid` votes for a leader that has what this peer has, or less. `outstanding` is a field, too."""
        outstanding = fields.pop("outstanding", b"")
        said = msg.Notification(
            state,
            ServerId(leader),
            LAST,
            Epoch(1),
            self.peer.election.round,
            LINEAGE,
            False,
            BATCHES,
            False,
            False,
            False,
        )  # type: ignore[arg-type]
        self.tell(ev.NotificationReceived(ServerId(sid), attrs.evolve(said, **fields), config, outstanding, is_proven))

    def wait(self, ms: int) -> None:
        self.now += ms
        self.tell(ev.TimePassed())

    # What came of it.

    def forget(self) -> None:
        self.effects.clear()

    def did(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, kind: type[Message], link: int | None = None) -> list[Message]:
        """The messages of a kind, on one link or on any, in order."""
        sends = [effect for effect in self.did(fx.Send) if link is None or link in effect.links]
        return [effect.message for effect in sends if isinstance(effect.message, kind)]

    def said(self, text: str) -> bool:
        """Whether a reason or a trace has this in it."""
        return any(text in getattr(effect, "text", "") + getattr(effect, "reason", "") for effect in self.effects)


class Follower(Alone):
    """Server 1; it follows server 3, whose link is `LEADERS_LINK`."""

    def __init__(self, found: Restored | None = None, voters: int = 3, **settings: Any) -> None:
        super().__init__(1, restored() if found is None else found, voters, **settings)
        self.elect()

    def elect(self) -> None:
        """The others follow server 3, which leads; it is dialled."""
        for sid in sorted(self.peer.settings.servers - {1, 3}):
            self.vote(sid, 3, FOLLOWING)
        self.vote(3, 3, LEADING)
        self.tell(ev.QuorumLinkUp(LEADERS_LINK, ServerId(3), inbound=False))

    def from_leader(self, *messages: msg.Message) -> None:
        self.hear(LEADERS_LINK, *messages)

    def accept(self, epoch: int = 2) -> None:
        """As far as ACKEPOCH."""
        self.from_leader(msg.LeaderInfo(Epoch(epoch), LINEAGE))
        self.saved()

    def synchronize(self) -> None:
        """As far as ACK of NEWLEADER, with what it has."""
        self.accept()
        self.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False))
        self.saved()

    def serve(self) -> None:
        """As far as UPTODATE."""
        self.synchronize()
        self.from_leader(msg.UpToDate(LAST))
        self.forget()

    @property
    def has_left(self) -> bool:
        return self.peer.state is LOOKING


class Leader(Alone):
    """The last of the servers; it was elected by all. A learner's link is ten times its number."""

    def __init__(self, found: Restored | None = None, voters: int = 3, **settings: Any) -> None:
        super().__init__(voters, restored() if found is None else found, voters, **settings)
        self.sid = voters
        own = self.peer.standing().vote
        for sid in range(1, voters):
            self.vote(sid, voters, zxid=own.zxid, epoch=own.epoch)

    @property
    def leading(self) -> Leading:
        assert self.peer.leading is not None
        return self.peer.leading

    def stage(self, sid: int) -> Stage | None:
        """How far a learner has come; None without a link."""
        handler = self.leading.handler_of(ServerId(sid))
        return None if handler is None else handler.stage

    def dial(self, sid: int, **fields: object) -> None:
        """A learner dials and says who it is."""
        self.tell(ev.QuorumLinkUp(Link(10 * sid), ServerId(sid), inbound=True))
        info = msg.FollowerInfo(Epoch(1), LINEAGE, BATCHES, False, False, False, False)
        self.hear(10 * sid, attrs.evolve(info, **fields))

    def accept(self, sid: int, epoch: int = 1, zxid: int = LAST) -> None:
        """A learner has accepted the epoch; where its history ends."""
        chain = self.peer.history.chain_at(Zxid(zxid)) or bytes(16)
        self.hear(10 * sid, msg.AckEpoch(Epoch(epoch), Zxid(zxid), chain))

    def acknowledge(self, sid: int, zxid: int | None = None) -> None:
        """ACK of a position; without one, of NEWLEADER."""
        epoch = self.leading.epoch
        assert epoch is not None
        self.hear(10 * sid, msg.Ack(epoch, make_zxid(epoch, 0) if zxid is None else Zxid(zxid)))

    def synchronize(self, *sids: int) -> None:
        """The learners dial, and NEWLEADER is sent to them; nobody has acknowledged it."""
        for sid in sids:
            self.dial(sid)
        if self.leading.epoch_current:
            for sid in sids:
                self.accept(sid)
            return
        self.saved()
        for sid in sids:
            self.accept(sid)
        self.saved()

    def establish(self, *sids: int) -> None:
        """The learners follow, and the epoch is established."""
        self.synchronize(*sids)
        for sid in sids:
            self.acknowledge(sid)
        self.forget()

    def readmit(self, sid: int) -> msg.Readmit:
        """An amnesiac learner has taken over the history, and server 1 confirms the round: what the leader sends."""
        self.dial(sid, amnesiac=True)
        self.accept(sid)
        self.acknowledge(sid)
        self.hear(10, msg.Confirmed(self.leading.confirm_round))
        (readmit,) = self.sent(msg.Readmit, 10 * sid)
        return readmit

    def reconfigure(self, *voters: int, observers: tuple[int, ...] = ()) -> Zxid:
        """Propose that these decide from now on."""
        zxid = self.peer.next_zxid()
        assert zxid is not None
        self.tell(ev.Propose(zxid, config(zxid, voters, observers), 1, 0, RECONFIG, 0, 0, 0))
        return zxid

    def propose(self, size: int = 10) -> Zxid:
        """One more batch; nobody has it on disk yet."""
        zxid = self.peer.next_zxid()
        assert zxid is not None
        self.tell(ev.Propose(zxid, b"x" * size, 1, 0, 0, 0, 0, 0))
        return self.peer.history.last[0]


def nothing_held(holds: Holds, *, amnesiac: bool = True, current: int = 0, marked: bool = False) -> Restored:
    """A member that says that it holds this, and has no batch."""
    base = (Zxid(0), genesis(LINEAGE))
    return Restored(
        LINEAGE, Epoch(current), Epoch(current), Zxid(0), base, [], amnesiac=amnesiac, holds=holds, marked=marked
    )
