"""Restores that cross each other, and whatever else an ensemble is at: one lineage has a quorum, and nobody serves a
mix (B8 restored members)."""

from __future__ import annotations

import pytest

from datatree.opcodes import OpCode
from datatree.requests import Reconfig
from tests.member.membership.reconfigurable import line, reconfigurable
from tests.member.membership.restoring import restore, serving, state_of
from tests.member.requests.asking_read_only import LINES, asking
from tests.rigs.direct.members import Ensemble, Server
from zab.member.state.waiting import why_not_serving
from zab.quorum.ids import ServerId

State = tuple[bytes, int]


def lived(size: int = 3, **options: object) -> tuple[Ensemble, State, State]:
    """Two states that they have left, with /a, and with /a and /b; they are at /c."""
    ensemble = Ensemble(size, **options)  # type: ignore[arg-type]
    client = ensemble.session(ensemble.leader)
    states = []
    for path in (b"/a", b"/b"):
        ensemble.do(client, client.create(path))
        states.append(state_of(ensemble.leader))
    ensemble.do(client, client.create(b"/c"))
    return ensemble, states[0], states[1]


def names(server: Server) -> str:
    return "".join(name for name in "abc" if server.member.tree.get(f"/{name}".encode()) is not None)


def lineages(ensemble: Ensemble) -> set[bytes]:
    """The ids of members that serve."""
    return {server.member.peer.lineage for server in ensemble.servers.values() if server.member.serving}


def test_two_that_are_given_different_states_serve_nobody_and_the_third_one_no_more() -> None:
    ensemble, first, second = lived()
    restore(ensemble, 1, first)
    restore(ensemble, 2, second)
    ensemble.advance(20_000)
    assert serving(ensemble) == set()
    for sid in (1, 2, 3):
        said = why_not_serving(ensemble.servers[ServerId(sid)].member.peer)
        assert said.count("another history") == 1, said
    # Whichever of the two is given to the third one, has a quorum, and says what it says.
    restore(ensemble, 3, second)
    ensemble.advance(20_000)
    assert (serving(ensemble), len(lineages(ensemble))) == ({2, 3}, 1)
    assert [names(ensemble.servers[ServerId(sid)]) for sid in (2, 3)] == ["ab", "ab"]


def test_of_five_the_majority_of_one_state_serves() -> None:
    ensemble, first, second = lived(5)
    for sid, state in ((1, first), (5, second), (2, first), (4, second)):
        restore(ensemble, sid, state)
        ensemble.advance(20_000)
        assert len(lineages(ensemble)) <= 1
    assert serving(ensemble) == set()
    restore(ensemble, 3, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2, 3}
    assert {names(ensemble.servers[ServerId(sid)]) for sid in (1, 2, 3)} == {"a"}


def test_one_that_is_given_it_twice_is_of_a_history_of_its_own() -> None:
    ensemble, first, _ = lived()
    for sid in (1, 1, 2):
        restore(ensemble, sid, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == set()
    restore(ensemble, 3, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == {2, 3}
    assert "another history" in why_not_serving(ensemble.servers[ServerId(1)].member.peer)


@pytest.mark.parametrize("is_leader", [True, False])
def test_one_that_is_parted_takes_no_part_when_it_is_back(is_leader: bool) -> None:
    ensemble, first, _ = lived()
    parted = ensemble.leader if is_leader else ensemble.follower
    others = {int(sid) for sid in ensemble.servers} - {int(parted.sid)}
    ensemble.cut.add(parted.sid)
    ensemble.advance(20_000)
    restore(ensemble, parted.sid, first)
    client = ensemble.session(ensemble.servers[ServerId(min(others))])
    ensemble.do(client, client.create(b"/since"))
    ensemble.cut.clear()
    ensemble.advance(20_000)
    assert serving(ensemble) == others
    for sid in others:
        assert ensemble.servers[ServerId(sid)].member.tree.get(b"/since") is not None


def test_an_observer_alone_serves_nobody_until_the_voters_have_it() -> None:
    ensemble, first, _ = lived(4, observers=1)
    restore(ensemble, 4, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2, 3}
    restore(ensemble, 1, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == {2, 3}
    restore(ensemble, 2, first)
    ensemble.advance(20_000)
    assert serving(ensemble) == {1, 2, 4}
    assert names(ensemble.servers[ServerId(4)]) == "a"


def test_who_reads_only_is_not_taken_back_by_one_that_was_restored() -> None:
    """The others serve what the client has seen, and more: it is gone only after a quorum has continued with the
    snapshot."""
    ensemble, first, _ = lived(**LINES)
    seen = ensemble.leader.member.tree.applied
    restore(ensemble, 1, first)
    ensemble.advance(20_000)
    one = ensemble.servers[ServerId(1)]
    assert one.member.read_only.is_on
    assert serving(ensemble) == {2, 3}
    assert asking(ensemble, one, last_zxid=seen).is_closed
    fresh = asking(ensemble, one)
    assert fresh.response is not None


def test_who_has_not_heard_that_it_is_in_force_has_a_reconfiguration_outstanding() -> None:
    """So it is not restored (`zab.server.restoring`): if it were, with one that knows nothing about it, they would be a
    quorum of the configuration before, and would serve beside the others."""
    ensemble = reconfigurable()
    ensemble.add(4, 5)
    leader = ensemble.leader
    behind, knows = sorted({1, 2, 3} - {int(leader.sid)})
    state = state_of(leader)
    client = ensemble.session(ensemble.servers[ServerId(4)])
    ensemble.cut.add(behind)
    leader.durable_held = True
    body = Reconfig(f"{line(4)},{line(5)}".encode(), None, None, -1).encode()
    client.say(client.request(OpCode.RECONFIG, body))
    ensemble.settle()
    ensemble.cut.add(knows)
    ensemble.release(leader)
    ensemble.settle()
    version = leader.member.peer.memberships.in_force.version
    known = ensemble.servers[ServerId(knows)].member.peer.memberships
    assert known.in_force.version < version
    in_force, outstanding = known.told()
    assert in_force
    assert outstanding == leader.member.peer.memberships.in_force.text
    ensemble.advance(20_000)
    assert serving(ensemble) == {leader.sid, 4, 5}

    ensemble.cut = {leader.sid, 4, 5}
    for sid in (behind, knows):
        restore(ensemble, sid, state)
    ensemble.advance(20_000)
    assert serving(ensemble) == {behind, knows}, "this is what must not be"
