"""What the simulator may take away from an ensemble: nothing that no ensemble of that size could bear."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.epochs import DIRECTORY, MEMBER, MemberRecord, save_member
from datatree.log.segment import log_files, log_path
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.snapshot import SnapshotWriter
from zab.configuration.dynamic import parse_dynamic
from zab.configuration.properties import Property
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority
from zab.simulator.ensemble.faults.losses import Losses
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.spoiled import is_spoiled_on_disk, spoil
from zab.simulator.ensemble.scope import Scope
from zab.simulator.ensemble.simulation import Simulation


def three() -> tuple[Losses, list[MemberProcess]]:
    """The members of an ensemble that is whole."""
    simulation = Simulation(1, scope=Scope(members=3, faults=()))
    simulation.run()
    return Losses(simulation.ensemble), simulation.ensemble.processes


def may(losses: Losses, processes: list[MemberProcess]) -> tuple[list[bool], list[bool]]:
    """For each member: whether the others can do without it; whether they would notice that its tree is wrong."""
    machines = [process.machine for process in processes]
    return [losses.may_do_without(each) for each in machines], [losses.may_be_wrong(each) for each in machines]


def begin_another_lineage(process: MemberProcess) -> None:
    """As after a first start that nobody else was in."""
    save_member(process.machine.disk, MemberRecord(bytes(LINEAGE_BYTES), process.sid))


def make_wrong(process: MemberProcess) -> None:
    process.judges.spoiled_by.add(spoil(process.member.tree))


def test_of_three_any_one_may_be_lost_or_wrong() -> None:
    assert may(*three()) == ([True] * 3, [True] * 3)


def test_while_one_is_wrong_only_that_one_may_be_lost() -> None:
    """A member that lost its copy could get a copy of the wrong one."""
    losses, processes = three()
    make_wrong(processes[0])
    assert may(losses, processes) == ([True, False, False], [True, False, False])


def test_copy_of_a_wrong_tree_is_as_wrong() -> None:
    losses, processes = three()
    make_wrong(processes[0])
    tree, disk = processes[0].member.tree, processes[0].machine.disk
    SnapshotWriter(disk, tree.begin_snapshot(), processes[0].peer.lineage, bytes(16)).write()
    before = disk.operations
    assert is_spoiled_on_disk(disk)
    assert disk.operations == before, "nobody notices that it is looked at"
    assert not is_spoiled_on_disk(processes[1].machine.disk)
    processes[0].machine.stop(with_power=False)
    assert may(losses, processes) == ([True, False, False], [True, False, False])


@pytest.mark.parametrize("harm", ["full", "damaged", "wiped", "down"])
def test_while_one_cannot_go_on_the_others_have_to_be_right(harm: str) -> None:
    losses, processes = three()
    machine = processes[0].machine
    if harm == "full":
        machine.fill(0)
    elif harm == "damaged":
        machine.damaged.add("version-1/log.1")
    else:
        machine.stop(with_power=False)
        if harm == "wiped":
            machine.lose_everything()
    alone = [True, False, False]
    assert may(losses, processes) == ([True] * 3 if harm == "down" else alone, alone)


def test_who_is_of_another_lineage_is_no_help_to_the_others() -> None:
    losses, processes = three()
    begin_another_lineage(processes[0])
    assert may(losses, processes) == ([True, False, False], [True, False, False])


def test_what_only_a_member_of_another_lineage_holds_may_not_be_forgotten() -> None:
    losses, processes = three()
    machines = [process.machine for process in processes]
    assert [losses.may_forget(each) for each in machines] == [True] * 3
    begin_another_lineage(processes[0])
    assert [losses.may_forget(each) for each in machines] == [False] * 3


def test_who_needs_a_snapshot_of_a_wrong_tree_does_not_find_it_out() -> None:
    losses, processes = three()
    disk = processes[0].machine.disk
    for first in log_files(disk):
        disk.remove(log_path(first))
    disk.replace(log_path(processes[1].durable + 1), b"")
    assert may(losses, processes) == ([True] * 3, [False, True, True])


def test_what_is_outstanding_or_asked_for_has_its_say() -> None:
    losses, processes = three()
    configurations = processes[0].judges.configurations
    both = Majority(frozenset({ServerId(1), ServerId(2)}))
    configurations.outstanding[1 << 40] = Membership(Zxid(1 << 40), both, both.voters)
    assert may(losses, processes)[0] == [False, False, True]
    configurations.outstanding.clear()
    configurations.ask(Membership(BEFORE_ALL, both, both.voters))
    assert may(losses, processes)[0] == [False, False, True]


def test_nothing_is_asked_for_that_needs_a_disk_that_is_lost() -> None:
    losses, processes = three()
    both = Majority(frozenset({ServerId(1), ServerId(2)}))
    assert losses.may_ask_for(both)
    processes[0].machine.stop(with_power=True)
    processes[0].machine.lose_everything()
    assert not losses.may_ask_for(both)


def test_nor_that_needs_one_that_has_nothing_yet() -> None:
    losses, processes = three()
    needed = Majority(frozenset({ServerId(2), ServerId(3)}))
    processes[1].machine.disk.remove(f"{DIRECTORY}/{MEMBER}")
    assert losses.may_ask_for(needed), "all of them are given what they need"
    processes[0].machine.stop(with_power=True)
    processes[0].machine.lose_everything()
    assert not losses.may_ask_for(needed)


def test_nobody_is_installed_with_a_file_by_which_it_would_begin_by_itself() -> None:
    losses, processes = three()
    machine = processes[0].machine
    alone = parse_dynamic([Property("server.1", "10.0.0.1:2888:3888", 0)])
    assert losses.may_be_installed(machine, machine.config)
    assert not losses.may_be_installed(machine, attrs.evolve(machine.config, ensemble=alone))
