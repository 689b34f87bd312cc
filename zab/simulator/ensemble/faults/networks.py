"""What happens to connections: they break, carry nothing, or carry what a stranger says.

    reset                     the connections between two members break
    partition, one_way        groups of members that do not hear each other; a direction that carries nothing
    bridge                    two groups that do not hear each other, and one member that hears both
    one_sided_loss            one side of the connections between two members is gone, the other one does not know
    depose                    the leader is cut off from all others for long enough, while it goes on serving clients
    slow_link                 up to about what the limits bear, and beyond
    thin_link                 what the leader has for a learner queues up behind few bytes a millisecond, for long; only
                              what is urgent overtakes it. In runs that have this focus
    stranger                  some who are no members say something at a quorum port
    election_stranger         the same at an election port

`faults` says when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from zab.quorum.ids import ServerId
from zab.simulator.ensemble.faults.context import Cause, FaultContext
from zab.simulator.ensemble.faults.strangers import hear, said
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.greeter import Greeter
from zab.simulator.world.schedule import MS
from zab.wire.handshake import Listening

STRANGERS: Final = 20


def reset(context: FaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    process.links.break_off_all(two)
    if context.rng.random() < 0.5:
        process.election.break_off(two)
    return True


def partition(context: FaultContext) -> bool:
    """Two groups; or, seldom, each one reaches only some of the others."""
    sids = context.profile.sids
    if context.rng.random() < 0.25:
        pairs = [(one, two) for one in sids for two in sids if one < two and context.rng.random() < 0.4]
    else:
        group = set(context.rng.sample(sids, context.rng.randrange(1, len(sids))))
        pairs = [(one, two) for one in sids for two in sids if one in group and two not in group]
    block(context, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def one_way(context: FaultContext) -> bool:
    block(context, [context.two()])
    return True


def bridge(context: FaultContext) -> bool:
    sids = context.rng.sample(context.profile.sids, len(context.profile.sids))
    place = context.rng.randrange(2, len(sids))
    pairs = [(one, two) for one in sids[1:place] for two in sids[place:]]
    block(context, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def one_sided_loss(context: FaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    process.links.lose_side(two)
    return True


def depose(context: FaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None:
        return False
    pairs = [(leader.sid, other) for other in context.profile.sids if other != leader.sid]
    back = [(two, one) for one, two in pairs] if context.rng.random() < 0.7 else []
    block(context, [*pairs, *back], context.profile.sync_limit + 1)
    return True


def block(context: FaultContext, pairs: list[tuple[ServerId, ServerId]], ticks_min: int = 0) -> None:
    """Cut these directions, and mend them later; election connections are given up when that takes long."""
    network = context.ensemble.network
    for pair in pairs:
        network.block(*pair)

    def heal() -> None:
        for pair in pairs:
            network.unblock(*pair)

    context.mend_after(context.profile.tick_us * ticks_min + context.ticks(20), heal)
    context.ensemble.schedule.after(context.profile.tick_us * 10, give_up, context.ensemble, pairs)


def give_up(ensemble: Ensemble, pairs: Iterable[tuple[ServerId, ServerId]]) -> None:
    """Election connections that have carried nothing for so long end."""
    for one, two in pairs:
        process = ensemble.process(one)
        if process is not None and (one, two) in ensemble.network.blocked:
            process.election.break_off(two, after_us=None)


def slow_link(context: FaultContext) -> bool:
    one, two = context.two()
    condition = (
        context.ticks(context.profile.sync_limit / 2),
        context.rng.choice((0, 1, 10, 100)) * MS // context.profile.tick_ms,
    )
    _slow(
        context, [(one, two)] if context.rng.random() < 0.5 else [(one, two), (two, one)], condition, context.ticks(20)
    )
    return True


def thin_link(context: FaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None:
        return False
    learner = context.rng.choice([sid for sid in context.profile.sids if sid != leader.sid])
    bytes_per_ms = context.rng.choice((1, 2, 5)) * 300 // context.profile.tick_ms
    duration = int(context.profile.tick_us * context.profile.init_limit * context.rng.random())
    _slow(context, [(leader.sid, learner)], (0, max(1, bytes_per_ms)), duration)
    return True


def _slow(
    context: FaultContext, pairs: list[tuple[ServerId, ServerId]], condition: tuple[int, int], duration: int
) -> None:
    """These directions have this additional delay, and carry so many bytes a millisecond, for so long."""
    slow = context.ensemble.network.slow
    for pair in pairs:
        slow[pair] = condition

    def mend() -> None:
        for pair in pairs:
            slow.pop(pair, None)

    context.mend_after(duration, mend)


def stranger(context: FaultContext) -> bool:
    return _strangers_say(context, Greeter.listening)


def election_stranger(context: FaultContext) -> bool:
    return _strangers_say(context, Greeter.listening_for_votes)


def _strangers_say(context: FaultContext, listening: Callable[[Greeter], Listening]) -> bool:
    """Several of them, since each of them is short."""
    process = context.ensemble.process(context.victim().number)
    if process is None:
        return False
    for _ in range(STRANGERS):
        pieces = said(context.rng, process.sid, _others(context, process.sid), context.ensemble.overheard)
        process.show(f"a stranger is refused: {hear(listening(process.greeter), pieces)}")
    return True


def _others(context: FaultContext, sid: ServerId) -> list[ServerId]:
    return [other for other in context.profile.sids if other != sid]


NETWORK_FAULTS: Final[Mapping[str, Cause]] = {
    "reset": reset,
    "partition": partition,
    "one_way": one_way,
    "bridge": bridge,
    "one_sided_loss": one_sided_loss,
    "depose": depose,
    "slow_link": slow_link,
    "thin_link": thin_link,
    "stranger": stranger,
    "election_stranger": election_stranger,
}
