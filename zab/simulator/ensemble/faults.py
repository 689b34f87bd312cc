"""What goes wrong: one thing after the other, as the profile's weights say, and each is over some time later.

Every fault is within what the service promises to bear, so that any failure is a bug: `losses` says how much of what
was durable may be lost. Without mercy what lasts is never over: a network that is cut or slow, a disk that is slow,
full or hangs, a machine that is down. What is momentary still passes: a process that ended starts, a pause ends.

    kill, power, blackout     the process of a member ends; its machine loses its power; all machines do
    outage                    a machine stays down for long, so that the others go on without it
    kill_at_effect            a process ends in the middle of a turn: between two calls of its ports
    power_at_operation        a machine loses its power at one of the next operations of its disk, be it in recovery
    disk_error                one of the next operations of a disk fails: EIO or ENOSPC
    pause                     a process stands still, up to several times syncLimit
    reset                     the connections between two members break
    partition, one_way        groups of members that do not hear each other; a direction that carries nothing
    slow_link, slow_disk      up to about what the limits bear, and beyond
    thin_link                 what the leader has for a learner queues up behind few bytes a millisecond, for long; only
                              what is urgent overtakes it. In runs that have this focus
    wall_jump                 a wall clock is set forward or back, by up to years
    wipe                      a disk is replaced by an empty one, in some runs with a file `initialize` that lies
    wrong_tree                a tree in memory becomes another one, as long as a quorum has the right one; sometimes no
                              snapshot of that member can be read, either, until it is started again
    depose                    the leader is cut off from all others for long enough, while it goes on serving clients
    bit_flip                  one bit of a file is another one, of a running or a stopped member
    misdirected_write         a block is not where it was written, and is where it was not
    rollback                  a directory is put back to what it was earlier, and the member starts from that
    full_disk                 no more than a few hundred bytes fit on a disk, until all other faults are over and all
                              others have gone on without it
    hung_disk                 a disk finishes no work any more, as long
    stranger                  somebody who is no member says something at a quorum port
    bridge                    two groups that do not hear each other, and one member that hears both
    one_sided_loss            one side of the connections between two members is gone, the other one does not know
    race                      the next member that comes into discovery or synchronization ends, stands still or loses a
                              connection there
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from datatree.log.epochs import INITIALIZE
from datatree.snapshot import snapshot_files, snapshot_path
from zab.ids import ServerId
from zab.member.greeting import greeted
from zab.simulator.ensemble.client import Client
from zab.simulator.ensemble.disk_faults import flip_a_bit, misdirect_a_block, roll_back
from zab.simulator.ensemble.ensemble import Ensemble
from zab.simulator.ensemble.losses import Losses
from zab.simulator.ensemble.machine import MemberMachine
from zab.simulator.ensemble.process import MemberProcess
from zab.simulator.ensemble.spoiled import is_spoiled, spoil
from zab.simulator.ensemble.strangers import said
from zab.simulator.world.schedule import MS

PURGE_TICKS: Final = 3
"""Between two times that retention does its work, beside those after each snapshot."""
YEAR_MS: Final = 365 * 86_400_000
LOST_EVERY: Final = 3
"""A member whose tree is wrong cannot read its snapshots either, one time in so many, until it is started again."""
CALLS_MAX: Final = 16
"""A process that is to end in the middle of a turn ends within so many calls of ports."""


@attrs.frozen
class Happened:
    """A fault of a run: when, which, and the choices that it had."""

    at_us: int
    kind: str
    choices: Any = attrs.field(repr=False)
    """The state of the generator before it."""


class Faults:
    """The faults of one run. `planned`, if there is any, takes the place of what the generator decides: the faults of
    an earlier run, or some of them."""

    def __init__(
        self,
        ensemble: Ensemble,
        clients: Sequence[Client],
        rng: Random,
        planned: Sequence[Happened] | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._clients = clients
        self._profile = ensemble.profile
        self._rng = rng
        self._kinds = list(ensemble.profile.faults)
        self._weights = list(ensemble.profile.faults.values())
        self._planned = None if planned is None else iter(planned)
        self.happened: list[Happened] = []
        """What has happened so far."""
        self._is_over = False
        self._losses = Losses(ensemble)
        self._spoiled_at: set[tuple[ServerId, int]] = set()

    def start(self) -> None:
        self._go_on()
        self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def _gap(self) -> int:
        return int(self._profile.fault_gap_us * self._rng.expovariate(1))

    def _ticks(self, most: float) -> int:
        """A duration: mostly short."""
        return int(self._profile.tick_us * most * self._rng.random() ** 2)

    def _next(self) -> None:
        if self._is_over:
            return
        (kind,) = self._rng.choices(self._kinds, self._weights)
        self._happens(Happened(self._ensemble.schedule.now, kind, self._rng.getstate()))
        self._go_on()

    def _go_on(self) -> None:
        """Wait for the next one."""
        schedule = self._ensemble.schedule
        if self._planned is not None:
            following = next(self._planned, None)
            if following is not None:
                schedule.at(following.at_us, self._next_planned, following)
        elif self._kinds:
            schedule.after(self._gap(), self._next)

    def _next_planned(self, fault: Happened) -> None:
        if not self._is_over:
            self._rng.setstate(fault.choices)
            self._happens(fault)
            self._go_on()

    def _happens(self, fault: Happened) -> None:
        self.happened.append(fault)
        self._ensemble.trace.say("!", fault.kind)
        if _CAUSE[fault.kind](self):
            self._ensemble.observer.count(f"fault: {fault.kind}")

    def _purge(self) -> None:
        """No fault: retention does its work, now and then."""
        for process in self._ensemble.processes:
            process.turn.purge()
        if not self._is_over:
            self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def _mend_after(self, delay: int, mend: Callable[[], None]) -> None:
        """What lasts is over then. Without mercy it never is."""
        if not self._profile.is_merciless:
            self._ensemble.schedule.after(delay, mend)

    def end(self) -> None:
        """Nothing goes wrong any more, and what is down is started. Disks that are full or hang stay so."""
        self._is_over = True
        self._ensemble.network.heal()
        for machine in self._ensemble.machines.values():
            machine.stays_down = False
            machine.disk_us = self._profile.disk_us
            machine.loses_power_at = None
            machine.disk.crash_after(None)
            machine.disk.fail_after(None)
            process = self._ensemble.process(machine.number)
            if process is not None:
                process.ambush = process.calls_left = None
                process.paused_until = 0
            else:
                machine.start_after(0)
        for client in self._clients:
            client.has_faults = False
            client.wake()

    def mend_disks(self) -> bool:
        """Disks that are full or hang take all again: whether there was one."""
        impaired = [machine for machine in self._ensemble.machines.values() if machine.is_impaired]
        for machine in impaired:
            machine.mend()
        return bool(impaired)

    # ------------------------------------------------------------------------------------------------------- processes

    def _victim(self) -> MemberMachine:
        """A machine; often the leader's, where most is at stake."""
        leader = self._ensemble.leader
        if leader is not None and self._rng.random() < 0.3:
            return leader.machine
        return self._rng.choice(list(self._ensemble.machines.values()))

    def _kill(self) -> bool:
        self._victim().stop(with_power=False)
        return True

    def _power(self) -> bool:
        self._victim().stop(with_power=True)
        return True

    def _blackout(self) -> bool:
        for machine in self._ensemble.machines.values():
            machine.stop(with_power=True)
        return True

    def _outage(self) -> bool:
        machine = self._victim()
        machine.stays_down = True
        machine.stop(with_power=True)

        def repair() -> None:
            machine.stays_down = False
            machine.start()

        self._mend_after(int(self._profile.tick_us * 25 * self._rng.random()), repair)
        return True

    def _kill_at_effect(self) -> bool:
        process = self._ensemble.process(self._victim().number)
        if process is not None:
            process.calls_left = self._rng.randrange(CALLS_MAX)
        return process is not None

    def _pause(self) -> bool:
        process = self._ensemble.process(self._victim().number)
        if process is not None:
            process.pause(self._ticks(3 * self._profile.sync_limit))
        return process is not None

    def _wall_jump(self) -> bool:
        self._victim().wall_offset_ms += self._rng.choice((-1, 1)) * self._rng.choice(
            (50, 5_000, 3_600_000, 10 * YEAR_MS)
        )
        return True

    # ----------------------------------------------------------------------------------------------------------- disks

    def _power_at_operation(self) -> bool:
        """Now; or while it starts the next time, which is at once: in recovery, or while it is synchronized."""
        machine = self._victim()
        if self._rng.random() < 0.5:
            machine.disk.crash_after(self._rng.randrange(1, 25))
        else:
            machine.stop(with_power=self._rng.random() < 0.5)
            machine.loses_power_at = self._rng.randrange(1, 40)
        return True

    def _disk_error(self) -> bool:
        error = self._rng.choice((errno.EIO, errno.ENOSPC))
        self._victim().disk.fail_after(self._rng.randrange(1, 25), error)
        return True

    def _slow_disk(self) -> bool:
        machine = self._victim()
        machine.disk_us = self._ticks(self._profile.sync_limit * 1.5)

        def mend() -> None:
            machine.disk_us = self._profile.disk_us

        self._mend_after(self._ticks(15), mend)
        return True

    def _wipe(self) -> bool:
        machine = self._victim()
        if not self._losses.may_do_without(machine):
            return False
        machine.stop(with_power=True)
        machine.lose_everything()
        if self._profile.marks_the_wiped:
            machine.disk.replace(INITIALIZE, b"")
        return True

    def _bit_flip(self) -> bool:
        return flip_a_bit(self._victim(), self._losses, self._rng)

    def _misdirected_write(self) -> bool:
        return misdirect_a_block(self._victim(), self._losses, self._rng)

    def _rollback(self) -> bool:
        return roll_back(self._ensemble.machines.values(), self._losses, self._rng)

    def _full_disk(self) -> bool:
        machine = self._victim()
        if machine.is_impaired or not self._losses.may_do_without(machine):
            return False
        machine.fill(self._rng.choice((0, 100, 500)))
        return True

    def _hung_disk(self) -> bool:
        machine = self._victim()
        if machine.is_impaired or not self._losses.may_do_without(machine):
            return False
        machine.hangs = True
        return True

    # --------------------------------------------------------------------------------------------------------- network

    def _two(self) -> tuple[ServerId, ServerId]:
        one, two = self._rng.sample(self._profile.sids, 2)
        return one, two

    def _reset(self) -> bool:
        one, two = self._two()
        process = self._ensemble.process(one)
        if process is None:
            return False
        process.links.break_off_all(two)
        if self._rng.random() < 0.5:
            process.election.lose_to(two)
        return True

    def _partition(self) -> bool:
        """Two groups; or, seldom, each one reaches only some of the others."""
        sids = self._profile.sids
        if self._rng.random() < 0.25:
            pairs = [(one, two) for one in sids for two in sids if one < two and self._rng.random() < 0.4]
        else:
            group = set(self._rng.sample(sids, self._rng.randrange(1, len(sids))))
            pairs = [(one, two) for one in sids for two in sids if one in group and two not in group]
        self._block([*pairs, *((two, one) for one, two in pairs)])
        return bool(pairs)

    def _stranger(self) -> bool:
        process = self._ensemble.process(self._victim().number)
        if process is None:
            return False
        others = [sid for sid in self._profile.sids if sid != process.sid]
        data = said(self._rng, process.sid, others)
        process.links.hear_stranger(data, partial(greeted, others=others), self._ticks(5))
        return True

    def _bridge(self) -> bool:
        sids = self._rng.sample(self._profile.sids, len(self._profile.sids))
        place = self._rng.randrange(2, len(sids))
        pairs = [(one, two) for one in sids[1:place] for two in sids[place:]]
        self._block([*pairs, *((two, one) for one, two in pairs)])
        return bool(pairs)

    def _one_sided_loss(self) -> bool:
        one, two = self._two()
        process = self._ensemble.process(one)
        if process is None:
            return False
        process.links.lose_side(two)
        return True

    def _race(self) -> bool:
        processes = self._ensemble.processes
        rng = Random(self._rng.getrandbits(64))

        def accident(process: MemberProcess) -> None:
            for other in processes:
                other.ambush = None
            self._ensemble.observer.count("accidents in discovery")
            rng.choice(_ACCIDENTS)(self, process, rng)

        for process in processes:
            process.ambush = partial(accident, process)
        return bool(processes)

    def _ends(self, process: MemberProcess, rng: Random) -> None:
        process.calls_left = rng.randrange(CALLS_MAX)

    def _loses_power(self, process: MemberProcess, rng: Random) -> None:
        process.machine.disk.crash_after(rng.randrange(1, 12))

    def _stands_still(self, process: MemberProcess, rng: Random) -> None:
        process.pause(int(self._profile.tick_us * 2 * self._profile.init_limit * rng.random() ** 2))

    def _loses_a_connection(self, process: MemberProcess, rng: Random) -> None:
        other = rng.choice([sid for sid in self._profile.sids if sid != process.sid])
        delay = int(self._profile.latency_us * 4 * rng.random())
        process.later(delay, process.links.break_off_all, other)

    def _is_cut_off_from_one(self, process: MemberProcess, rng: Random) -> None:
        other = rng.choice([sid for sid in self._profile.sids if sid != process.sid])
        self._block([(process.sid, other), (other, process.sid)])

    def _one_way(self) -> bool:
        self._block([self._two()])
        return True

    def _wrong_tree(self) -> bool:
        machine = self._victim()
        process = self._ensemble.process(machine.number)
        if process is None or not self._losses.may_be_wrong(machine):
            return False
        tree, digests = process.member.tree, process.member.digests
        again = (process.sid, tree.applied) in self._spoiled_at  # that is the end of a member, by its own rules
        if again or is_spoiled(tree) or tree.cursor is not None:
            return False
        self._spoiled_at.add((process.sid, tree.applied))
        self._ensemble.observer.spoiled_by.add(spoil(tree))
        digests.clear()
        digests.record(tree.applied, tree.digest)
        if tree.applied % LOST_EVERY == 0:
            for zxid in snapshot_files(machine.disk):
                machine.disk.fail_reads(snapshot_path(zxid))
        return True

    def _depose(self) -> bool:
        leader = self._ensemble.leader
        if leader is None:
            return False
        pairs = [(leader.sid, other) for other in self._profile.sids if other != leader.sid]
        back = [(two, one) for one, two in pairs] if self._rng.random() < 0.7 else []
        self._block([*pairs, *back], self._profile.sync_limit + 1)
        return True

    def _block(self, pairs: list[tuple[ServerId, ServerId]], ticks_min: int = 0) -> None:
        """Cut these directions, and mend them later; election connections are given up when that takes long."""
        network = self._ensemble.network
        for pair in pairs:
            network.block(*pair)

        def heal() -> None:
            for pair in pairs:
                network.unblock(*pair)

        self._mend_after(self._profile.tick_us * ticks_min + self._ticks(20), heal)
        self._ensemble.schedule.after(self._profile.tick_us * 10, self._give_up, pairs)

    def _give_up(self, pairs: list[tuple[ServerId, ServerId]]) -> None:
        for one, two in pairs:
            process = self._ensemble.process(one)
            if process is not None and (one, two) in self._ensemble.network.blocked:
                process.election.lose_to(two)

    def _slow_link(self) -> bool:
        one, two = self._two()
        condition = (
            self._ticks(self._profile.sync_limit / 2),
            self._rng.choice((0, 1, 10, 100)) * MS // self._profile.tick_ms,
        )
        self._slow([(one, two)] if self._rng.random() < 0.5 else [(one, two), (two, one)], condition, self._ticks(20))
        return True

    def _thin_link(self) -> bool:
        leader = self._ensemble.leader
        if leader is None:
            return False
        learner = self._rng.choice([sid for sid in self._profile.sids if sid != leader.sid])
        bytes_per_ms = self._rng.choice((1, 2, 5)) * 300 // self._profile.tick_ms
        duration = int(self._profile.tick_us * self._profile.init_limit * self._rng.random())
        self._slow([(leader.sid, learner)], (0, max(1, bytes_per_ms)), duration)
        return True

    def _slow(self, pairs: list[tuple[ServerId, ServerId]], condition: tuple[int, int], duration: int) -> None:
        """These directions have this additional delay, and carry so many bytes a millisecond, for so long."""
        slow = self._ensemble.network.slow
        for pair in pairs:
            slow[pair] = condition

        def mend() -> None:
            for pair in pairs:
                slow.pop(pair, None)

        self._mend_after(duration, mend)


