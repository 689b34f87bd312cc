"""Faults of the connections of members: they break, carry nothing, or carry bytes of a stranger.

    reset                     the connections between two members break
    one_sided_loss            one side of the connections between two members is gone, and the other side does not know
    depose                    the leader is cut off from all others for long enough, while it still serves clients
    thin_link                 the link from the leader to a learner carries few bytes per millisecond for a long time;
                              only urgent messages overtake. In runs that have this focus
    stranger                  processes that are no members connect to a quorum port
    election_stranger         the same at an election port

`faults` decides when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zab.quorum.ids import ServerId
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.faults.strangers import hear, said
from zab.simulator.ensemble.members.greeter import Greeter
from zab.simulator.world.network_faults import block, slow_down
from zab.wire.handshake import Listening

STRANGERS: Final = 20


def reset(context: EnsembleFaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    process.links.break_off_all(two)
    if context.rng.random() < 0.5:
        process.election.break_off(two)
    return True


def one_sided_loss(context: EnsembleFaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    process.links.lose_side(two)
    return True


def depose(context: EnsembleFaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None:
        return False
    pairs = [(leader.sid, other) for other in context.profile.sids if other != leader.sid]
    back = [(two, one) for one, two in pairs] if context.rng.random() < 0.7 else []
    block(context, [*pairs, *back], context.profile.sync_limit + 1)
    return True


def thin_link(context: EnsembleFaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None:
        return False
    learner = context.rng.choice([sid for sid in context.profile.sids if sid != leader.sid])
    bytes_per_ms = context.rng.choice((1, 2, 5)) * 300 // context.profile.tick_ms
    duration = int(context.profile.tick_us * context.profile.init_limit * context.rng.random())
    slow_down(context, [(leader.sid, learner)], (0, max(1, bytes_per_ms)), duration)
    return True


def stranger(context: EnsembleFaultContext) -> bool:
    return _strangers_say(context, Greeter.listening)


def election_stranger(context: EnsembleFaultContext) -> bool:
    return _strangers_say(context, Greeter.listening_for_votes)


def _strangers_say(context: EnsembleFaultContext, listening: Callable[[Greeter], Listening]) -> bool:
    """Let several strangers connect, since each of them is short."""
    process = context.ensemble.process(context.victim().number)
    if process is None:
        return False
    for _ in range(STRANGERS):
        pieces = said(context.rng, process.sid, _others(context, process.sid), context.ensemble.overheard)
        process.show(f"a stranger is refused: {hear(listening(process.greeter), pieces)}")
    return True


def _others(context: EnsembleFaultContext, sid: ServerId) -> list[ServerId]:
    return [other for other in context.profile.sids if other != sid]


CONNECTION_FAULTS: Final[Mapping[str, Cause]] = {
    "reset": reset,
    "one_sided_loss": one_sided_loss,
    "depose": depose,
    "thin_link": thin_link,
    "stranger": stranger,
    "election_stranger": election_stranger,
}
