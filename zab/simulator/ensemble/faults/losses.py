"""The copies that may be lost, so that any failure is a bug: the fault model of disks and memory.

Durable data on a disk can be lost in three ways, which differ in whether the loss is noticed:

    wiped       an empty disk. The member knows: it is an amnesiac, and counts nowhere (B2 amnesiacs)
    damaged     bits flip, or a block is written to a wrong place. Checksums reveal this to any reader, at the latest at
                the next start. Then the member does not start, and its operator gives it an empty disk; a member whose
                epochs or record are damaged is an amnesiac anyway
    forgotten   the disk is intact, but older than the promises of its member. Nothing on it shows this: the member
                votes with it. This happens when a directory is rolled back (B4 rollbacks), or with damage at the very
                end of the log, which looks like a write that a power cut tore (C2 torn or damaged)

A copy may be wiped or damaged while those that can go on without it are a quorum: voters that are synchronized in one
lineage according to their disks, and whose disks are undamaged and writable. Otherwise nothing is wrong, but no leader
can be elected. A server that began a lineage at a first start, and ended before any other joined it, has a lineage of
its own.

A copy may be forgotten only if nothing depends on it: so many others hold at least the same (the end of the log,
acceptedEpoch and currentEpoch) that the rest is no quorum. Otherwise a quorum could be elected that never heard of an
acknowledged write, which no protocol that counts votes can notice. After a reconfiguration nothing is forgotten, since
quorums of old configurations would count, too.

A quorum here is one of every configuration that is in force or may come next: an outstanding reconfiguration needs
disks of both, and without a quorum of either, nothing can ever be decided again. A reconfiguration is not requested if
it would need a disk that was just lost without its leader having noticed. Moreover, servers without data are never a
quorum by the file of one of them: they could not be told from an ensemble that starts for the first time.

A disk has one damage at a time, until it is replaced: checks of its neighbours reveal one damage, but two could hide
each other.

A tree in memory may be made wrong if a quorum of others can notice: members that run, can go on, have the right tree,
and do not lag so far that they would need a snapshot of the wrong one. A copy of a wrong tree is also wrong, whether it
is a snapshot from before the discovery, or the tree of a learner that fetched that snapshot. While such a copy exists,
its member does not count among those that can go on without another one: a member that lost its copy would get the
wrong tree, which then had a majority (E6 wrong trees).

Without mercy, the first bound is lifted as far as safety allows: one synchronized voter stays. The other bounds always
hold.
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
    """What may be lost on the disks of an ensemble in its current state."""

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
        """Whether the others can go on if this copy is wiped or damaged, or its disk accepts no more writes."""
        left = self._left_without(machine)
        if self._is_merciless and not self._marks_the_wiped:
            return all(left & quorum.voters for quorum in self._configurations.deciding)
        return self._is_quorum(left) and not self._may_begin_anew(machine, machine.config)

    def may_be_installed(self, machine: MemberMachine, config: Config) -> bool:
        """Whether this server may lose its data and restart with this file."""
        return self._is_quorum(self._left_without(machine)) and not self._may_begin_anew(machine, config)

    def may_ask_for(self, quorum: Quorum) -> bool:
        """Whether this quorum may be requested to decide next: servers with their data must be a quorum of it. A server
        that was just wiped may still seem to follow, and its leader would propose what cannot be committed. If no
        server was wiped, empty servers will be synchronized."""
        if not any(machine.is_wiped for machine in self._machines.values()):
            return True
        return quorum.contains({sid for sid, machine in self._machines.items() if self._has_data(machine)})

    def _may_begin_anew(self, machine: MemberMachine, config: Config) -> bool:
        """Whether the servers without data, including this one with that file, could take themselves for an ensemble
        that was never started: they are a quorum by the file of one of them."""
        files = {machine.number: config}
        files |= {
            sid: other.config
            for sid, other in self._machines.items()
            if other is not machine and not other.has_been_synchronized
        }
        return any(quorum_of(each).contains(files.keys()) for each in files.values())

    def may_be_wrong(self, machine: MemberMachine) -> bool:
        """Whether the others notice if the tree of this member becomes wrong."""
        kept = min(log_files(machine.disk), default=BEFORE_ALL)
        running = {process.sid for process in self._ensemble.processes if process.durable >= kept}
        return self._is_quorum(running & self._left_without(machine))

    def _has_data(self, machine: MemberMachine) -> bool:
        """Whether a machine has data of the current lineage."""
        return machine.is_synchronized and self._ensemble.observer.lineage in (None, machine.lineage)

    def _left_without(self, machine: MemberMachine) -> set[ServerId]:
        return {
            sid
            for sid, other in self._machines.items()
            if other is not machine and self._has_data(other) and not other.damaged and not other.is_impaired
        }

    def _is_quorum(self, sids: set[ServerId]) -> bool:
        """Whether a quorum among these has right trees in one lineage."""
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
        """The end of its durable log, and its epochs; None for an amnesiac."""
        epochs = load_epochs(machine.disk) if machine.is_synchronized else None
        return None if epochs is None else (self._durable(machine.number), *epochs)
