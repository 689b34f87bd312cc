"""Actions of an operator on a serving ensemble: no faults themselves, but faults happen meanwhile.

    reconfigure     a server leaves, comes back, or changes its role, if the rules allow it
    hand_over       the leader is told to hand over the lead to a server

`faults` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from datatree.opcodes import OpCode
from datatree.requests import Reconfig
from zab.configuration.reconfiguration import ChangeError, next_ensemble
from zab.member.membership.reconfiguring import ENSEMBLE, in_force
from zab.protocol.events import HandOver
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.faults.reshaping import may_be_next

_ANY_VERSION: Final = -1


def reconfigure(context: EnsembleFaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None or not leader.member.serving:
        return False
    member = leader.member
    sid = context.rng.choice(context.profile.sids)
    role = context.rng.choice(("participant", "participant", "observer"))
    joining: bytes | None = f"server.{sid}=10.0.0.{sid}:2888:3888:{role};2181".encode()
    leaving: bytes | None = None
    if sid in in_force(member.config, member.peer).servers and context.rng.random() < 0.6:
        joining, leaving = None, str(sid).encode()
    try:
        after = next_ensemble(in_force(member.config, member.peer), joining, leaving, None, 0)
    except ChangeError:
        after = None  # the member itself refuses it
    if after is not None and not may_be_next(context, after):
        return False
    body = Reconfig(joining, leaving, None, _ANY_VERSION).encode()
    member.processor.submit(ENSEMBLE, 0, int(OpCode.RECONFIG), body, None)
    return True


def hand_over(context: EnsembleFaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None:
        return False
    leader.tasks.post(HandOver(context.rng.choice(context.profile.sids)))
    return True


MEMBERSHIP_FAULTS: Final[Mapping[str, Cause]] = {"reconfigure": reconfigure, "hand_over": hand_over}
