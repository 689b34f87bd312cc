"""Faults of running members.

    wrong_tree                a tree in memory becomes wrong, while a quorum has the right one; sometimes the snapshots
                              of that member are also unreadable until its restart
    race                      the next member that enters discovery or synchronization ends, stops or loses a connection
                              there

`faults` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Final

from datatree.snapshot import snapshot_files, snapshot_path
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.spoiled import is_spoiled, spoil
from zab.simulator.world.network_faults import block
from zab.simulator.world.process_faults import CALLS_MAX

LOST_EVERY: Final = 3
"""One in this many members with a wrong tree also cannot read its snapshots until its restart."""


def wrong_tree(context: EnsembleFaultContext) -> bool:
    possible = [process for process in context.ensemble.processes if _may_become_wrong(context, process)]
    if not possible:
        return False
    process = context.ensemble.process(context.victim().number)
    if process not in possible:
        process = context.rng.choice(possible)
    machine, tree, digests = process.machine, process.member.tree, process.member.digests
    context.ensemble.observer.spoiled_by.add(spoil(tree))
    digests.clear()
    digests.record(tree.applied, tree.digest)
    if tree.applied % LOST_EVERY == 0:
        for zxid in snapshot_files(machine.disk):
            machine.disk.fail_reads(snapshot_path(zxid))
    return True


def _may_become_wrong(context: EnsembleFaultContext, process: MemberProcess) -> bool:
    tree = process.member.tree
    again = tree.applied in process.member.trees.check.repaired  # a second time would end the member, by its own rules
    may = not again and not is_spoiled(tree) and tree.cursor is None
    return may and context.losses.may_be_wrong(process.machine)


def race(context: EnsembleFaultContext) -> bool:
    processes = context.ensemble.processes
    rng = Random(context.rng.getrandbits(64))

    def accident(process: MemberProcess) -> None:
        for other in processes:
            other.ambush = None
        context.ensemble.observer.count("accidents in discovery")
        rng.choice(_ACCIDENTS)(context, process, rng)

    for process in processes:
        process.ambush = partial(accident, process)
    return bool(processes)


def _ends(context: EnsembleFaultContext, process: MemberProcess, rng: Random) -> None:
    process.calls_left = rng.randrange(CALLS_MAX)


def _loses_power(context: EnsembleFaultContext, process: MemberProcess, rng: Random) -> None:
    process.machine.disk.crash_after(rng.randrange(1, 12))


def _stands_still(context: EnsembleFaultContext, process: MemberProcess, rng: Random) -> None:
    process.pause(int(context.profile.tick_us * 2 * context.profile.init_limit * rng.random() ** 2))


def _loses_a_connection(context: EnsembleFaultContext, process: MemberProcess, rng: Random) -> None:
    other = rng.choice([sid for sid in context.profile.sids if sid != process.sid])
    delay = int(context.profile.latency_us * 4 * rng.random())
    process.later(delay, process.links.break_off_all, other)


def _is_cut_off_from_one(context: EnsembleFaultContext, process: MemberProcess, rng: Random) -> None:
    other = rng.choice([sid for sid in context.profile.sids if sid != process.sid])
    block(context, [(process.sid, other), (other, process.sid)])


_ACCIDENTS: Final = (_ends, _loses_power, _stands_still, _loses_a_connection, _is_cut_off_from_one)


MEMBER_FAULTS: Final[Mapping[str, Cause]] = {
    "wrong_tree": wrong_tree,
    "race": race,
}
