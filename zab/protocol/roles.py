"""The state of a member while it leads, and while it follows. Plain data: the phase modules act on it.

The leader's sets have the names of the Zab specification: `cepoch_recv` (servers that sent CEPOCH), `acke_recv`
(ACK-E), `ackld_recv` (ACK-LD). Each holds the ids of servers that sent it on their present link, in this epoch; when a
link breaks, everything counted because of it goes, too.
"""

from collections import deque
from enum import IntEnum

import attrs

from datatree.log.batch import Position
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from zab.protocol.features import ALL
from zab.protocol.message import Notification
from zab.protocol.states import NOTHING, Holds
from zab.quorum.ids import Link, Route, ServerId


class ProtocolError(Exception):
    """The other side of a link broke the protocol: that link is closed, and nothing else is affected."""


class Stage(IntEnum):
    """How far one learner has got on its present link, from the leader's point of view."""

    CONNECTED = 0
    """Its FOLLOWERINFO is awaited."""
    INFORMED = 1
    """It waits for LEADERINFO."""
    EPOCH_PROPOSED = 2
    """Its ACKEPOCH is awaited."""
    EPOCH_ACCEPTED = 3
    """It waits for the decision how to synchronize it."""
    SYNCING = 4
    """Its missing history is on the way."""
    NEWLEADER_SENT = 5
    """NEWLEADER is sent; new proposals follow it. Its ACK-LD is awaited."""
    SYNCHRONIZED = 6
    """It has acknowledged NEWLEADER and waits for UPTODATE."""
    UP_TO_DATE = 7
    """It serves clients."""


CONNECTED, INFORMED, EPOCH_PROPOSED, EPOCH_ACCEPTED, SYNCING, NEWLEADER_SENT, SYNCHRONIZED, UP_TO_DATE = Stage


@attrs.define
class Overdue:
    """The zxid that should be durable by now: the last one a time limit ago, from samples at every ping."""

    samples: deque[tuple[int, Zxid]] = attrs.Factory(deque)

    def sample(self, now: int, zxid: Zxid, limit_ms: int) -> Zxid:
        """Note that the history ends at `zxid` now. Returns the zxid noted `limit_ms` ago, or 0."""
        self.samples.append((now, zxid))
        while len(self.samples) > 1 and self.samples[1][0] <= now - limit_ms:
            self.samples.popleft()
        noted_at, overdue = self.samples[0]
        return overdue if noted_at <= now - limit_ms else BEFORE_ALL


@attrs.define
class LearnerHandler:
    """The leader's side of one link to one learner."""

    link: Link
    sid: ServerId
    heard_at: int
    """When its last message arrived."""
    features: int = ALL
    """Its bits of `zab.protocol.features`."""
    stage: Stage = CONNECTED
    observer: bool = False
    amnesiac: bool = False
    """It lost its data: nothing it says counts before a confirmation round without it (B2 amnesiacs)."""
    holds: Holds = NOTHING
    marked: bool = False
    """It holds nothing, and its operator declared that it never did: it counts for a first start without every
    voter."""
    accepted_epoch: Epoch = Epoch(0)
    position: Position = (BEFORE_ALL, b"")
    """The end of its history, according to its ACKEPOCH."""
    cursor: Zxid = BEFORE_ALL
    """Everything up to this zxid was sent on this link, or the learner had it before."""
    conflict: bool = False
    """It has different bytes at the zxid where its history ends (A5 conflicts)."""
    decided: bool = False
    """DIFF, TRUNC or SNAP was sent."""
    reading: bool = False
    """A `ReadLog` for it is under way."""
    installing: bool = False
    """SNAP was sent: INSTALLED is awaited."""
    offered: bool = False
    """A snapshot, and the log after it, are held for it."""
    served: bool = False
    """UPTODATE was sent on this link: it serves clients, also while the epoch is renewed."""
    newleader_zxid: Zxid = BEFORE_ALL
    """Where the history ended when NEWLEADER was sent."""
    acked: Zxid = BEFORE_ALL
    """Its cumulative acknowledgement on this link, 0 before ACK-LD."""
    confirmed: int = 0
    """The newest confirmation round that it has answered."""
    counts_after_round: int | None = None
    """An amnesiac is readmitted once a quorum without it has answered this round."""
    readmitting: int | None = None
    """READMIT of this round was sent: READMITTED is awaited."""
    is_low: bool = False
    """Its disk is nearly full, according to its last message."""
    is_attached: bool = False
    """At a master: the leader knows that this observer is here."""
    unacknowledged: deque[tuple[Zxid, int]] = attrs.Factory(deque)
    """At a master: (zxid, bytes) of what was sent since NEWLEADER and is not acknowledged, the oldest first."""
    unacknowledged_bytes: int = 0


