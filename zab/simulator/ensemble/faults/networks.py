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
from zab.simulator.ensemble.faults.scene import Cause, Scene
from zab.simulator.ensemble.faults.strangers import hear, said
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.greeter import Greeter
from zab.simulator.world.schedule import MS
from zab.wire.handshake import Listening

STRANGERS: Final = 20


def reset(scene: Scene) -> bool:
    one, two = _two(scene)
    process = scene.ensemble.process(one)
    if process is None:
        return False
    process.links.break_off_all(two)
    if scene.rng.random() < 0.5:
        process.election.lose_to(two)
    return True


def partition(scene: Scene) -> bool:
    """Two groups; or, seldom, each one reaches only some of the others."""
    sids = scene.profile.sids
    if scene.rng.random() < 0.25:
        pairs = [(one, two) for one in sids for two in sids if one < two and scene.rng.random() < 0.4]
    else:
        group = set(scene.rng.sample(sids, scene.rng.randrange(1, len(sids))))
        pairs = [(one, two) for one in sids for two in sids if one in group and two not in group]
    block(scene, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def one_way(scene: Scene) -> bool:
    block(scene, [_two(scene)])
    return True


def bridge(scene: Scene) -> bool:
    sids = scene.rng.sample(scene.profile.sids, len(scene.profile.sids))
    place = scene.rng.randrange(2, len(sids))
    pairs = [(one, two) for one in sids[1:place] for two in sids[place:]]
    block(scene, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def one_sided_loss(scene: Scene) -> bool:
    one, two = _two(scene)
    process = scene.ensemble.process(one)
    if process is None:
        return False
    process.links.lose_side(two)
    return True


def depose(scene: Scene) -> bool:
    leader = scene.ensemble.leader
    if leader is None:
        return False
    pairs = [(leader.sid, other) for other in scene.profile.sids if other != leader.sid]
    back = [(two, one) for one, two in pairs] if scene.rng.random() < 0.7 else []
    block(scene, [*pairs, *back], scene.profile.sync_limit + 1)
    return True


def block(scene: Scene, pairs: list[tuple[ServerId, ServerId]], ticks_min: int = 0) -> None:
    """Cut these directions, and mend them later; election connections are given up when that takes long."""
    network = scene.ensemble.network
    for pair in pairs:
        network.block(*pair)

    def heal() -> None:
        for pair in pairs:
            network.unblock(*pair)

    scene.mend_after(scene.profile.tick_us * ticks_min + scene.ticks(20), heal)
    scene.ensemble.schedule.after(scene.profile.tick_us * 10, give_up, scene.ensemble, pairs)


def give_up(ensemble: Ensemble, pairs: Iterable[tuple[ServerId, ServerId]]) -> None:
    """Election connections that have carried nothing for so long end."""
    for one, two in pairs:
        process = ensemble.process(one)
        if process is not None and (one, two) in ensemble.network.blocked:
            process.election.lose_to(two)


def _two(scene: Scene) -> tuple[ServerId, ServerId]:
    one, two = scene.rng.sample(scene.profile.sids, 2)
    return one, two


def slow_link(scene: Scene) -> bool:
    one, two = _two(scene)
    condition = (
        scene.ticks(scene.profile.sync_limit / 2),
        scene.rng.choice((0, 1, 10, 100)) * MS // scene.profile.tick_ms,
    )
    _slow(scene, [(one, two)] if scene.rng.random() < 0.5 else [(one, two), (two, one)], condition, scene.ticks(20))
    return True


def thin_link(scene: Scene) -> bool:
    leader = scene.ensemble.leader
    if leader is None:
        return False
    learner = scene.rng.choice([sid for sid in scene.profile.sids if sid != leader.sid])
    bytes_per_ms = scene.rng.choice((1, 2, 5)) * 300 // scene.profile.tick_ms
    duration = int(scene.profile.tick_us * scene.profile.init_limit * scene.rng.random())
    _slow(scene, [(leader.sid, learner)], (0, max(1, bytes_per_ms)), duration)
    return True


def _slow(scene: Scene, pairs: list[tuple[ServerId, ServerId]], condition: tuple[int, int], duration: int) -> None:
    """These directions have this additional delay, and carry so many bytes a millisecond, for so long."""
    slow = scene.ensemble.network.slow
    for pair in pairs:
        slow[pair] = condition

    def mend() -> None:
        for pair in pairs:
            slow.pop(pair, None)

    scene.mend_after(duration, mend)


def stranger(scene: Scene) -> bool:
    return _strangers_say(scene, Greeter.listening)


def election_stranger(scene: Scene) -> bool:
    return _strangers_say(scene, Greeter.listening_for_votes)


def _strangers_say(scene: Scene, listening: Callable[[Greeter], Listening]) -> bool:
    """Several of them, since each of them is short."""
    process = scene.ensemble.process(scene.victim().number)
    if process is None:
        return False
    for _ in range(STRANGERS):
        pieces = said(scene.rng, process.sid, _others(scene, process.sid), scene.ensemble.overheard)
        process.show(f"a stranger is refused: {hear(listening(process.greeter), pieces)}")
    return True


def _others(scene: Scene, sid: ServerId) -> list[ServerId]:
    return [other for other in scene.profile.sids if other != sid]


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
