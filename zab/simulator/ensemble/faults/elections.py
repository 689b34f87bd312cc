"""Faults of election connections, while all other connections work.

    election_loss       a connection breaks: both sides notice at once, or one of them later, or only when it sends a
                        vote
    election_one_way    a server cannot connect to the election port of another one for a while, but the other can
                        connect to it
    election_double     another process has the id and the secret of a server, and votes like an empty server

`faults` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from datatree.log.zxid import Epoch, Zxid
from zab.protocol.effects import SendNotification
from zab.protocol.message import Notification
from zab.protocol.states import LOOKING, NOTHING
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.members.election_links import ElectionLinks
from zab.simulator.world.process import Process

ROUND_MAX: Final = 5
"""The highest round of an empty server that has voted for a while."""


def election_loss(context: EnsembleFaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    election = process.election
    later = context.ticks(10)
    how = context.rng.randrange(4)
    if how == 3:
        election.break_off_inbound(two, after_us=None)
    else:
        election.break_off(two, after_us=(0, later, None)[how])
    return True


def election_one_way(context: EnsembleFaultContext) -> bool:
    one, two = context.two()
    process = context.ensemble.process(one)
    if process is None:
        return False
    election = process.election
    election.unreachable.add(two)
    election.break_off(two, after_us=None)

    def mend() -> None:
        election.unreachable.discard(two)

    context.mend_after(context.ticks(20), mend)
    context.mended_at_the_end.append(mend)
    return True


def election_double(context: EnsembleFaultContext) -> bool:
    ensemble, sid = context.ensemble, ServerId(context.victim().number)
    others = [other for other in context.profile.sids if other != sid]
    rng = Random(context.rng.getrandbits(64))
    process = Process(ensemble.machines[sid])
    double = ElectionLinks(
        process, others, ensemble.election_links, 2 * context.profile.tick_ms, lambda _event: None, rng
    )

    def go() -> None:
        if process.dead:
            return
        process.dead = True
        double.process_died(with_power=False, silent_us=0)

    double.start()
    _vote_on(double, others, context.profile.tick_us)
    context.mend_after(context.ticks(20), go)
    context.mended_at_the_end.append(go)
    return True


def _vote_on(double: ElectionLinks, others: list[ServerId], tick_us: int) -> None:
    """Send a vote for itself each tick, while the process lives."""
    if double.process.dead:
        return
    vote = Notification(
        state=LOOKING,
        leader=double.sid,
        zxid=Zxid(0),
        epoch=Epoch(0),
        round=double.rng.randrange(ROUND_MAX),
        lineage=b"",
        amnesiac=True,
        holds=NOTHING,
        marked=False,
        leader_marked=False,
        doubted=False,
    )
    for sid in others:
        double.send(SendNotification(sid, vote))
    double.process.later(tick_us, _vote_on, double, others, tick_us)


ELECTION_FAULTS: Final[Mapping[str, Cause]] = {
    "election_loss": election_loss,
    "election_one_way": election_one_way,
    "election_double": election_double,
}
