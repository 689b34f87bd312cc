"""Members that were given a snapshot begin another history, and each of them only with those that were (B8 restored
members)."""

from __future__ import annotations

import pytest

from tests.member.membership.restoring import restore, serving, state_of
from tests.rigs.direct.members import Ensemble
from zab.member.state.waiting import why_not_serving
from zab.protocol.states import LOOKING
from zab.quorum.ids import ServerId


@pytest.fixture
def lived() -> tuple[Ensemble, tuple[bytes, int], int]:
    """Three members, a state that they have left, and the last zxid that a client has seen."""
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/kept"))
    state = state_of(ensemble.leader)
    ensemble.do(client, client.create(b"/gone"), client.create(b"/gone/too"))
    return ensemble, state, ensemble.leader.member.tree.applied


def test_who_serves_nobody_says_whose_history_is_another_one(lived: tuple[Ensemble, tuple[bytes, int], int]) -> None:
    def said(sid: int) -> str:
        return why_not_serving(ensemble.servers[ServerId(sid)].member.peer)

    ensemble, state, _ = lived
    restore(ensemble, 1, state)
    ensemble.advance(20_000)
    reason = "another history, as after a restore that did not reach all members"
    assert said(1) == f"no service: there is no quorum; servers 2, 3 have {reason}"
    restore(ensemble, 2, state)
    ensemble.advance(20_000)
    assert said(3) == f"no service: there is no quorum; servers 1, 2 have {reason}"
    # Who is gone is said to be missing, and no more.
    ensemble.servers[ServerId(3)].member.peer.election.on_link_down(ensemble.now, ServerId(2))
    assert said(3) == f"no service: there is no quorum; server 2 was not heard; server 1 has {reason}"


def test_once_it_is_given_the_same_nothing_is_said_of_it_any_more(
    lived: tuple[Ensemble, tuple[bytes, int], int],
) -> None:
    ensemble, state, _ = lived
    ensemble.cut.add(3)
    restore(ensemble, 1, state)
    ensemble.advance(20_000)
    first = ensemble.servers[ServerId(1)].member.peer.election
    assert first.of_another_lineage == {2}
    restore(ensemble, 2, state)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2}
    assert first.of_another_lineage == set()


# The session of the state ends after ten seconds, and that is a transaction.


def is_let_in(ensemble: Ensemble, sid: int, seen: int) -> bool:
    client = ensemble.client(ensemble.servers[ServerId(sid)])
    client.say(client.connect_request(seen=seen))
    ensemble.settle()
    return not client.is_closed


def test_those_that_were_and_those_that_were_not_take_no_part_in_each_other(
    lived: tuple[Ensemble, tuple[bytes, int], int],
) -> None:
    ensemble, state, _ = lived
    restore(ensemble, 1, state)
    ensemble.advance(20_000)
    assert serving(ensemble) == {2, 3}
    restore(ensemble, 2, state)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2}
    assert ensemble.servers[ServerId(3)].member.peer.state is LOOKING
    assert ensemble.servers[ServerId(1)].member.tree.get(b"/gone") is None
    restore(ensemble, 3, state)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2, 3}


def test_who_has_seen_what_is_gone_is_let_in(lived: tuple[Ensemble, tuple[bytes, int], int]) -> None:
    ensemble, state, seen = lived
    for sid in (1, 2, 3):
        restore(ensemble, sid, state)
    ensemble.advance(2_000)
    assert serving(ensemble) == {1, 2, 3}
    assert seen > ensemble.leader.member.tree.applied
    assert is_let_in(ensemble, 2, seen)
    # From here on zxids say again what has happened.
    epoch = ensemble.leader.member.tree.applied >> 32
    assert epoch > seen >> 32, "no zxid comes a second time"
    assert is_let_in(ensemble, 3, seen)
    assert not is_let_in(ensemble, 3, ensemble.leader.member.tree.applied + 1)


def test_who_has_seen_something_since_is_not_let_in_before_it_is_there(
    lived: tuple[Ensemble, tuple[bytes, int], int],
) -> None:
    ensemble, state, _ = lived
    for sid in (1, 2, 3):
        restore(ensemble, sid, state)
    ensemble.advance(2_000)
    assert serving(ensemble) == {1, 2, 3}
    behind = ensemble.others(ensemble.leader)[0]
    first = (behind.member.peer.current_epoch << 32) + 1
    assert not is_let_in(ensemble, behind.sid, first)


def test_a_first_start_lets_nobody_in_who_has_seen_anything() -> None:
    ensemble = Ensemble(3)
    assert ensemble.leader.member.tree.applied == 0
    assert not is_let_in(ensemble, 1, 1)
