"""Whole members, of which the one that leads hears some others no more, or is not heard by them, for good.

Another one leads, and keeps the lead, while the links stay as they are.
"""

from __future__ import annotations

import pytest

from tests.simulator.ensemble.calm import Calm

PATIENCE_TICKS = 50
"""Several initLimits: who elects and is not heard is believed for one."""
KEPT_TICKS = 30


@pytest.mark.parametrize("is_mute", [False, True], ids=["deaf", "mute"])
@pytest.mark.parametrize(
    ("voters", "lost"), [(3, 2), (5, 3), pytest.param(5, 4, marks=pytest.mark.long)], ids=["3", "5-some", "5"]
)
def test_a_leader_that_is_half_deaf_loses_the_lead_for_good(
    monkeypatch: pytest.MonkeyPatch, voters: int, lost: int, is_mute: bool
) -> None:
    run = Calm(monkeypatch, 0, lambda line: None, voters=voters, clients=3, think_us=200_000)
    ensemble = run.ensemble
    assert ensemble.leader is not None
    old = ensemble.leader.sid
    others = [sid for sid in run.profile.sids if sid != old]
    for other in others[:lost]:
        ensemble.network.block(*((old, other) if is_mute else (other, old)))
    quorum, ticks = voters // 2 + 1, 0
    while ensemble.leader is None or ensemble.leader.sid == old or run.serving_count < quorum:
        run.tick()
        ticks += 1
        assert ticks < PATIENCE_TICKS, "nobody else leads"
    new = ensemble.leader
    zxid = new.member.applied
    for _ in range(KEPT_TICKS):
        run.tick()
        assert ensemble.leader is new
    assert run.serving_count >= quorum
    assert new.member.applied > zxid, "what clients write is committed"
    run.observer.compare_trees()
