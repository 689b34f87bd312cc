"""Preferred leaders: the first replica of a partition leads, so that leaders are spread as the assignment is.

elect     ElectLeaders of clients: of type preferred, and of type unclean for partitions without leader
balance   now and then: where more than a share of the partitions that a broker should lead are led by others, those
          that can go back go back
legacy    /admin/preferred_replica_election
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from zab.coordination.operations import Delete, ZooKeeperError
from zab.coordination.steps import Steps, look
from zab.kafka.errors import ErrorCode
from zab.partition.controller.fencing import write_until_known
from zab.partition.controller.leaders import Candidates, for_offline, for_preferred
from zab.partition.controller.partition_states import Strategy, bring_online
from zab.partition.controller.requests import Answer, ElectLeaders, Outcome
from zab.partition.controller.state import ControllerState, PartitionPhase
from zab.partition.controller.znodes import (
    PREFERRED_ELECTION,
    MalformedError,
    PartitionState,
    TopicPartition,
    decode_partitions,
)


def _preferred(state: ControllerState, partition: TopicPartition) -> Strategy:
    return for_preferred


def _uncleanly(state: ControllerState, partition: TopicPartition) -> Strategy:
    def strategy(of: Candidates) -> PartitionState | None:
        return for_offline(of, unclean=True)

    return strategy


def elect(state: ControllerState, asked: ElectLeaders) -> Steps[None]:
    """Without a list of partitions, those that need no election are not in the answer."""
    wanted = list(state.all_partitions()) if asked.partitions is None else list(dict.fromkeys(asked.partitions))
    problems = {each: _problem(state, each, asked.unclean) for each in wanted}
    able = [each for each, problem in problems.items() if problem is None]
    elected = yield from bring_online(state, able, _uncleanly if asked.unclean else _preferred)
    missing = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if asked.unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    outcomes = {}
    for partition, problem in problems.items():
        error = problem or (ErrorCode.NONE if partition in elected else missing)
        if asked.partitions is not None or error != ErrorCode.ELECTION_NOT_NEEDED:
            outcomes[partition] = Outcome(error)
    state.answer(Answer(asked.token, partitions=outcomes))


def _problem(state: ControllerState, partition: TopicPartition, unclean: bool) -> ErrorCode | None:
    current = state.partitions.get(partition)
    if not state.has(partition) or state.is_deleting(partition) or current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    has_leader = current.leader in state.brokers
    if has_leader if unclean else current.leader == state.assignment(partition).replicas[0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    return None


def balance(state: ControllerState) -> Steps[None]:
    """Give leaders back to brokers that lead less than their share."""
    should_lead: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in state.all_partitions():
        if not state.is_deleting(partition) and not state.assignment(partition).is_reassigned:
            should_lead[state.assignment(partition).replicas[0]].append(partition)
    for broker_id in sorted(set(should_lead) & state.alive):
        partitions = should_lead[broker_id]
        away = [each for each in partitions if each in state.partitions and state.partitions[each].leader != broker_id]
        if len(away) * 100 > state.settings.imbalance_percent_max * len(partitions):
            yield from _elect_preferred(state, away)


def _elect_preferred(state: ControllerState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    serving = (PartitionPhase.ONLINE, PartitionPhase.OFFLINE)
    yield from bring_online(state, [each for each in partitions if state.phase(each) in serving], _preferred)


def on_legacy_request(state: ControllerState) -> Steps[None]:
    """Somebody wrote /admin/preferred_replica_election. It is deleted when it is done."""
    found = yield from look(PREFERRED_ELECTION)
    if found is not None:
        try:
            asked = decode_partitions(PREFERRED_ELECTION, found.data)
        except MalformedError as error:
            state.report(str(error))
            asked = []
        able = [each for each in dict.fromkeys(asked) if _problem(state, each, unclean=False) is None]
        yield from _elect_preferred(state, able)
        result = yield from write_until_known(state, Delete(PREFERRED_ELECTION, found.stat.version))
        if not (result.is_missing or result.error == ZooKeeperError.BADVERSION):
            result.must(PREFERRED_ELECTION)
