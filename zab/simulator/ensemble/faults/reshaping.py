"""Faults of an ensemble whose servers come and go all the time.

    reconfigure_all     the whole configuration is replaced: servers, roles, groups and weights
    install             a server, often a removed one, loses its data and restarts with another file: a present or
                        former configuration, and itself

`faults` decides when; `losses` bounds what may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

import attrs

from datatree.log.epochs import INITIALIZE
from datatree.log.zxid import BEFORE_ALL
from datatree.opcodes import OpCode
from datatree.requests import Reconfig
from zab.configuration.dynamic import Ensemble, LineError, parse_dynamic
from zab.configuration.properties import Property
from zab.configuration.reconfiguration import ensemble_of
from zab.member.membership.reconfiguring import ENSEMBLE, quorum_of, servers
from zab.member.settings.zoo_cfg import Config
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext

_ANY_VERSION: Final = -1


def reconfigure_all(context: EnsembleFaultContext) -> bool:
    leader = context.ensemble.leader
    if leader is None or not leader.member.serving:
        return False
    lines = _whole(context.rng, context.profile.sids, with_groups=context.profile.has_groups)
    try:
        after = parse_dynamic([Property(*line.partition("=")[::2], 0) for line in lines])
    except LineError:
        return False  # such as groups without any weight
    if not may_be_next(context, after):
        return False
    body = Reconfig(None, None, ",".join(lines).encode(), _ANY_VERSION).encode()
    leader.member.processor.submit(ENSEMBLE, 0, int(OpCode.RECONFIG), body, None)
    return True


def may_be_next(context: EnsembleFaultContext, ensemble: Ensemble) -> bool:
    """Whether this configuration may be requested, considering what may be lost. If so, it counts there from now on."""
    asked = Membership(BEFORE_ALL, quorum_of(ensemble), servers(ensemble.servers))
    may = context.losses.may_ask_for(asked.quorum)
    if may:
        context.ensemble.observer.configurations.ask(asked)
    return may


def _whole(rng: Random, sids: list[ServerId], *, with_groups: bool) -> list[str]:
    """The lines of a configuration with some of these servers."""
    chosen = [sid for sid in sids if rng.random() < 0.65]
    if len(chosen) < 2:
        chosen = sorted(rng.sample(sids, 2))
    voters = [sid for sid in chosen if rng.random() < 0.8] or chosen[:1]
    if len(voters) < 2 and rng.random() < 0.8:
        voters = chosen[:2]
    lines = [line_of(sid, "participant" if sid in voters else "observer") for sid in chosen]
    if with_groups and len(voters) >= 3 and rng.random() < 0.6:
        groups: dict[int, list[ServerId]] = {}
        count = rng.choice((1, 3))
        for place, sid in enumerate(voters):
            groups.setdefault(1 + place % count, []).append(sid)
        lines += [f"group.{number}={':'.join(map(str, group))}" for number, group in groups.items()]
        lines += [f"weight.{sid}={rng.choice((0, 1, 1, 1, 2, 3))}" for sid in voters]
    return lines


def line_of(sid: int, role: str) -> str:
    """A server line of a configuration."""
    return f"server.{sid}=10.0.0.{sid}:2888:3888:{role};2181"


def install(context: EnsembleFaultContext) -> bool:
    rng, configurations = context.rng, context.ensemble.observer.configurations
    machine = context.victim()
    removed = [sid for sid in context.profile.sids if sid not in configurations.newest.servers]
    if removed and rng.random() < 0.5:
        machine = context.ensemble.machines[rng.choice(removed)]
    once = rng.choice([each for _, each in sorted(configurations.in_force.items())])
    config = with_file(machine.config, once.text, "observer" if rng.random() < 0.5 else "participant")
    if not context.losses.may_be_installed(machine, config):
        return False
    machine.stop(with_power=True)
    machine.lose_everything()
    machine.config = config
    if context.profile.marks_the_wiped:
        machine.disk.replace(INITIALIZE, b"")
    return True


def with_file(config: Config, text: bytes, role: str) -> Config:
    """The settings of a server with this configuration in its file; without text, the configuration stays."""
    before = ensemble_of(text) if text else config.ensemble
    sid = config.server_id
    if sid in before.servers:
        return attrs.evolve(config, ensemble=attrs.evolve(before, version=0))
    own = parse_dynamic([Property(f"server.{sid}", line_of(sid, role).partition("=")[2], 0)]).servers
    return attrs.evolve(config, ensemble=Ensemble({**before.servers, **own}))


RESHAPING_FAULTS: Final[Mapping[str, Cause]] = {"reconfigure_all": reconfigure_all, "install": install}
