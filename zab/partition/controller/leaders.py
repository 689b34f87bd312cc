"""Which replica leads, and who is in sync after that: pure functions from a partition's state to its next one.

    strategy       leader                                                           ISR after
    for_offline    first alive of the ISR, in the order of replicas; else first     its alive members; of ELR or
                   unclean: alive of the ELR; else, if unclean is allowed, first alive       the leader alone
    for_reassigned first of the target that is alive and in the ISR                 the target's members of it
    for_preferred  the first replica, if it is alive and in the ISR                 unchanged
    for_shutdown   first alive of the ISR that does not shut down                   without those that shut down

Each gives None if it finds no leader. "Alive" leaves out brokers that shut down. A new leader has a leader epoch that
is higher by one.

Eligible leader replicas (KIP-966): while the ISR is smaller than min.insync.replicas the high watermark does not
advance, so who leaves the ISR then has everything that was acknowledged. `with_isr` is the one place that keeps these
sets:

    |ISR| >= min ISR     ELR = {}, last known ELR = {}
    otherwise            ELR = (ISR + ELR before) - ISR - unclean;  the unclean ones go to the last known ELR

`without_unclean` takes out replicas whose broker stopped uncleanly and may have lost the end of its log. Those that are
the last of ISR and ELR stay: nobody else has more, and at least min.insync.replicas replicas have stopped uncleanly
then.

An unclean election begins a new line: what was complete before is only kept in the last known ELR.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from attrs import evolve, frozen

from zab.partition.controller.znodes import NO_LEADER, PartitionState

NOBODY: Final[frozenset[int]] = frozenset()


@frozen(kw_only=True)
class Candidates:
    """What a strategy sees. alive: brokers that may lead. min_isr: at most the number of replicas."""

    replicas: tuple[int, ...]
    state: PartitionState
    alive: Set[int]
    min_isr: int = 1


def with_isr(
    state: PartitionState,
    isr: Iterable[int],
    *,
    replicas: tuple[int, ...],
    min_isr: int,
    unclean: Set[int] = NOBODY,
) -> PartitionState:
    """The state with this ISR, and the ELR that follows from it."""
    members = tuple(isr)
    if len(members) >= min_isr:
        return evolve(state, isr=members, elr=(), last_known_elr=())
    complete = [each for each in (*state.isr, *state.elr) if each in replicas and each not in members]
    elr = tuple(each for each in complete if each not in unclean)
    known = [each for each in (*state.last_known_elr, *complete) if each not in members and each not in elr]
    last_known = tuple(dict.fromkeys(each for each in known if each in replicas))
    return evolve(state, isr=members, elr=elr, last_known_elr=last_known)


def with_leader(state: PartitionState, leader: int) -> PartitionState:
    return evolve(state, leader=leader, leader_epoch=state.leader_epoch + 1)


def for_offline(of: Candidates, *, unclean: bool = False) -> PartitionState | None:
    """unclean: a replica that is not in sync may lead if no other can."""
    alive = [each for each in of.replicas if each in of.alive]
    for each in alive:
        if each in of.state.isr:
            return _led(of, each, (member for member in of.state.isr if member in of.alive))
    for each in alive:
        if each in of.state.elr:
            return _led(of, each, (each,))
    if unclean and alive:
        return _uncleanly(of, next((each for each in alive if each in of.state.last_known_elr), alive[0]))
    return None


def _led(of: Candidates, leader: int, isr: Iterable[int]) -> PartitionState:
    return with_leader(with_isr(of.state, isr, replicas=of.replicas, min_isr=of.min_isr), leader)


def _uncleanly(of: Candidates, leader: int) -> PartitionState:
    if of.min_isr <= 1:
        last_known: tuple[int, ...] = ()
    else:
        before = dict.fromkeys((*of.state.last_known_elr, *of.state.isr, *of.state.elr))
        last_known = tuple(each for each in before if each != leader and each in of.replicas)
    state = evolve(of.state, isr=(leader,), elr=(), last_known_elr=last_known, recovering=True)
    return with_leader(state, leader)


def for_reassigned(of: Candidates, target: tuple[int, ...]) -> PartitionState | None:
    """The leader stays if it is in the target and alive; its epoch rises in any case, so that all learn the replicas.

    of.replicas: those that remain.
    """
    isr = tuple(each for each in of.state.isr if each in of.replicas)
    leaders = [each for each in (of.state.leader, *target) if each in target and each in of.alive and each in isr]
    return _led(of, leaders[0], isr) if leaders else None


def for_preferred(of: Candidates) -> PartitionState | None:
    preferred = of.replicas[0]
    if preferred in of.alive and preferred in of.state.isr:
        return with_leader(of.state, preferred)
    return None


def for_shutdown(of: Candidates, shutting_down: Set[int]) -> PartitionState | None:
    isr = tuple(each for each in of.state.isr if each not in shutting_down)
    leader = next((each for each in of.replicas if each in isr and each in of.alive), None)
    return None if leader is None else _led(of, leader, isr)


def without(of: Candidates, gone: Set[int]) -> PartitionState | None:
    """Replicas go offline, or leave. The ISR never becomes empty by that: if all its members go, they stay in it.

    None: nothing changes.
    """
    if of.state.leader not in gone and not gone & set(of.state.isr):
        return None
    isr = tuple(each for each in of.state.isr if each not in gone) or of.state.isr
    leader = NO_LEADER if of.state.leader in gone else of.state.leader
    return _led(of, leader, isr)


def without_unclean(of: Candidates, unclean: Set[int]) -> PartitionState | None:
    """Take out replicas that may have lost what they had. None: nothing changes."""
    if not of.state.quorum & unclean or not of.state.quorum - unclean:
        return None
    isr = tuple(each for each in of.state.isr if each not in unclean)
    leader = NO_LEADER if of.state.leader in unclean else of.state.leader
    if not isr:
        leader = NO_LEADER
    state = with_isr(of.state, isr, replicas=of.replicas, min_isr=of.min_isr, unclean=unclean)
    return with_leader(state, leader)
