"""Faults of disks and of the bytes on them.

    wipe                      a disk is replaced by an empty one, in some runs with a file `initialize` that lies
    bit_flip                  one bit in a file of a running or a stopped member flips
    misdirected_write         a block is written to a wrong place, and is missing in its own
    rollback                  a directory is set back to an earlier state, and the member starts from it
    full_disk                 a disk takes only a few hundred bytes more, or little less than its member wants, until
                              all other faults are over and the others have made progress without it
    hung_disk                 a disk finishes no more work, until the same time

The files are those that a member needs for its promises: log, snapshots, epochs, its record, its mark. Running members
are damaged too: their memory is right while their files are not, which they may notice when a learner needs a file.

`losses` bounds what may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from datatree.log.epochs import DIRECTORY, INITIALIZE
from datatree.log.frame import scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, log_files, log_path
from datatree.snapshot import FETCH
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.faults.losses import Losses
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.profile import DISK_LOW_BYTES
from zab.simulator.world.disk import SECTOR_BYTES

SKIPPED: Final = (FETCH, ".tmp", ".spare")
"""Unfinished files, on which no promise depends."""

Damage = dict[tuple[str, int], bytes]
"""(path, offset) → the wrong bytes there."""


def wipe(context: EnsembleFaultContext) -> bool:
    machine = context.victim()
    if not context.losses.may_do_without(machine):
        return False
    machine.stop(with_power=True)
    machine.lose_everything()
    if context.profile.marks_the_wiped:
        machine.disk.replace(INITIALIZE, b"")
    return True


def bit_flip(context: EnsembleFaultContext) -> bool:
    machine, rng = context.victim(), context.rng
    files = _files(machine)
    if not files:
        return False
    path = rng.choice(list(files))
    at = rng.randrange(len(files[path]))
    return _damage(machine, context.losses, {(path, at): bytes([files[path][at] ^ 1 << rng.randrange(8)])})


def misdirected_write(context: EnsembleFaultContext) -> bool:
    machine, rng = context.victim(), context.rng
    files = _files(machine)
    if not files:
        return False
    wanted, hit = rng.choice(list(files)), rng.choice(list(files))
    at, there = (rng.randrange(0, len(files[path]), SECTOR_BYTES) for path in (wanted, hit))
    if (wanted, at) == (hit, there):
        return False
    block = files[wanted][at : at + SECTOR_BYTES]
    fits = block[: len(files[hit]) - there]
    return _damage(machine, context.losses, {(wanted, at): bytes(len(block)), (hit, there): fits})


def rollback(context: EnsembleFaultContext) -> bool:
    """Set one directory back to its earlier copy; or copy all directories."""
    machines, losses, rng = context.ensemble.machines.values(), context.losses, context.rng
    sound = [machine for machine in machines if not (machine.damaged or machine.has_forgotten or machine.is_impaired)]
    possible = [machine for machine in sound if machine.backup is not None and losses.may_forget(machine)]
    if not possible or rng.random() < 0.3:
        for machine in sound:
            machine.backup = machine.disk.image() if machine.is_synchronized else None
        return False
    machine = rng.choice(possible)
    assert machine.backup is not None
    machine.stop(with_power=True)
    machine.disk.restore(machine.backup)
    machine.has_forgotten = True
    return True


def full_disk(context: EnsembleFaultContext) -> bool:
    machine = context.victim()
    if machine.is_impaired or not context.losses.may_do_without(machine):
        return False
    machine.fill(context.rng.choice((0, 100, 500, DISK_LOW_BYTES - 1)))
    return True


def hung_disk(context: EnsembleFaultContext) -> bool:
    machine = context.victim()
    if machine.is_impaired or not context.losses.may_do_without(machine):
        return False
    machine.hangs = True
    return True


def _files(machine: MemberMachine) -> dict[str, bytes]:
    """The content of each file, without preallocated bytes."""
    found = {}
    for path, data in sorted(machine.disk.image().items()):
        used = data.rstrip(b"\0")
        if path.startswith(f"{DIRECTORY}/") and used and not path.endswith(SKIPPED):
            found[path] = used
    return found


def _damage(machine: MemberMachine, losses: Losses, damage: Damage) -> bool:
    if machine.damaged or machine.has_forgotten or not losses.may_do_without(machine):
        return False
    is_at_end = _reads_as_torn(machine, damage)
    if is_at_end and not losses.may_forget(machine):
        return False
    for (path, at), data in damage.items():
        machine.disk.corrupt(path, at, data)
        machine.damaged.add(path)
    machine.is_damaged_at_end = is_at_end
    return True


def _reads_as_torn(machine: MemberMachine, damage: Damage) -> bool:
    """Whether nothing intact in the damaged log file shows that the damaged part was durable."""
    for first in log_files(machine.disk):
        data = bytearray(machine.disk.read(log_path(first)))
        places = [(at, there) for (path, at), there in damage.items() if path == log_path(first)]
        for at, there in places:
            data[at : at + len(there)] = there
        if places and min(places)[0] >= scan(bytes(data), first, SEGMENT_HEADER_BYTES).synced:
            return True
    return False


DISK_FAULTS: Final[Mapping[str, Cause]] = {
    "wipe": wipe,
    "bit_flip": bit_flip,
    "misdirected_write": misdirected_write,
    "rollback": rollback,
    "full_disk": full_disk,
    "hung_disk": hung_disk,
}