@attrs.define
class Supplying:
    """The part of a role that supplies learners with history: as a leader, or as a master of observers."""

    next_ping: int
    next_tick: int
    handlers: dict[Link, LearnerHandler] = attrs.Factory(dict)
    """By link."""
    epoch: Epoch | None = None
    """The epoch that its learners are asked to accept; None while a leader has none."""
    overdue: Overdue = attrs.Factory(Overdue)

    def handler_of(self, sid: ServerId) -> LearnerHandler | None:
        """The handler of a server's present link."""
        for handler in self.handlers.values():
            if handler.sid == sid:
                return handler
        return None

    def at_least(self, stage: Stage) -> list[LearnerHandler]:
        """The learners that have got at least this far."""
        return [handler for handler in self.handlers.values() if handler.stage >= stage]

    def all_have(self, feature: int) -> bool:
        """Whether all connected learners have this feature (`zab.protocol.features`)."""
        return all(handler.features & feature for handler in self.handlers.values())

    def is_founder(self, other: LearnerHandler | Notification) -> bool:
        """Whether this amnesiac counts, because the ensemble has never lived."""
        return False


@attrs.define
class Attaching:
    """A confirmation round that an observer's master waits for."""

    round: int
    route: Route


@attrs.define
class Question:
    """A confirmation round that a `sync` waits for, with where the history ended when it was asked."""

    round: int
    token: int
    last: Zxid


@attrs.define
class Lag:
    """A leader's measure of how late committed batches become durable here (`zab.protocol.slow_disk`)."""

    late_ms: int
    """A batch that becomes durable here so much later than committed is late."""
    behind: Zxid = BEFORE_ALL
    """The end of what was committed before it was durable here, and still is not; 0 if nothing."""
    since: int = 0
    is_late: bool = False
    """A batch of this half tick was late."""
    weighed: Zxid = BEFORE_ALL
    """The mark at the last ping."""
    count: int = 0
    """How many half ticks were late."""

    def see(self, now: int, committed: Zxid, durable: Zxid) -> None:
        """A batch was committed, or became durable here."""
        assert self.behind <= committed
        if self.behind:
            if durable < self.behind:
                return
            self.is_late = self.is_late or now - self.since >= self.late_ms
        self.behind, self.since = (committed, now) if durable < committed else (BEFORE_ALL, now)

    def weigh(self, now: int, committed: Zxid) -> int:
        """A half tick is over. Returns how many late ones there were."""
        assert self.weighed <= committed
        if self.is_late or (self.behind and now - self.since >= self.late_ms):
            self.count += 1
        elif committed > self.weighed:
            self.count = 0
        self.is_late, self.weighed = False, committed
        return self.count


