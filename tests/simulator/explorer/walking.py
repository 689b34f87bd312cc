"""Walks through explored ensembles."""

from __future__ import annotations

from random import Random

from zab.simulator.explorer.ensemble import Ensemble
from zab.simulator.explorer.exploration import parsed, replay
from zab.simulator.explorer.states import State, Step


def walk(ensemble: Ensemble, rng: Random, count: int, given: str = "") -> list[tuple[State, Step]]:
    """So many steps at random after the given ones, each with the state before it."""
    state, walked = after(ensemble, given), []
    for _ in range(count):
        steps = [step for step in ensemble.steps(state) if not ensemble.is_beyond(ensemble.after(state, step))]
        if not steps:
            break
        step = rng.choice(steps)
        walked.append((state, step))
        state = ensemble.after(state, step)
    return walked


def after(ensemble: Ensemble, given: str) -> State:
    """The state that these steps lead to."""
    state = ensemble.beginning()
    for line in replay(ensemble.bounds, steps_of(given)):
        if not line.startswith(" "):
            state = ensemble.after(state, parsed(line))
    return state


def steps_of(text: str) -> list[Step]:
    return [parsed(line) for line in text.split(";") if line.strip()]
