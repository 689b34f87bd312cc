"""Whole members, of which the one that leads gets a slow disk: another one leads, and all judges are content."""

from __future__ import annotations

import pytest

from tests.simulator.ensemble.calm import Calm

PATIENCE_TICKS = 30


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.long
def test_c8_a_leader_with_a_slow_disk_hands_over_and_who_has_it_then_keeps_it(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    said: list[str] = []
    run = Calm(monkeypatch, seed, said.append, voters=3, clients=4, think_us=100_000)
    ensemble = run.ensemble
    slow = ensemble.leader
    assert slow is not None
    slow.machine.disk_us = run.profile.tick_us // 3
    ticks = 0
    while ensemble.leader is slow or ensemble.leader is None:
        run.tick()
        ticks += 1
        assert ticks < PATIENCE_TICKS, "it leads still"
    assert any("this member's disk is slow" in line for line in said)
    assert any("the lead is handed over" in line for line in said)
    for _ in range(PATIENCE_TICKS):
        run.tick()
    assert ensemble.leader is not slow, "it follows, as slowly as it can"
    run.observer.compare_trees()
