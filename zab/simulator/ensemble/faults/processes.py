"""What happens to processes, their machines and clocks, and their trees in memory.

    kill, power, blackout     the process of a member ends; its machine loses its power; all machines do
    outage                    a machine stays down for long, so that the others go on without it
    kill_at_effect            a process ends in the middle of a turn: between two calls of its ports
    pause                     a process stands still, up to several times syncLimit
    wall_jump                 a wall clock is set forward or back, by up to years
    wrong_tree                a tree in memory becomes another one, as long as a quorum has the right one; sometimes no
                              snapshot of that member can be read, either, until it is started again
    race                      the next member that comes into discovery or synchronization ends, stands still or loses a
                              connection there

`faults` says when.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Final

from datatree.snapshot import snapshot_files, snapshot_path
from zab.simulator.ensemble.faults.context import Cause, FaultContext
from zab.simulator.ensemble.faults.networks import block
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.spoiled import is_spoiled, spoil

YEAR_MS: Final = 365 * 86_400_000
LOST_EVERY: Final = 3
"""A member whose tree is wrong cannot read its snapshots either, one time in so many, until it is started again."""
CALLS_MAX: Final = 16
"""A process that is to end in the middle of a turn ends within so many calls of ports."""


def kill(context: FaultContext) -> bool:
    context.victim().stop(with_power=False)
    return True


def power(context: FaultContext) -> bool:
    context.victim().stop(with_power=True)
    return True


def blackout(context: FaultContext) -> bool:
    for machine in context.ensemble.machines.values():
        machine.stop(with_power=True)
    return True


def outage(context: FaultContext) -> bool:
    machine = context.victim()
    machine.stays_down = True
    machine.stop(with_power=True)

    def repair() -> None:
        machine.stays_down = False
        machine.start()

    context.mend_after(int(context.profile.tick_us * 25 * context.rng.random()), repair)
    return True


def kill_at_effect(context: FaultContext) -> bool:
    process = context.ensemble.process(context.victim().number)
    if process is not None:
        process.calls_left = context.rng.randrange(CALLS_MAX)
    return process is not None


def pause(context: FaultContext) -> bool:
    process = context.ensemble.process(context.victim().number)
    if process is not None:
        process.pause(context.ticks(3 * context.profile.sync_limit))
    return process is not None


def wall_jump(context: FaultContext) -> bool:
    context.victim().wall_offset_ms += context.rng.choice((-1, 1)) * context.rng.choice(
        (50, 5_000, 3_600_000, 10 * YEAR_MS)
    )
    return True


def wrong_tree(context: FaultContext) -> bool:
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


def _may_become_wrong(context: FaultContext, process: MemberProcess) -> bool:
    tree = process.member.tree
    again = tree.applied in process.member.check.repaired  # that is the end of a member, by its own rules
    may = not again and not is_spoiled(tree) and tree.cursor is None
    return may and context.losses.may_be_wrong(process.machine)


def race(context: FaultContext) -> bool:
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


def _ends(context: FaultContext, process: MemberProcess, rng: Random) -> None:
    process.calls_left = rng.randrange(CALLS_MAX)


def _loses_power(context: FaultContext, process: MemberProcess, rng: Random) -> None:
    process.machine.disk.crash_after(rng.randrange(1, 12))


def _stands_still(context: FaultContext, process: MemberProcess, rng: Random) -> None:
    process.pause(int(context.profile.tick_us * 2 * context.profile.init_limit * rng.random() ** 2))


def _loses_a_connection(context: FaultContext, process: MemberProcess, rng: Random) -> None:
    other = rng.choice([sid for sid in context.profile.sids if sid != process.sid])
    delay = int(context.profile.latency_us * 4 * rng.random())
    process.later(delay, process.links.break_off_all, other)


def _is_cut_off_from_one(context: FaultContext, process: MemberProcess, rng: Random) -> None:
    other = rng.choice([sid for sid in context.profile.sids if sid != process.sid])
    block(context, [(process.sid, other), (other, process.sid)])


_ACCIDENTS: Final = (_ends, _loses_power, _stands_still, _loses_a_connection, _is_cut_off_from_one)


PROCESS_FAULTS: Final[Mapping[str, Cause]] = {
    "kill": kill,
    "power": power,
    "blackout": blackout,
    "outage": outage,
    "kill_at_effect": kill_at_effect,
    "pause": pause,
    "wall_jump": wall_jump,
    "wrong_tree": wrong_tree,
    "race": race,
}