_CAUSE: Final[dict[str, Callable[[Faults], bool]]] = {
    "kill": Faults._kill,
    "power": Faults._power,
    "blackout": Faults._blackout,
    "outage": Faults._outage,
    "kill_at_effect": Faults._kill_at_effect,
    "power_at_operation": Faults._power_at_operation,
    "disk_error": Faults._disk_error,
    "pause": Faults._pause,
    "reset": Faults._reset,
    "partition": Faults._partition,
    "one_way": Faults._one_way,
    "slow_link": Faults._slow_link,
    "thin_link": Faults._thin_link,
    "slow_disk": Faults._slow_disk,
    "wall_jump": Faults._wall_jump,
    "wipe": Faults._wipe,
    "wrong_tree": Faults._wrong_tree,
    "depose": Faults._depose,
    "bit_flip": Faults._bit_flip,
    "misdirected_write": Faults._misdirected_write,
    "rollback": Faults._rollback,
    "full_disk": Faults._full_disk,
    "hung_disk": Faults._hung_disk,
    "stranger": Faults._stranger,
    "bridge": Faults._bridge,
    "one_sided_loss": Faults._one_sided_loss,
    "race": Faults._race,
}
_ACCIDENTS: Final = (
    Faults._ends,
    Faults._loses_power,
    Faults._stands_still,
    Faults._loses_a_connection,
    Faults._is_cut_off_from_one,
)
