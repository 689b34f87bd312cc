"""Actions of an operator that end a lineage and begin another one, while servers of the old one may go on.

    restore     a quorum of the configuration in force is given a snapshot, as by `zab restore --into`
    recover     only one copy is left: its data begins a lineage (`zab recover --force`), with other, empty voters, and
                perhaps in another configuration

A server that is neither given the snapshot nor emptied stays in the old lineage, and may continue in it. Such servers
are no quorum there, unless the operator made a mistake. Once the faults are over, they are given an empty disk.

Acknowledged writes are judged up to the end of their lineage: the next one has what the operator gave it, and clients
start again (`Observer.begin_lineage`). No server serves in a lineage that is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import attrs

from datatree.log.batch import LINEAGE_BYTES, imported
from datatree.log.epochs import load_member
from datatree.log.zxid import BEFORE_ALL, COUNTER_BITS, Zxid
from datatree.record import decode_all
from datatree.recovery.beginning import begin_history
from datatree.recovery.recover import examine
from datatree.recovery.restoring import stage
from datatree.snapshot import read_snapshot_header, snapshot_files, snapshot_path
from zab.configuration.reconfiguration import ensemble_of
from zab.member.membership.reconfiguring import quorum_of, servers
from zab.protocol.membership import Membership
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.faults.reshaping import line_of, with_file
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.process import MemberProcess

# ------------------------------------------------------------------------------------------------------------- restore


def restore(context: EnsembleFaultContext) -> bool:
    observer, rng = context.ensemble.observer, context.rng
    in_force, source = observer.configurations.newest, _snapshot(context)
    given = [
        process.machine
        for process in context.ensemble.processes
        if _takes_snapshots(context, process, in_force) and rng.random() < 0.85
    ]
    if source is None or not in_force.quorum.contains({machine.number for machine in given}):
        return False
    zxid, snapshot = source
    [(lineage, chain)] = {_give(machine, zxid, snapshot, in_force.text) for machine in given}
    for machine in given:
        machine.config = with_file(machine.config, in_force.text, "observer")
        machine.stop(with_power=rng.random() < 0.5)
        machine.loses_power_at = rng.randrange(1, 40) if rng.random() < 0.3 else None
    known = [txn for at, txn in sorted(observer.history.txns.items()) if at <= zxid]
    history = observer.history.next(known, (Zxid(zxid), chain), keeps_epochs=True)
    context.begin_lineage(lineage, history, attrs.evolve(in_force, version=BEFORE_ALL))
    return True


def _give(machine: MemberMachine, zxid: int, snapshot: bytes, in_force: bytes) -> tuple[bytes, bytes]:
    """Give a machine a snapshot for its next start; returns lineage and chain."""
    before = load_member(machine.disk)
    assert before is not None
    path = f"{snapshot_path(zxid)}.restore.tmp"
    machine.disk.replace(path, snapshot)
    header = stage(machine.disk, path, before.lineage, in_force)
    machine.disk.remove(path)
    machine.given = header.lineage
    return header.lineage, header.chain


def _takes_snapshots(context: EnsembleFaultContext, process: MemberProcess, in_force: Membership) -> bool:
    """Whether this member accepts snapshots (B8 restored members), and has the current configuration in force."""
    memberships, machine = process.peer.memberships, process.machine
    return (
        memberships.outstanding is None
        and memberships.in_force.version == in_force.version
        and not process.peer.amnesiac
        and not context.ensemble.observer.is_over(process)
        and machine.lineage == process.peer.lineage
        and _may_be_written(machine)
    )


def _may_be_written(machine: MemberMachine) -> bool:
    machine.disk.crash_after(None)
    machine.disk.fail_after(None)
    return not (machine.damaged or machine.is_impaired or machine.given)


def _snapshot(context: EnsembleFaultContext) -> tuple[int, bytes] | None:
    """A random snapshot of committed data of this lineage."""
    observer = context.ensemble.observer
    found = []
    for machine in context.ensemble.machines.values():
        for zxid in snapshot_files(machine.disk):
            with suppress(OSError):  # it may be unreadable now
                header = read_snapshot_header(machine.disk, snapshot_path(zxid))
                if header is not None and observer.history.has_reached((zxid, header.chain)):
                    found.append((zxid, machine.disk.read(snapshot_path(zxid))))
    return context.rng.choice(found) if found and not observer.spoiled_by else None


# ------------------------------------------------------------------------------------------------------------- recover


def recover(context: EnsembleFaultContext) -> bool:
    observer, rng, machines = context.ensemble.observer, context.rng, context.ensemble.machines
    possible = [machine for machine in machines.values() if _has_a_history(context, machine)]
    if not possible or observer.spoiled_by:
        return False
    left = rng.choice(possible)
    voters = {left.number, rng.choice(list(machines)), *(sid for sid in machines if rng.random() < 0.4)}
    if len(voters) == 1:
        return False
    emptied = voters | {sid for sid in machines if rng.random() < 0.4 or not machines[sid].is_synchronized}
    if any(quorum.contains(machines.keys() - emptied) for quorum in observer.configurations.ever):
        emptied = set(machines)
    text = "\n".join(line_of(sid, "participant") for sid in sorted(voters)).encode()
    for sid in sorted(emptied):
        machines[sid].stop(with_power=True)
        machines[sid].config = with_file(machines[sid].config, text, "observer")
        if sid != left.number:
            machines[sid].lose_everything()
    lineage, ensemble = rng.randbytes(LINEAGE_BYTES), ensemble_of(text)
    history = _begin(left, lineage, observer.history)
    of_files = Membership(BEFORE_ALL, quorum_of(ensemble), servers(ensemble.servers), text=text)
    context.begin_lineage(lineage, history, of_files)
    return True


def _has_a_history(context: EnsembleFaultContext, machine: MemberMachine) -> bool:
    observer = context.ensemble.observer
    is_of_now = machine.is_synchronized and observer.lineage in (None, machine.lineage)
    return is_of_now and _may_be_written(machine) and observer.durable(machine.number) > 0


def _begin(machine: MemberMachine, lineage: bytes, before: History) -> History:
    """Begin a lineage with the data on this machine's disk, as `zab.cli.files.recover` does."""
    recovered = examine(machine.disk)
    assert recovered.epochs is not None
    assert not recovered.damage, recovered.damage
    tree, known = recovered.tree, min(recovered.mark, before.end)
    txns = [txn for at, txn in sorted(before.txns.items()) if at <= known]
    for batch in recovered.recent:
        if batch.zxid > known:
            txns += decode_all(batch.body, batch.first, batch.count)
    for txn in txns:
        if txn.zxid > tree.applied:
            tree.apply(txn, is_watched=False)
    epoch = max(recovered.epochs[0], recovered.last[0] >> COUNTER_BITS)
    zxid = Zxid((epoch + 1) << COUNTER_BITS | 1)
    machine.disk.lose_everything()
    begin_history(machine.disk, tree, zxid, lineage, machine.number)
    return before.next(txns, (zxid, imported(lineage, zxid, tree.digest)), keeps_epochs=False)


def put_right(context: EnsembleFaultContext) -> None:
    """After the faults: give servers that are left in an old lineage an empty disk, and the file of the others. The
    same goes for servers that count in no lineage and have, or may have, data of an old one. All others are restarted,
    since they may wait for servers that they have heard of."""
    observer = context.ensemble.observer
    for machine in context.ensemble.machines.values():
        if observer.lineage is None or observer.lineage in (machine.lineage, machine.given):
            continue
        process = context.ensemble.process(machine.number)
        machine.stop(with_power=True)
        if machine.lineage is not None:
            machine.config = with_file(machine.config, observer.configurations.newest.text, "observer")
        if machine.lineage is not None or process is None or observer.is_over(process):
            machine.lose_everything()


LINEAGE_FAULTS: Final[Mapping[str, Cause]] = {"restore": restore, "recover": recover}
