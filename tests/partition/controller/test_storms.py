"""Random runs: two to four brokers compete, answers are lost, sessions expire at any operation, tools write beside
them.

The judges see each write; after each run everything has to come to rest where it should.
"""

from collections import Counter

import pytest

from tests.partition.controller.storms import run
from zab.partition.controller.effects import PartitionStates, Resigned, ToBroker
from zab.partition.controller.requests import Answer


@pytest.mark.parametrize("seed", range(40))
def test_short_storms(seed):
    run(seed, brokers=2 + seed % 3)


@pytest.mark.parametrize("seed", range(100, 108))
def test_long_storms(seed):
    run(seed, brokers=3 + seed % 2, steps=3000)


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [1000, *(pytest.param(start, marks=pytest.mark.longest) for start in (1025, 1050, 1075))]
)
def test_many_storms(start):
    for seed in range(start, start + 25):
        run(seed, brokers=3, steps=900)


def test_a_seed_is_the_same_run_each_time():
    first, second = run(5), run(5)
    assert [str(each) for each in first.effects] == [str(each) for each in second.effects]
    assert first.tree.zxid == second.tree.zxid


@pytest.mark.slow
def test_storms_reach_what_they_are_for():
    """What never happens in them is not tested by them."""
    seen = Counter()
    for seed in range(40):
        for _, effect in run(seed, brokers=2 + seed % 3, steps=1500).effects:
            seen.update(_noted(effect))
    assert {name for name in EXPECTED if not seen[name]} == set()


EXPECTED = {
    *("resigned: the check of", "resigned: the session expired", "elr", "last known", "recovering", "no leader"),
    *("NOT_CONTROLLER", "STALE_BROKER_EPOCH", "REQUEST_TIMED_OUT", "FENCED_LEADER_EPOCH", "INVALID_UPDATE_VERSION"),
    *("INELIGIBLE_REPLICA", "NO_REASSIGNMENT_IN_PROGRESS", "PREFERRED_LEADER_NOT_AVAILABLE", "TOPIC_ALREADY_EXISTS"),
    *("REASSIGNMENT_IN_PROGRESS", "INVALID_REPLICA_ASSIGNMENT", "reassigned", "deleted"),
}


def _noted(effect):
    if isinstance(effect, Resigned):
        yield f"resigned: {' '.join(effect.reason.split()[:3])}"
    elif isinstance(effect, Answer):
        yield effect.error.name
        for outcomes in (effect.topics, effect.partitions, effect.states):
            yield from (each.error.name for each in (outcomes or {}).values())
    elif isinstance(effect, ToBroker) and isinstance(effect.message, PartitionStates):
        yield from ["deleted"] * len(effect.message.removed)
        for topic in effect.message.topics:
            for update in topic.partitions:
                found = update.state
                names = {
                    "elr": found.elr,
                    "last known": found.last_known_elr,
                    "recovering": found.recovering,
                    "no leader": found.leader == -1,
                    "reassigned": update.assignment.is_reassigned,
                }
                yield from (name for name, holds in names.items() if holds)
