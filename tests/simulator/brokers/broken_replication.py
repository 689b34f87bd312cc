"""Variants of replication that break a promise: the known mistakes of Kafka's history, one rule each."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartitionData
from zab.partition.controller import brokers, isr_changes, leaders, partition_states, replica_states
from zab.partition.controller.leaders import for_offline
from zab.partition.controller.requests import PartitionChange
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import PartitionState, TopicPartition
from zab.partition.log import incoming
from zab.partition.log.log import Log
from zab.partition.log.producers import Producers, ProducerState
from zab.partition.replica.follower import Follower, Next, Question
from zab.partition.replica.followers import FollowerState
from zab.partition.replica.in_sync_set import InSyncSet
from zab.partition.replica.leader import Leader, LogPosition
from zab.partition.replica.replica import Read, Reader, Replica
from zab.partition.requests.produce import Written

Patch = pytest.MonkeyPatch


def answer_diverging_followers_without_an_epoch(patch: Patch) -> None:
    """KIP-101 alone: the leader says where the next epoch begins, not which epoch ends there (KIP-279, S3)."""

    def diverging(replica: Replica, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        entries = replica.log.epochs.entries
        end = next((start for epoch, start in entries if epoch > last_fetched_epoch), replica.log.log_end)
        return (last_fetched_epoch, end) if end < offset else None

    patch.setattr(Replica, "_diverging", diverging)


def count_a_follower_whose_history_parts(patch: Patch) -> None:
    read_for = Replica.read_for

    def counting(replica: Replica, reader: Reader, offset: int, *rest: Any, **named: Any) -> Read:
        leader = replica.leader
        if leader is not None and offset <= replica.log.log_end:
            end = replica.log.log_end
            leader.fetched_by(
                *(reader.broker_id, reader.now),
                offset=offset,
                log_start=reader.log_start,
                leader_end=end,
                broker_epoch=reader.broker_epoch,
            )
        return read_for(replica, reader, offset, *rest, **named)

    patch.setattr(Replica, "read_for", counting)


def count_the_committed_set_alone(patch: Patch) -> None:
    """A follower that is being added does not count, although the controller may elect it already."""
    patch.setattr(InSyncSet, "maximal", property(lambda known: known.committed))


def count_a_proposed_shrink_at_once(patch: Patch) -> None:
    """A follower that is being removed does not count, although the controller may still elect it."""

    def maximal(known: InSyncSet) -> frozenset[int]:
        return known.committed if known.proposal is None else frozenset(known.proposal.isr)

    patch.setattr(InSyncSet, "maximal", property(maximal))


def join_at_the_high_watermark(patch: Patch) -> None:
    """KAFKA-7128: the mark of a new leader lags behind what was committed."""

    def is_level(leader: Leader, replica: int, own: LogPosition) -> bool:
        return leader._may_join(replica) and leader.followers[replica].log_end >= own.high_watermark

    patch.setattr(Leader, "_is_level", is_level)


def keep_the_epoch_of_a_leader_that_stays(patch: Patch) -> None:
    """Followers leave the set without a new leader epoch. No mistake alone: broker epochs tell lives apart."""
    without, without_unclean = leaders.without, leaders.without_unclean

    def kept(of: leaders.Candidates, after: PartitionState | None) -> PartitionState | None:
        if after is None or after.leader != of.state.leader:
            return after
        return attrs.evolve(after, leader_epoch=of.state.leader_epoch)

    patch.setattr(replica_states, "without", lambda of, gone: kept(of, without(of, gone)))
    patch.setattr(brokers, "without_unclean", lambda of, gone: kept(of, without_unclean(of, gone)))


def take_former_lives_for_the_present_one(patch: Patch) -> None:
    """Nobody compares broker epochs (KAFKA-14139): what a follower had before its disk was replaced lets it join. Here
    the new leader epoch that comes of its end prevents that as well, so both are taken out."""
    fetched = FollowerState.fetched

    def ageless(follower: FollowerState, now: int, offset: int, log_start: int, end: int, _epoch: int) -> bool:
        return fetched(follower, now, max(offset, follower.log_end), log_start, end, 0)

    def may_join(leader: Leader, replica: int) -> bool:
        return replica in leader.state.broker_epochs and replica not in leader.state.removing

    keep_the_epoch_of_a_leader_that_stays(patch)
    patch.setattr(FollowerState, "fetched", ageless)
    patch.setattr(Leader, "_may_join", may_join)
    patch.setattr(Leader, "_epoch_of", lambda leader, replica: -1)


def change_the_set_whatever_its_epoch(patch: Patch) -> None:
    """AlterPartition without a partition epoch: a proposal that is late is written over a newer state (KAFKA-2729)."""
    checked = isr_changes.checked

    def ageless(
        state: ControllerState, sender: int, partition: TopicPartition, current: PartitionState, change: PartitionChange
    ) -> ErrorCode | None:
        newer = max(change.partition_epoch, current.partition_epoch)
        return checked(state, sender, partition, current, attrs.evolve(change, partition_epoch=newer))

    patch.setattr(isr_changes, "checked", ageless)


def raise_the_mark_with_too_few_in_sync(patch: Patch) -> None:
    """The mark rises below min.insync.replicas, although who has left the set is eligible as a leader (KIP-966)."""
    high_watermark = Leader.high_watermark

    def risen(leader: Leader, now: int, own: LogPosition, _min_in_sync: int) -> int:
        state = leader.state
        leader.state = attrs.evolve(state, min_isr=1)
        mark = high_watermark(leader, now, own, 1)
        leader.state = state
        return mark

    patch.setattr(Leader, "high_watermark", risen)


def complete_a_produce_on_a_deposed_leader(patch: Patch) -> None:
    """What waits when the leader is deposed is answered once the mark of the follower has passed it."""
    error = Written.error

    def found(written: Written) -> ErrorCode | None:
        leader = written.replica.leader
        if leader is not None and leader.epoch == written.epoch:
            return error(written)
        is_passed = written.replica.log.high_watermark > written.appended.last_offset
        return ErrorCode.NONE if is_passed else None

    patch.setattr(Written, "error", found)


def take_the_mark_from_an_answer_that_parts(patch: Patch) -> None:
    """KAFKA-14704: the mark is raised before the log is cut."""
    take = Follower.take

    def hasty(follower: Follower, asked: Question, data: FetchPartitionData, wall_ms: int) -> Next:
        log = follower.replica.log
        if data.diverging_epoch.epoch >= 0 and follower.is_current and log.log_end == asked.offset:
            log.update_high_watermark(data.high_watermark)
            return Next.AT_ONCE if log.high_watermark > asked.offset else take(follower, asked, data, wall_ms)
        return take(follower, asked, data, wall_ms)

    patch.setattr(Follower, "take", hasty)


def forget_an_epoch_without_records(patch: Patch) -> None:
    """KAFKA-7415: a leader notes its epoch with its first record."""
    patch.setattr(Log, "begin_epoch", lambda log, epoch: None)


def keep_producers_of_what_was_cut(patch: Patch) -> None:
    """KAFKA-10832: what was cut still counts as a duplicate when it is sent again."""
    patch.setattr(Producers, "truncate", lambda producers, offset: None)


def remember_one_batch_of_a_producer(patch: Patch) -> None:
    """What is sent again is looked for in the last batch alone, of five under way."""
    check = incoming.check

    def forgetful(state: ProducerState | None, *rest: Any, **named: Any) -> Any:
        return check(None if state is None else attrs.evolve(state, batches=state.batches[-1:]), *rest, **named)

    patch.setattr(incoming, "check", forgetful)


def count_what_a_follower_has_not_stored(patch: Patch) -> None:
    """A follower fetches from its end before that is on its disk."""
    patch.setattr(Follower, "is_stored", property(lambda follower: True))


def elect_who_is_not_in_sync(patch: Patch) -> None:
    """Any replica that lives may lead."""

    def for_all(of: leaders.Candidates, *, unclean: bool) -> PartitionState | None:
        return for_offline(of, unclean=True)

    patch.setattr(partition_states, "for_offline", for_all)


def trust_who_stopped_uncleanly(patch: Patch) -> None:
    """KIP-966: a broker that lost the end of its logs stays in the set of those in sync."""
    patch.setattr(brokers, "without_unclean", lambda of, unclean: None)


def change_leaders_without_an_epoch(patch: Patch) -> None:
    """The next leader has the epoch of the former one."""
    patch.setattr(leaders, "with_leader", lambda state, leader: attrs.evolve(state, leader=leader))
