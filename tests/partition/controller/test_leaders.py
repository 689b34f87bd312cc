"""The leader of a partition, and its ISR after an election: the strategies and the sets of KIP-966, as pure
functions."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.controller.leaders import (
    Candidates,
    for_offline,
    for_preferred,
    for_reassigned,
    for_shutdown,
    with_isr,
    without,
    without_unclean,
)
from zab.partition.controller.znodes import NO_LEADER, PartitionState

REPLICAS = (1, 2, 3)


def of(isr, alive, *, leader=NO_LEADER, elr=(), known=(), min_isr=1, replicas=REPLICAS):
    state = PartitionState(leader=leader, leader_epoch=7, isr=isr, elr=elr, last_known_elr=known)
    return Candidates(replicas=replicas, state=state, alive=frozenset(alive), min_isr=min_isr)


def facts(state):
    return None if state is None else (state.leader, state.leader_epoch, state.isr, state.elr, state.last_known_elr)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (of((1, 2, 3), {2, 3}), (2, 8, (2, 3), (), ())),
        # In the order of the replicas, not of the ISR.
        (of((3, 2), {1, 2, 3}), (2, 8, (3, 2), (), ())),
        # Somebody who is alive but not in sync does not lead.
        (of((1,), {2, 3}), None),
        # Those that leave the ISR below min ISR had everything.
        (of((1, 2), {2}, min_isr=2), (2, 8, (2,), (1,), ())),
        # ISR dead, ELR alive (S12).
        (of((1,), {3, 2}, elr=(3, 2), min_isr=2), (2, 8, (2,), (1, 3), ())),
        (of((), {3}, elr=(3,), known=(1,), min_isr=2), (3, 8, (3,), (), (1,))),
        (of((1,), set()), None),
    ],
)
def test_an_offline_partition_gets_the_first_that_has_everything(candidates, expected):
    assert facts(for_offline(candidates)) == expected


def test_an_unclean_election_begins_a_new_line():
    found = for_offline(of((1,), {3, 2}, min_isr=2), unclean=True)
    assert facts(found) == (2, 8, (2,), (), (1,))
    assert found.recovering
    # Clean candidates go first, then those that once had everything.
    assert not for_offline(of((1, 3), {3, 2}), unclean=True).recovering
    assert for_offline(of((1,), {3, 2}, known=(3,), min_isr=2), unclean=True).leader == 3
    assert for_offline(of((1,), set()), unclean=True) is None


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (of((1, 2), {1, 2}), (1, 8, (1, 2), (), ())),
        (of((2, 3), {1, 2, 3}, leader=2), None),
        (of((1, 2), {2}, leader=2), None),
    ],
)
def test_the_preferred_leader_leads_if_it_is_alive_and_in_sync(candidates, expected):
    assert facts(for_preferred(candidates)) == expected


def test_a_reassigned_partition_keeps_its_leader_if_that_is_a_target():
    candidates = of((1, 2, 3), {1, 2, 3}, leader=3, replicas=(2, 3))
    assert facts(for_reassigned(candidates, (2, 3))) == (3, 8, (2, 3), (), ())
    assert facts(for_reassigned(of((1, 2, 3), {1, 2, 3}, leader=1, replicas=(2, 3)), (2, 3))) == (2, 8, (2, 3), (), ())
    assert for_reassigned(of((1,), {1, 2, 3}, leader=1, replicas=(2, 3)), (2, 3)) is None
    assert for_reassigned(of((1, 2), {1}, leader=1, replicas=(2, 3)), (2, 3)) is None


def test_a_broker_that_shuts_down_leaves_the_isr():
    candidates = of((1, 2, 3), {2, 3}, leader=1)
    assert facts(for_shutdown(candidates, {1})) == (2, 8, (2, 3), (), ())
    assert for_shutdown(of((1,), {2, 3}, leader=1), {1}) is None
    assert facts(for_shutdown(of((1, 2), {2}, leader=1, min_isr=2), {1})) == (2, 8, (2,), (1,), ())


def test_the_isr_never_becomes_empty_because_brokers_die():
    assert facts(without(of((1, 2), set(), leader=1), {1, 2})) == (NO_LEADER, 8, (1, 2), (), ())
    assert facts(without(of((1, 2), {2}, leader=2), {1})) == (2, 8, (2,), (), ())
    assert without(of((2, 3), {2}, leader=2), {1}) is None


@pytest.mark.parametrize(
    ("candidates", "unclean", "expected"),
    [
        (of((1, 2), {1, 2}, leader=1, min_isr=2), {2}, (1, 8, (1,), (), (2,))),
        (of((1,), {1}, leader=1, elr=(2, 3), min_isr=2), {1}, (NO_LEADER, 8, (), (2, 3), (1,))),
        (of((1,), {1}, leader=1, elr=(2, 3), min_isr=2), {2}, (1, 8, (1,), (3,), (2,))),
        # Nobody else has more.
        (of((1,), {1}, leader=1), {1}, None),
        (of((1,), {1}, elr=(2,), min_isr=2), {1, 2}, None),
        (of((1, 2), {1}, leader=1), {3}, None),
    ],
)
def test_an_unclean_replica_is_taken_out_unless_it_is_the_last(candidates, unclean, expected):
    assert facts(without_unclean(candidates, frozenset(unclean))) == expected


SETS = [tuple(each) for size in range(4) for each in combinations(REPLICAS, size)]


@given(st.sampled_from(SETS), st.sampled_from(SETS), st.sampled_from(SETS), st.sampled_from(SETS), st.integers(1, 3))
def test_isr_and_elr_are_valid_after_any_change(before, elr, isr, unclean, min_isr):
    """ValidControllerIsrAndElr, and nobody that was complete is forgotten below min ISR."""
    state = PartitionState(1, 0, before, elr=tuple(each for each in elr if each not in before))
    found = with_isr(state, isr, replicas=REPLICAS, min_isr=min_isr, unclean=frozenset(unclean))
    assert not set(found.isr) & set(found.elr)
    assert found.isr == isr
    if len(isr) >= min_isr:
        assert (found.elr, found.last_known_elr) == ((), ())
    else:
        assert state.quorum - set(unclean) - set(isr) == set(found.elr)
        assert state.quorum - set(isr) == set(found.elr) | set(found.last_known_elr)


@given(st.sampled_from(SETS[1:]), st.sampled_from(SETS), st.sampled_from(SETS), st.integers(1, 3))
def test_only_the_complete_are_elected(isr, elr, alive, min_isr):
    """LeaderCandidateCompletenessProperty, as far as the controller decides it."""
    candidates = of(isr, alive, elr=tuple(each for each in elr if each not in isr), min_isr=min_isr)
    found = for_offline(candidates)
    able = set(alive) & candidates.state.quorum
    assert (found is None) == (not able)
    if found is not None:
        assert found.leader in able
        assert found.leader in found.isr
        assert set(found.isr) <= set(alive)
