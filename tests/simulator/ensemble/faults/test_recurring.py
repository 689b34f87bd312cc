"""Whole members whose lineages end by an operator's hand, and begin again."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.epochs import DIRECTORY, MEMBER
from datatree.log.segment import log_files
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol.states import BROADCAST, LEADING
from zab.simulator.ensemble.faults.context import EnsembleFaultContext
from zab.simulator.ensemble.faults.lineages import put_right
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.scope import Scope
from zab.simulator.ensemble.simulation import Simulation, run
from zab.simulator.world.verdict import SafetyError

RECURRING = Scope(focus="recurring")
NEXT = bytes(range(16))


@pytest.mark.slow
def test_lineages_that_end_and_begin_keep_every_promise() -> None:
    counts: Counter[str] = Counter()
    for seed in range(5):
        counts.update(run(seed, scope=RECURRING).counts)
    assert counts["fault: restore"] > 2
    assert counts["fault: recover"] > 2
    assert counts["lineages ended"] == counts["fault: restore"] + counts["fault: recover"]
    assert counts["snapshots taken that were given"] > 3
    assert counts["writes acknowledged"] > 100


def test_runs_of_this_kind_are_repeatable() -> None:
    first, again = (run(2, scope=RECURRING).hash for _ in range(2))
    assert first == again


def three() -> Simulation:
    """Members of an ensemble that is whole, before its run is judged."""
    simulation = Simulation(1, scope=Scope(members=3, faults=()))
    simulation._run()
    return simulation


def end_lineage(simulation: Simulation) -> History:
    """Another one begins with all that there is."""
    observer = simulation.observer
    history = observer.history
    position = history.zxids[-1], history.chains[-1]
    following = history.next(list(history.txns.values()), position, keeps_epochs=True)
    observer.begin_lineage(NEXT, following, observer.configurations.newest)
    return following


def test_what_begins_a_lineage_is_what_its_transactions_make() -> None:
    simulation = three()
    before = simulation.observer.history
    following = end_lineage(simulation)
    assert following.model.znodes == before.model.znodes
    assert following.end == following.beginning == before.end
    assert following.has_reached((before.zxids[-1], before.chains[-1]))
    assert not following.has_reached((before.zxids[-2], before.chains[-2]))


def test_no_epoch_is_led_again_by_another_one() -> None:
    simulation = three()
    [*epochs] = simulation.observer.history.primaries
    following = end_lineage(simulation)
    with pytest.raises(SafetyError, match="leadership"):
        following.leads((9, 1), epochs[0])


def test_nobody_serves_in_a_lineage_that_is_over() -> None:
    simulation = three()
    leader = simulation.ensemble.leader
    assert leader is not None
    observer = simulation.observer
    assert not observer.is_over(leader)
    end_lineage(simulation)
    assert observer.is_over(leader)
    assert observer.durable(leader.sid) == 0, "what it has on its disk counts for nothing now"
    with pytest.raises(SafetyError, match="a lineage that is over serves nobody"):
        observer.peer_stepped(leader, ev.TimePassed(), [fx.RoleChanged(LEADING, BROADCAST, leader.sid, True)])


def test_who_comes_to_lead_by_the_last_words_of_those_that_were_stopped_for_the_end_of_a_lineage_serves_nobody() -> (
    None
):
    simulation = three()
    leader = simulation.ensemble.leader
    assert leader is not None
    end_lineage(simulation)
    for machine in simulation.ensemble.machines.values():
        if machine.number != leader.sid:
            machine.stop(with_power=True)
    simulation.observer.peer_stepped(leader, ev.TimePassed(), [fx.RoleChanged(LEADING, BROADCAST, leader.sid, True)])


def test_once_the_faults_are_over_who_is_not_of_the_lineage_that_counts_has_an_empty_disk() -> None:
    simulation = three()
    context = EnsembleFaultContext(simulation.ensemble, Random(1))
    amnesiac, over, given = simulation.ensemble.machines.values()
    put_right(context)
    assert len(simulation.ensemble.processes) == 3, "no lineage has ended"
    end_lineage(simulation)
    amnesiac.disk.remove(f"{DIRECTORY}/{MEMBER}")
    amnesiac.disk.sync_directory(DIRECTORY)
    given.given = simulation.observer.lineage
    assert over.lineage is not None
    put_right(context)
    assert [machine.is_wiped for machine in (amnesiac, over, given)] == [True, True, False]
    assert [process.machine for process in simulation.ensemble.processes] == [given]
    assert not log_files(amnesiac.disk)


def test_who_was_given_a_snapshot_in_a_lineage_that_is_over_has_an_empty_disk() -> None:
    simulation = three()
    end_lineage(simulation)
    given = simulation.ensemble.machines[1]
    given.given = bytes(LINEAGE_BYTES)
    put_right(EnsembleFaultContext(simulation.ensemble, Random(1)))
    assert given.is_wiped
    assert not log_files(given.disk)


def test_clients_begin_anew_and_znodes_that_are_there_are_not_recorded() -> None:
    simulation = three()
    end_lineage(simulation)
    recorder = simulation.observer.recorder
    assert not recorder.records
    paths = {path.decode() for path in simulation.observer.history.model.paths()}
    recorder.finish(simulation.observer.history)
    assert not {record.path for record in recorder.records} & paths
    for client in simulation.clients:
        client.begin_anew()
        assert (client.session, client.checker.seen) == (0, 0)
