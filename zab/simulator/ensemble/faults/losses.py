"""What copies may be lost, so that any failure is a bug: the model of faults of disks and memory.

There are three ways in which what was durable on a disk is lost, and they differ in who knows of it:

    wiped       an empty disk. The member knows: it is an amnesiac, and counts nowhere (B2 amnesiacs)
    damaged     bits flip, or a block is written to a wrong place. Whoever reads it finds that by its checksums, at the
                latest the next start. Then the member does not start, and its operator gives it an empty disk; a member
                whose epochs or record are damaged is an amnesiac by itself
    forgotten   the disk is whole, and older than what its member said. Nothing on it tells that: the member votes with
                it. So it is with a directory that was rolled back (B4 rollbacks), and with damage at the very end of
                the log, which reads like a write that the power cut off (C2 torn or damaged)

A copy may be wiped or damaged while those that can go on without it are a quorum: voters that are synchronized in one
lineage by what is on their disks, whose disks are not damaged, and can be written. Else nothing is wrong, but nobody
can be elected. A lineage of its own has who began one at a first start, and ended before anybody else was in it.

A copy may be forgotten only if nothing depends on it: others hold at least what it holds (the end of the log,
acceptedEpoch and currentEpoch), and so many of them that the rest is no quorum. Else a quorum could be elected that
never heard of an acknowledged write, and no protocol that counts votes can know it. Once the ensemble was reconfigured
nothing is forgotten: quorums of configurations that are over would count, too.

A quorum is one of every configuration that is in force, or may come into force next: a reconfiguration that is
outstanding needs disks of both, and without a quorum of either nobody decides any more, for good. Nor is one asked for
that would need a disk that was lost just now, which its leader has not noticed yet. Beside that, those who have no data
are never a quorum by the file of one of them: nobody could tell them from an ensemble that is started for the first
time.

A disk has one damage at a time, until it is replaced. What one damage leaves intact is found by its neighbours' checks;
two could hide each other.

A tree in memory may be made wrong where a quorum of others finds it out: those that run, can go on, have the right
one, and are not so far behind that the log of that member does not reach them: they would take over a snapshot of it.
A copy of a wrong tree is as wrong, be it a snapshot that was taken before it was found out, or that of a learner
which fetched that. While there is one, its member is not among those that could go on without another one: who lost its
copy would be given the wrong one, and then that has the majority (E6 wrong trees).

Without mercy, the first bound is lifted as far as safety allows: one synchronized voter stays. The others never are.
"""

from __future__ import annotations

from collections.abc import Callable

from datatree.log.epochs import load_epochs
from datatree.log.segment import log_files
from datatree.log.zxid import BEFORE_ALL
from zab.member.membership.restore import quorum_of
from zab.member.settings.zoo_cfg import Config
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum
from zab.simulator.ensemble.judges.configurations import Configurations
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.spoiled import is_spoiled, is_spoiled_on_disk


class Losses:
    """What may go wrong with the disks of an ensemble, as they are now."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._machines = ensemble.machines
        self._durable: Callable[[ServerId], int] = ensemble.observer.durable
        self._is_merciless = ensemble.profile.is_merciless
        self._marks_the_wiped = ensemble.profile.marks_the_wiped

    @property
    def _configurations(self) -> Configurations:
        return self._ensemble.observer.configurations

    def may_do_without(self, machine: MemberMachine) -> bool:
        """Whether the others can go on if this copy is wiped or damaged, or its disk takes nothing any more."""
        left = self._left_without(machine)
        if self._is_merciless and not self._marks_the_wiped:
            return all(left & quorum.voters for quorum in self._configurations.deciding)
        return self._is_quorum(left) and not self._may_begin_anew(machine, machine.config)

    def may_be_installed(self, machine: MemberMachine, config: Config) -> bool:
        """Whether this server may lose its data and come back with this file."""
        return self._is_quorum(self._left_without(machine)) and not self._may_begin_anew(machine, config)

    def may_ask_for(self, quorum: Quorum) -> bool:
        """Whether this may be asked to decide next: those with their data are a quorum of it. One that was wiped just
        now may still seem to follow, and its leader would propose what nobody can commit. Where nobody was, those who
        have nothing yet are given all."""
        if not any(machine.is_wiped for machine in self._machines.values()):
            return True
        return quorum.contains({sid for sid, machine in self._machines.items() if self._has_data(machine)})

    def _may_begin_anew(self, machine: MemberMachine, config: Config) -> bool:
        """Whether those without data, and this one with that file, could take themselves for an ensemble that was never
        started: for one of them they are a quorum."""
        files = {machine.number: config}
        files |= {
            sid: other.config
            for sid, other in self._machines.items()
            if other is not machine and not other.has_been_synchronized
        }
        return any(quorum_of(each).contains(files.keys()) for each in files.values())

    def may_be_wrong(self, machine: MemberMachine) -> bool:
        """Whether the others find it out if the tree of this member becomes a wrong one."""
        kept = min(log_files(machine.disk), default=BEFORE_ALL)
        running = {process.sid for process in self._ensemble.processes if process.durable >= kept}
        return self._is_quorum(running & self._left_without(machine))

    def _has_data(self, machine: MemberMachine) -> bool:
        """Of the lineage that counts."""
        return machine.is_synchronized and self._ensemble.observer.lineage in (None, machine.lineage)

    def _left_without(self, machine: MemberMachine) -> set[ServerId]:
        return {
            sid
            for sid, other in self._machines.items()
            if other is not machine and self._has_data(other) and not other.damaged and not other.is_impaired
        }

    def _is_quorum(self, sids: set[ServerId]) -> bool:
        """Whether a quorum among these has right trees, of one lineage."""
        by_lineage: dict[bytes | None, set[ServerId]] = {}
        for sid in filter(self._is_right, sids):
            by_lineage.setdefault(self._machines[sid].lineage, set()).add(sid)
        deciding = self._configurations.deciding
        return any(all(quorum.contains(each) for quorum in deciding) for each in by_lineage.values())

    def _is_right(self, sid: ServerId) -> bool:
        """Whether this member has no wrong tree, and no copy of one."""
        if not self._ensemble.observer.spoiled_by:
            return True
        process = self._ensemble.process(sid)
        if process is not None and is_spoiled(process.member.tree):
            return False
        return not is_spoiled_on_disk(self._machines[sid].disk)

    def may_forget(self, machine: MemberMachine) -> bool:
        """Whether nothing depends on this copy."""
        promised = self._held(machine)
        if promised is None or len(self._configurations.in_force) > 1 or self._configurations.outstanding:
            return False
        [quorum] = self._configurations.deciding
        without = set(quorum.voters)
        for sid, other in self._machines.items():
            is_of_use = other is not machine and other.lineage == machine.lineage
            held = self._held(other) if is_of_use and not (other.damaged or other.has_forgotten) else None
            if held is not None and all(has >= said for has, said in zip(held, promised, strict=True)):
                without.discard(sid)
        return not quorum.contains(without)

    def _held(self, machine: MemberMachine) -> tuple[int, int, int] | None:
        """Where its durable log ends, and its epochs; None of an amnesiac."""
        epochs = load_epochs(machine.disk) if machine.is_synchronized else None
        return None if epochs is None else (self._durable(machine.number), *epochs)