@attrs.define(kw_only=True)
class Leading(Supplying):
    """The state of a leader, from the end of the election to the end of its leadership. Its epoch is the one that it
    determined, None before a quorum of CEPOCHs."""

    deadline: int
    """When it gives up unless the epoch is established by then."""
    lag: Lag
    vain_at: int | None = None
    """When it gives up unless a quorum has dialled by then, because voters have turned to another candidate."""
    epoch_accepted: bool = False
    """Its own acceptedEpoch is durable at `epoch`: LEADERINFO may be sent."""
    epoch_current: bool = False
    """Its own currentEpoch is durable at `epoch`: it may count itself for NEWLEADER."""
    current_saving: bool = False
    first_start: bool = False
    """The ensemble has never lived: until the epoch is established, founders count although they are amnesiacs (B3
    first start)."""
    by_marker: bool = False
    """The first start was recognized by marked voters, not by all voters: only marked servers are founders."""
    acke_recv: set[ServerId] = attrs.Factory(set)
    acknowledged: dict[ServerId, Zxid] = attrs.Factory(dict)
    """For each server, the most that it ever acknowledged to this leader, to detect a directory that was rolled back
    (B4 rollbacks)."""
    established: bool = False
    """A quorum has acknowledged NEWLEADER at least once under this leader: clients are served."""
    renewal_wanted: bool = False
    """Nothing more is proposed; once all is committed, the epoch is renewed over the open links (F1 renewal)."""
    renewal_above: Epoch = Epoch(0)
    """The renewed epoch must be above this one, which some server has accepted."""
    heir: ServerId | None = None
    """The server to which the lead is being handed over: nothing more is proposed (`zab.protocol.handover`)."""
    heir_until: int = 0
    """When to give up on the heir."""
    serves_since: int | None = None
    """When a quorum had acknowledged NEWLEADER for the first time."""
    told_short: bool = False
    """Whether the last report in the journal was that no quorum has room."""
    confirm_round: int = 0
    questions: list[Question] = attrs.Factory(list)
    outstanding: deque[tuple[Zxid, int]] = attrs.Factory(deque)
    """(zxid, bytes) of the batches that are not committed, or not durable here, oldest first."""
    outstanding_bytes: int = 0
    attached: dict[Route, ServerId] = attrs.Factory(dict)
    """Observers that follow through masters. A server has one route at most."""
    attaching: list[Attaching] = attrs.Factory(list)

    def is_founder(self, other: LearnerHandler | Notification) -> bool:
        """Whether this amnesiac counts, because the ensemble has never lived."""
        return self.first_start and (other.marked or not self.by_marker)

    def counts(self, handler: LearnerHandler) -> bool:
        """Whether a learner's acknowledgements count: a voter that is not an amnesiac, or is a founder (B2 amnesiacs,
        B3 first start)."""
        return not handler.observer and (not handler.amnesiac or self.is_founder(handler))


@attrs.define
class Mastering(Supplying):
    """The state of a follower that serves and is a master of observers (`zab.protocol.observer_master`)."""

    sent: Zxid = BEFORE_ALL
    """The mark up to which all observers were sent what they lack, except those whose log is being read."""


@attrs.define
class Following:
    """The state of a follower or observer, from the end of the election to the loss of its leader."""

    leader: ServerId
    deadline: int
    """When it gives up unless the leader is heard by then."""
    source: ServerId = attrs.Factory(lambda following: following.leader, takes_self=True)
    """The server that it dials: its leader, or an observer's master (`zab.protocol.source`)."""
    untried: list[ServerId] = attrs.Factory(list)
    """The masters that an observer dials next, before the leader."""
    mastering: Mastering | None = None
    link: Link | None = None
    features: int = ALL
    """The features (`zab.protocol.features`) that it has in common with the source."""
    dialled: int = 1
    """How often it has dialled the leader's quorum port."""
    redial_at: int | None = None
    epoch: Epoch | None = None
    """The epoch of LEADERINFO."""
    epoch_saved: bool = False
    fetching: bool = False
    """A snapshot is being fetched."""
    is_told_keys: bool = False
    """SESSIONKEYS has arrived: the leader has a secret."""
    newleader: tuple[Epoch, Zxid] | None = None
    """(epoch, zxid) of NEWLEADER, until its ACK is sent."""
    is_founder: bool = False
    """NEWLEADER said that this member is a founder."""
    readmitting: int | None = None
    """READMIT of this round has arrived: the member record is being written."""
    current_saving: bool = False
    synchronized: bool = False
    """ACK-LD was sent: acknowledgements of proposals may follow."""
    up_to_date: bool = False
    """UPTODATE has arrived: clients are served, also while the leader renews its epoch."""
    acked: Zxid = BEFORE_ALL
    """The last zxid for which an ACK was sent, or will be sent once it is durable."""
    promising: tuple[bool, int] | None = None
    """A promise of an epoch is being written: whether it is the second of the two, and the time of the first ping
    since."""
    overdue: Overdue = attrs.Factory(Overdue)
