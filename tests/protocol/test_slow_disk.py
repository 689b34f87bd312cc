"""A leader whose disk is slower than those of a quorum of others hands the lead over; any other one keeps it."""

from __future__ import annotations

import pytest

from tests.protocol.alone import Leader
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.states import LEADING, LOOKING
from zab.quorum.ids import ServerId

VOTERS = 3
LATE_COUNT = 10
"""Half ticks in a syncLimit."""


def leader_of(voters: int = VOTERS, **settings: int) -> Leader:
    leader = Leader(voters=voters, **settings)
    leader.establish(*range(1, voters))
    return leader


def half_tick(leader: Leader, late_ms: int, *sids: int) -> None:
    """A batch that these followers have at once, and the leader so much later; then the rest of the half tick."""
    rest = leader.peer.settings.tick_ms // 2 - late_ms
    zxid = leader.propose()
    for sid in sids:
        leader.acknowledge(sid, zxid)
    leader.wait(late_ms)
    leader.durable(zxid)
    for sid in set(range(1, leader.sid)) - set(sids):
        leader.acknowledge(sid, zxid)
    leader.wait(rest)
    for sid in range(1, leader.sid):
        leader.hear(10 * sid, msg.Ping(zxid, zxid, 7, [], False))


def quarter(leader: Leader) -> int:
    return leader.peer.settings.tick_ms // 4


def heirs(leader: Leader) -> list[ServerId]:
    return [effect.message.heir for effect in leader.did(fx.Send) if isinstance(effect.message, msg.HandOver)]


def test_a_leader_whose_disk_is_slow_hands_over_to_the_one_that_has_most() -> None:
    leader = leader_of()
    for _ in range(LATE_COUNT - 1):
        half_tick(leader, quarter(leader), 1, 2)
    assert leader.peer.state is LEADING
    half_tick(leader, quarter(leader), 1, 2)
    assert leader.peer.state is LOOKING
    assert heirs(leader) == [2]
    assert leader.peer.makes_way


def test_one_that_is_a_little_later_than_others_keeps_the_lead() -> None:
    leader = leader_of()
    for _ in range(3 * LATE_COUNT):
        half_tick(leader, quarter(leader) - 1, 1, 2)
    assert leader.peer.state is LEADING


def test_a_half_tick_in_which_it_keeps_up_makes_it_begin_again() -> None:
    leader = leader_of()
    for _ in range(3):
        for _ in range(LATE_COUNT - 1):
            half_tick(leader, quarter(leader), 1, 2)
        half_tick(leader, 0, 1, 2)
    assert leader.peer.state is LEADING


def test_a_half_tick_without_a_batch_says_nothing() -> None:
    leader = leader_of()
    for _ in range(LATE_COUNT - 1):
        half_tick(leader, quarter(leader), 1, 2)
        leader.wait(leader.peer.settings.tick_ms // 2)
        for sid in (1, 2):
            leader.hear(10 * sid, msg.Ping(leader.peer.committed, leader.peer.committed, 7, [], False))
    assert leader.peer.state is LEADING
    half_tick(leader, quarter(leader), 1, 2)
    assert heirs(leader) == [2]


@pytest.mark.parametrize(("voters", "quick"), [(3, ()), (3, (1,)), (5, ()), (5, (1,)), (5, (1, 2))])
def test_where_as_many_others_are_as_slow_nobody_is_better(voters: int, quick: tuple[int, ...]) -> None:
    leader = leader_of(voters)
    for _ in range(2 * LATE_COUNT):
        half_tick(leader, quarter(leader), *quick)
    assert leader.peer.state is LEADING


def test_a_batch_that_is_late_over_many_half_ticks_counts_in_each() -> None:
    leader = leader_of(tick_ms=1_000)
    zxid = leader.propose()
    for sid in (1, 2):
        leader.acknowledge(sid, zxid)
    for _ in range(LATE_COUNT - 1):
        assert leader.leading.lag.count < LATE_COUNT
        leader.wait(500)
        for sid in (1, 2):
            leader.hear(10 * sid, msg.Ping(zxid, zxid, 7, [], False))
    assert leader.leading.lag.count == LATE_COUNT - 1


@pytest.mark.parametrize(("sync_limit", "half_ticks"), [(1, 8), (4, 8), (5, 10), (50, 100)])
def test_it_takes_a_sync_limit_and_eight_half_ticks_at_least(sync_limit: int, half_ticks: int) -> None:
    leader = leader_of(sync_limit=sync_limit)
    for count in range(half_ticks):
        assert leader.peer.state is LEADING, count
        half_tick(leader, quarter(leader), 1, 2)
    assert heirs(leader) == [2]


def test_it_goes_on_where_the_one_that_has_most_is_gone_and_tries_again() -> None:
    leader = leader_of(5)
    for _ in range(LATE_COUNT - 1):
        half_tick(leader, quarter(leader), 1, 2, 3, 4)
    leader.tell(ev.QuorumLinkDown(leader.leading.handler_of(ServerId(4)).link))  # type: ignore[union-attr]
    half_tick(leader, quarter(leader), 1, 2, 3)
    assert heirs(leader) == [3]


def test_it_goes_on_where_those_that_are_left_are_no_quorum_without_it() -> None:
    leader = leader_of(5)
    for _ in range(LATE_COUNT - 1):
        half_tick(leader, quarter(leader), 1, 2, 3, 4)
    zxid = leader.propose()
    for sid in (1, 2, 3, 4):
        leader.acknowledge(sid, zxid)
    leader.wait(quarter(leader))
    for sid in (3, 4):
        leader.tell(ev.QuorumLinkDown(leader.leading.handler_of(ServerId(sid)).link))  # type: ignore[union-attr]
    leader.wait(leader.peer.settings.tick_ms // 2 - quarter(leader))
    assert leader.leading.lag.count == LATE_COUNT
    assert heirs(leader) == []
    assert leader.peer.state is LEADING


def test_it_goes_on_where_one_of_a_quorum_of_others_is_behind() -> None:
    """Servers 1, 2 and 3 have what is committed, and 3 is gone; 4 has not."""
    leader = leader_of(5)
    for _ in range(LATE_COUNT - 1):
        half_tick(leader, quarter(leader), 1, 2, 3, 4)
    zxid = leader.propose()
    for sid in (1, 2, 3):
        leader.acknowledge(sid, zxid)
    assert leader.peer.committed == zxid
    leader.wait(quarter(leader))
    leader.tell(ev.QuorumLinkDown(leader.leading.handler_of(ServerId(3)).link))  # type: ignore[union-attr]
    leader.wait(leader.peer.settings.tick_ms // 2 - quarter(leader))
    assert leader.leading.lag.count == LATE_COUNT
    assert heirs(leader) == []
    assert leader.peer.state is LEADING
