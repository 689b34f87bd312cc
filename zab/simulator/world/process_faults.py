"""Faults of processes, machines, clocks and disks, for any service.

    kill, power, blackout     a process ends; its machine loses its power; all machines do
    outage                    a machine stays down for long, so that the others have to go on without it
    kill_at_effect            a process ends in the middle of a turn: between two calls of its ports
    pause                     a process stands still, up to several times the timeouts of others
    wall_jump                 a wall clock is set forward or back, by up to years
    power_at_operation        a machine loses its power at one of the next operations of its disk, perhaps in recovery
    disk_error                one of the next operations of a disk fails: EIO or ENOSPC
    slow_disk                 a slow disk, up to the timeouts and beyond

`faults` decides when.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from zab.simulator.world.cluster import FaultContext, process_of
from zab.simulator.world.faults import Cause

YEAR_MS: Final = 365 * 86_400_000
CALLS_MAX: Final = 16
"""Within how many calls of ports a process ends in the middle of a turn."""


def kill(context: FaultContext) -> bool:
    context.any_machine().stop(with_power=False)
    return True


def power(context: FaultContext) -> bool:
    context.any_machine().stop(with_power=True)
    return True


def blackout(context: FaultContext) -> bool:
    for machine in context.cluster.machines.values():
        machine.stop(with_power=True)
    return True


def outage(context: FaultContext) -> bool:
    machine = context.any_machine()
    machine.stays_down = True
    machine.stop(with_power=True)

    def repair() -> None:
        machine.stays_down = False
        machine.start()

    context.mend_after(int(context.cluster.tick_us * 25 * context.rng.random()), repair)
    return True


def kill_at_effect(context: FaultContext) -> bool:
    process = process_of(context.any_machine())
    if process is not None:
        process.calls_left = context.rng.randrange(CALLS_MAX)
    return process is not None


def pause(context: FaultContext) -> bool:
    process = process_of(context.any_machine())
    if process is not None:
        process.pause(context.ticks(3 * context.cluster.patience_ticks))
    return process is not None


def wall_jump(context: FaultContext) -> bool:
    context.any_machine().wall_offset_ms += context.rng.choice((-1, 1)) * context.rng.choice(
        (50, 5_000, 3_600_000, 10 * YEAR_MS)
    )
    return True


def power_at_operation(context: FaultContext) -> bool:
    """Lose power at a disk operation, now or during a restart: in recovery, or while it catches up."""
    machine = context.any_machine()
    if context.rng.random() < 0.5:
        machine.disk.crash_after(context.rng.randrange(1, 25))
    else:
        machine.stop(with_power=context.rng.random() < 0.5)
        machine.loses_power_at = context.rng.randrange(1, 40)
    return True


def disk_error(context: FaultContext) -> bool:
    error = context.rng.choice((errno.EIO, errno.ENOSPC))
    context.any_machine().disk.fail_after(context.rng.randrange(1, 25), error)
    return True


def slow_disk(context: FaultContext) -> bool:
    machine = context.any_machine()
    machine.disk_us = context.ticks(context.cluster.patience_ticks * 1.5)

    def mend() -> None:
        machine.disk_us = context.cluster.disk_us

    context.mend_after(context.ticks(15), mend)
    return True


PROCESS_FAULTS: Final[Mapping[str, Cause[FaultContext]]] = {
    "kill": kill,
    "power": power,
    "blackout": blackout,
    "outage": outage,
    "kill_at_effect": kill_at_effect,
    "pause": pause,
    "wall_jump": wall_jump,
    "power_at_operation": power_at_operation,
    "disk_error": disk_error,
    "slow_disk": slow_disk,
}
