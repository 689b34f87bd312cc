"""Changes of in-sync sets: gathered from the leaders of this broker, and asked of the controller, many at a time.

    look(replica)       something happened to it: a follower may have caught up
    look_for_lag(now)   members that lag leave; due every half `replica.lag.time.max.ms`
    send()              asks for all that is proposed, unless a request is on its way

One request is on its way at a time. What an answer says of each partition, the leader decides (`in_sync_set`): it has
the controller's state now, or was refused, or waits for a newer state. What nobody knows the fate of is asked again,
and what was refused is proposed again, both after `AGAIN_MS`: the reason may last, as while a broker shuts down.

Source: KIP-497.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import uuid_text
from zab.partition.controller.requests import AlterPartition, Answer, PartitionChange, PartitionOutcome
from zab.partition.replica.in_sync_set import Fate, Proposal
from zab.partition.replica.leader import Leader
from zab.partition.replica.replica import Replica
from zab.partition.requests.asking_controller import AskingController

AGAIN_MS: Final = 500
NEVER: Final = 1 << 62


@attrs.define(eq=False)
class _Proposed:
    """A change that a leader proposes."""

    replica: Replica
    leader: Leader
    proposal: Proposal
    again_at: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether the leader still waits for it."""
        return self.replica.led is self.leader and self.leader.in_sync.proposal is self.proposal


class Proposals:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(
        self,
        controller: AskingController,
        who: Callable[[], tuple[int, int]],
        touched: Callable[[Replica], None],
        lag_max_ms: int,
        now: int,
    ) -> None:
        """`who`: the id and the epoch of this broker. `touched` is given replicas whose in-sync set has changed."""
        self._controller = controller
        self._who = who
        self._touched = touched
        self._every_ms = max(1, lag_max_ms // 2)
        self._look_at = now + self._every_ms
        self._proposed: dict[Replica, _Proposed] = {}
        self._pauses: dict[Replica, int] = {}
        """Until when nothing is proposed for a partition whose last proposal was refused."""
        self._is_asking = False
        self.shrink_count = 0
        self.expand_count = 0
        self.failed_count = 0

    # ------------------------------------------------------------------------------------------------------ proposing

    def look(self, replica: Replica, now: int, *, for_lag: bool = False) -> None:
        """Take what the leader of this replica proposes, if this broker leads it."""
        leader = replica.leader
        if leader is None or self._pauses.get(replica, 0) > now:
            return
        self._pauses.pop(replica, None)
        proposal = leader.proposal(now, replica.position, looks_for_lag=for_lag)
        if proposal is not None:
            self._proposed[replica] = _Proposed(replica, leader, proposal)

    def keep_up(self, replicas: Iterable[Replica], now: int) -> None:
        """Do what is due: look for lag, and for what was refused before."""
        if now >= self._look_at:
            self._look_at = now + self._every_ms
            for replica in replicas:
                self.look(replica, now, for_lag=True)
        for replica in [replica for replica, until in self._pauses.items() if until <= now]:
            self.look(replica, now)
            self._pauses.pop(replica, None)

    def next_deadline(self) -> int:
        """When `keep_up` or `send` have something to do although nothing happens."""
        again = min((each.again_at for each in self._proposed.values()), default=NEVER)
        return min(self._look_at, again if not self._is_asking else NEVER, *self._pauses.values(), NEVER)

    # --------------------------------------------------------------------------------------------------------- asking

    def send(self, now: int) -> None:
        """Ask for what is proposed."""
        if self._is_asking or not self._proposed:
            return
        self._proposed = {replica: each for replica, each in self._proposed.items() if each.is_under_way}
        sent = [each for each in self._proposed.values() if each.again_at <= now]
        if not sent:
            return
        topics: dict[str, tuple[PartitionChange, ...]] = {}
        for each in sent:
            proposal, topic_id = each.proposal, uuid_text(each.replica.topic_id)
            change = PartitionChange(
                each.replica.index,
                proposal.leader_epoch,
                proposal.partition_epoch,
                tuple(zip(proposal.isr, proposal.broker_epochs, strict=True)),
            )
            topics[topic_id] = (*topics.get(topic_id, ()), change)
            each.again_at = NEVER
        self._is_asking = True
        self._controller.ask(
            lambda token: AlterPartition(token, *self._who(), topics), lambda answer: self._answered(sent, answer)
        )

    def _answered(self, sent: list[_Proposed], answer: Answer) -> None:
        self._is_asking = False
        now = self._controller.now
        for each in sent:
            outcome = (answer.states or {}).get((uuid_text(each.replica.topic_id), each.replica.index))
            if answer.error is not ErrorCode.NONE or outcome is None:
                each.again_at = now + AGAIN_MS
            elif each.is_under_way:
                self._decide(each, outcome, now)

    def _decide(self, proposed: _Proposed, outcome: PartitionOutcome, now: int) -> None:
        replica, leader, state = proposed.replica, proposed.leader, outcome.state
        if outcome.error is ErrorCode.NONE and state is not None:
            if state.leader_epoch == leader.epoch:
                self._count(len(leader.state.isr), len(state.isr))
                known = attrs.evolve(
                    leader.state,
                    isr=state.isr,
                    partition_epoch=state.partition_epoch,
                    is_recovering=state.recovering,
                    min_isr=outcome.min_isr,
                )
                replica.take_state(known, now)
                self._touched(replica)
            return
        self.failed_count += 1
        fate = leader.refused(proposed.proposal, outcome.error)
        if fate is Fate.UNDONE:
            self._pauses[replica] = now + AGAIN_MS
            self._touched(replica)
        elif fate is Fate.SEND_AGAIN:
            proposed.again_at = now + AGAIN_MS

    def _count(self, before: int, after: int) -> None:
        """The controller has written another in-sync set, of so many replicas."""
        self.shrink_count += after < before
        self.expand_count += after > before
