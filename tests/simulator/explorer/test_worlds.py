"""Worlds in which others decide than before, configurations are heard of, or the lead is handed over: they are right,
and each of them finds protocols that are broken."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from attrs import evolve

from tests.simulator.explorer.walking import after, steps_of, walk
from zab.protocol import discovery, handover, reconfiguration
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.membership import Membership, Memberships
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Leading
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum
from zab.simulator.explorer.configurations import Reader, text_of
from zab.simulator.explorer.ensemble import Ensemble
from zab.simulator.explorer.exploration import explore, replay
from zab.simulator.explorer.keys import key_of
from zab.simulator.explorer.states import Bounds
from zab.simulator.explorer.worlds import PLAIN, WORLDS

Patch = pytest.MonkeyPatch

QUIET = Bounds(epochs=1, writes=0, crashes=0, breaks=0)
HAND_OVER = evolve(QUIET, writes=1, hand_overs=1)
MOVE = evolve(QUIET, world="move", changes=1)
MOVE_AND_CRASH = evolve(MOVE, epochs=2, crashes=1)
MOVE_AND_WRITE = evolve(MOVE, epochs=2, writes=1)
SHRINK = evolve(QUIET, world="shrink", changes=1)
SHRINK_AND_CRASH = evolve(SHRINK, epochs=2, crashes=1)
SHRINK_AND_HAND_OVER = evolve(SHRINK, epochs=2, hand_overs=1)
REPLACE = evolve(QUIET, voters=4, world="replace", epochs=2, changes=1, crashes=2)
ALONE = evolve(QUIET, world="alone", epochs=3, changes=2, crashes=1, wipes=1)
FRESH = evolve(QUIET, world="fresh")
OUTSIDERS = evolve(QUIET, world="outsiders", epochs=2, writes=1, changes=1, wipes=1)
HEAR_OUTSIDERS = evolve(OUTSIDERS, writes=0)

TO_MOVE = "lead 1; follow 2 1; follow 3 1; settle; reconfigure 1 1"
"""A leader asks that it votes no more, and is the only one that has the question."""
MOVED = TO_MOVE + "; settle; ping 1; settle"
"""2 and 3 decide, and nobody leads."""
ASKED_AGAIN = TO_MOVE + "; store 1; crash 1; start 1"
"""It comes back, and still nobody else has it."""
TO_SHRINK = "lead 3; follow 1 3; follow 2 3; settle; reconfigure 3 1"
LEFT_BEHIND = TO_SHRINK + "; message 1-3 1; store 1; crash 3; down 1-3 1; down 2-3 2; start 3"
"""1 alone has the question."""
SHRUNK = TO_SHRINK + "; settle"
"""The leader is no voter any more, and does not know whom to leave the lead to."""
TO_REPLACE = "lead 2; follow 1 2; follow 3 2; follow 4 2; settle; reconfigure 2 1"
REPLACED = (
    "lead 1; follow 2 1; follow 3 1; follow 4 1; settle; crash 3; settle; reconfigure 1 1; settle; ping 1; settle; "
    "crash 2; settle; start 3"
)
"""2, 3 and 4 decide. 3 was down and does not know 4, the only one of them that is there."""
HEARD = REPLACED + "; hear 3 4; lead 4; follow 3 4"
STALE = (
    "lead 2; follow 1 2; follow 3 2; settle; reconfigure 2 1; settle; crash 3; settle; reconfigure 2 2; settle; "
    "ping 2; settle; lead 1; settle; wipe 2; settle; start 2; start 3"
)
"""3 knows that 2 alone decides, which is long ago; 1 alone does, and 2 has lost its disk."""
RETURNED = "lead 2; follow 3 2; settle; wipe 1; settle; start 1"
"""1 has nothing, and elects."""
LEFT_OVER = RETURNED + "; outsider 1 3; follow 1 2; settle; reconfigure 2 1; settle; ping 2; settle"
"""1 had nothing when it heard who decided elsewhere. It was given everything, and now it and 3 decide."""

RIGHT = {
    "the lead is handed over": (HAND_OVER, "", {"hand-over", "ping"}),
    "a voter is replaced by a new server": (MOVE, "", {"reconfigure", "hear", "ping"}),
    "it writes, and somebody else leads": (MOVE_AND_WRITE, MOVED, {"propose", "lead"}),
    "a leader is taken out": (SHRINK_AND_HAND_OVER, SHRUNK, {"hand-over", "ping"}),
    "who was down meanwhile does not know those who are there": (REPLACE, HEARD, {"message", "store"}),
    "somebody knows only what was long ago": (ALONE, STALE, {"hear"}),
    "nothing is written, and others tell of another ensemble": (FRESH, "", {"outsider"}),
    "others tell of another ensemble to who has nothing": (
        HEAR_OUTSIDERS,
        RETURNED,
        {"outsider", "hear", "reconfigure"},
    ),
    "others have told of another ensemble": (OUTSIDERS, LEFT_OVER, {"propose"}),
}
LARGE = ("a voter is replaced by a new server", "others tell of another ensemble to who has nothing")
"""Each takes more than some seconds. Broken protocols are found in both within a few steps, below."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.longest] if name in LARGE else []) for name in RIGHT]
)
def test_a_world_is_explored_whole_and_is_right(name: str) -> None:
    bounds, given, reached = RIGHT[name]
    report = explore(bounds, steps_of(given))
    assert report.found is None, f"{report.found}"
    assert report.is_whole
    assert reached <= report.reached


def test_configurations_come_into_force_and_servers_learn_of_them() -> None:
    ensemble = Ensemble(MOVE)
    state = after(ensemble, TO_MOVE + "; settle; ping 1; settle")
    facts = [ensemble.sites.facts[number] for number in state.sites]
    assert [set(each.quorum.voters) for each in facts] == [{2, 3}] * 3
    assert not facts[0].is_leading, "it leaves the lead to those who vote"
    assert set(facts[0].candidates) == {2, 3}
    [governing] = ensemble.verdicts.deciding[state.verdict]
    assert governing == {2, 3}


def test_whose_file_does_not_name_those_who_decide_hears_of_them_and_follows() -> None:
    """Only 4 of {2, 3, 4} is up when 3 comes back, a stranger to it."""
    ensemble = Ensemble(REPLACE)
    state = after(ensemble, REPLACED)
    assert set(ensemble.sites.facts[state.sites[2]].quorum.voters) == {1, 2, 3}
    assert ("hear", (3, 4)) in set(ensemble.steps(state))
    heard = ensemble.after(state, ("hear", (3, 4)))
    assert set(ensemble.sites.facts[heard.sites[2]].candidates) == {2, 3, 4}
    assert ("hear", (3, 4)) not in set(ensemble.steps(heard)), "it is no news any more"
    settled = after(ensemble, REPLACED + "; hear 3 4; lead 4; follow 3 4; settle")
    assert ensemble.sites.facts[settled.sites[3]].can_propose, "they serve"


def test_what_an_outsider_says_counts_with_proof_until_the_lineage_is_known() -> None:
    """The first one has no proof; the third one says that 1, 2 and 3 decide, in another lineage."""
    ensemble = Ensemble(OUTSIDERS)

    def heard(given: str) -> Membership | None:
        site = ensemble.sites._sites[after(ensemble, f"{RETURNED}; {given}").sites[0]]
        assert site.peer is not None
        return site.peer.memberships.heard

    assert heard("outsider 1 1") is None
    for voice, voters in ((2, {1}), (3, {1, 2, 3})):
        told = heard(f"outsider 1 {voice}")
        assert told is not None
        assert told.quorum.voters == voters
    assert heard("outsider 1 3; follow 1 2; settle") is None


def test_a_disk_is_lost_only_where_those_who_may_decide_next_can_do_without() -> None:
    """{1, 2} may become {2, 3}, and 3 has the question only on its way."""
    ensemble = Ensemble(evolve(MOVE, wipes=1))
    wiped = {step for step in ensemble.steps(after(ensemble, TO_MOVE)) if step[0] == "wipe"}
    assert wiped == set()
    wiped = {step for step in ensemble.steps(after(ensemble, TO_MOVE + "; settle")) if step[0] == "wipe"}
    assert wiped == {("wipe", (1,))}, "who does not vote any more is not needed"


# ------------------------------------------------------------------------------------------------- what makes it right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "given"),
    [
        (SHRINK_AND_CRASH, TO_SHRINK),
        (MOVE_AND_CRASH, TO_MOVE),
        (ALONE, STALE),
        (OUTSIDERS, RETURNED),
        (FRESH, ""),
    ],
    ids=lambda value: value.world if isinstance(value, Bounds) else "",
)
def test_other_states_have_other_digests(bounds: Bounds, given: str) -> None:
    """Against a key that leaves out too much: two walks end in one state only if the same can come from it."""
    ensemble = Ensemble(bounds)
    following: dict[bytes, set[bytes]] = {}
    for seed in range(15):
        for state, _ in walk(ensemble, Random(seed), 40, given):
            digests = {ensemble.digest(ensemble.after(state, step)) for step in ensemble.steps(state)}
            assert following.setdefault(ensemble.digest(state), digests) == digests
    assert len(following) > 50


def test_what_is_known_of_configurations_is_in_the_key() -> None:
    ensemble = Ensemble(SHRINK)
    [site, *_] = [ensemble.sites._sites[number] for number in ensemble.beginning().sites]
    one, other = (Reader().of_text(text_of(5 << 32 | 1, voters)) for voters in ((1, 2), (1, 3)))
    knows: list[dict[str, object]] = [
        {},
        {"heard": one},
        {"heard": other},
        {"heard": one, "heard_of_lineage": b"another"},
        {"outstanding": None},
        {"in_force": one},
        {"outstanding_at": {2: one}},
        {"outstanding_at": {3: one}},
    ]
    keys = set()
    for known in knows:
        copy = site.copy()
        assert copy.peer is not None
        for name, value in known.items():
            setattr(copy.peer.memberships, name, value)
        keys.add(key_of(copy, ()))
    assert len(keys) == len(knows)


def bounds_of(name: str) -> Bounds:
    return evolve(QUIET, world=name, voters=len(WORLDS[name].files) or 3)


def test_servers_are_renamed_only_where_that_leaves_the_world_as_it_is() -> None:
    renamings = {name: Ensemble(bounds_of(name)).sites.renamings for name in WORLDS}
    assert len(renamings.pop(PLAIN)) == 6
    assert renamings == {
        "shrink": [(1, 2, 3), (2, 1, 3)],
        "move": [(1, 2, 3)],
        "replace": [(1, 2, 3, 4), (1, 3, 2, 4)],
        "alone": [(1, 2, 3)],
        "fresh": [(1, 2, 3), (1, 3, 2)],
        "outsiders": [(1, 2, 3)],
    }


@pytest.mark.slow
def test_a_world_with_its_servers_renamed_is_the_same_state() -> None:
    ensemble = Ensemble(evolve(SHRINK_AND_HAND_OVER, breaks=0))
    one = after(ensemble, "lead 1; follow 2 1; follow 3 1; settle; reconfigure 1 1; settle; hand-over 1 2; settle")
    other = after(ensemble, "lead 2; follow 1 2; follow 3 2; settle; reconfigure 2 1; settle; hand-over 2 1; settle")
    assert one != other
    assert ensemble.digest(one) == ensemble.digest(other)


# ------------------------------------------------------------------------------------------------------ can it fail?


def begin_a_lineage_beside_what_was_heard(patch: Patch) -> None:
    """B3: a member that decides by what it heard begins a lineage, as if nobody had lived."""
    weigh = PeerState._weigh_founding

    def forgetful(peer: PeerState) -> None:
        weigh(peer)
        peer.election.may_found = True

    patch.setattr(PeerState, "_weigh_founding", forgetful)


def keep_what_was_heard_in_another_lineage(patch: Patch) -> None:
    patch.setattr(Memberships, "take_lineage", lambda memberships, lineage: False)


def lead_by_what_another_lineage_decided(patch: Patch) -> None:
    patch.setattr(PeerState, "keep_lineage", lambda peer: None)


def believe_a_stranger_without_proof(patch: Patch) -> None:
    hear = reconfiguration.hear

    def trusting(peer: PeerState, now: int, event: ev.NotificationReceived, *, is_unlisted: bool) -> None:
        hear(peer, now, event, is_unlisted=False)

    patch.setattr(reconfiguration, "hear", trusting)


def follow_a_leader_that_is_behind(patch: Patch) -> None:
    """A member that knows by what it heard who decides may lack what they decided."""
    patch.setattr(discovery, "_is_ahead", lambda peer, handler, message: False)


def commit_by_the_old_quorum_alone(patch: Patch) -> None:
    patch.setattr(Memberships, "_quorum", lambda memberships: memberships.newest.quorum)


def commit_by_the_new_quorum_alone(patch: Patch) -> None:
    def newest(memberships: Memberships) -> Quorum:
        return (memberships.outstanding or memberships.newest).quorum

    patch.setattr(Memberships, "_quorum", newest)


def start_by_what_is_in_force_alone(patch: Patch) -> None:
    """A member does not see after its start that a reconfiguration is outstanding in its log."""

    def before(peer: PeerState, config: bytes) -> Memberships:
        return Memberships(peer._membership_of(config))

    patch.setattr(PeerState, "_memberships_at_start", before)


def follow_without_looking_at_reconfigurations(patch: Patch) -> None:
    append = PeerState.append_reconfiguration

    def careless(peer: PeerState, batch: object) -> None:
        if peer.leading is not None:
            append(peer, batch)  # type: ignore[arg-type]

    patch.setattr(PeerState, "append_reconfiguration", careless)


def decide_by_the_old_configuration_for_ever(patch: Patch) -> None:
    """A member that was taken out goes on to commit with those who decided before."""

    def committed(memberships: Memberships, mark: int) -> bool:
        outstanding = memberships.outstanding
        if outstanding is None or outstanding.version > mark:
            return False
        memberships.outstanding, memberships.quorum = None, memberships.in_force.quorum
        return True

    patch.setattr(Memberships, "committed", committed)


def lead_on_beside_the_heir(patch: Patch) -> None:
    """The heir is told to lead, and its leader goes on."""
    hand_over = handover.leader_try_to_hand_over

    def both(peer: PeerState, leading: Leading, heir: ServerId) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(PeerState, "look", lambda peer, reason: None)
            hand_over(peer, leading, heir)
        if peer.makes_way:
            leading.heir = None

    patch.setattr(handover, "leader_try_to_hand_over", both)


def hand_over_at_once(patch: Patch) -> None:
    """What was proposed is not committed yet."""
    _hand_over_once(patch, lambda peer: True)


def hand_over_what_the_heir_lacks(patch: Patch) -> None:
    """All is committed, but the heir does not have it."""
    _hand_over_once(patch, lambda peer: peer.committed == peer.history.last[0])


def _hand_over_once(patch: Patch, is_time: Callable[[PeerState], bool]) -> None:
    def hasty(peer: PeerState, leading: Leading, heir: ServerId) -> None:
        if is_time(peer):
            peer.emit(fx.Send(tuple(leading.handlers), msg.HandOver(heir)))
            peer.look("the lead is handed over")

    patch.setattr(handover, "leader_try_to_hand_over", hasty)


VARIANTS: list[tuple[Callable[[Patch], None], Bounds, str, str]] = [
    (lead_on_beside_the_heir, HAND_OVER, "", "promises: server 1 says HandOver, and leads on"),
    (hand_over_at_once, HAND_OVER, "", "promises: server 1 says HandOver, and not all of its history"),
    (hand_over_what_the_heir_lacks, HAND_OVER, "", "hand-over: server"),
    (commit_by_the_old_quorum_alone, MOVE, "", "durability: server 1"),
    (commit_by_the_new_quorum_alone, MOVE, "", "durability: server 2"),
    (start_by_what_is_in_force_alone, MOVE_AND_CRASH, ASKED_AGAIN, "durability: server 1"),
    (decide_by_the_old_configuration_for_ever, MOVE_AND_WRITE, TO_MOVE, "durability: server 1"),
    (commit_by_the_old_quorum_alone, SHRINK, TO_SHRINK, "durability: server 3"),
    (follow_without_looking_at_reconfigurations, SHRINK_AND_CRASH, LEFT_BEHIND, "durability: server 1"),
    (commit_by_the_new_quorum_alone, evolve(REPLACE, epochs=1), TO_REPLACE, "durability"),
    (follow_a_leader_that_is_behind, REPLACE, REPLACED, ""),
    (decide_by_the_old_configuration_for_ever, evolve(SHRINK, writes=1), SHRUNK, "durability: server 3"),
    (begin_a_lineage_beside_what_was_heard, ALONE, STALE, "server 2 stops at an assertion"),
    (commit_by_the_old_quorum_alone, ALONE, "lead 2; follow 1 2; follow 3 2; settle; reconfigure 2 1; settle", ""),
    (believe_a_stranger_without_proof, FRESH, "", "leadership: epoch 2"),
    (lead_by_what_another_lineage_decided, FRESH, "", "leadership: epoch 2"),
    (keep_what_was_heard_in_another_lineage, OUTSIDERS, LEFT_OVER, "durability: server 1"),
    (believe_a_stranger_without_proof, OUTSIDERS, "", ""),
]
"""Each with the world that finds it: its bounds and the steps that it begins with; and how what it finds begins."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "bounds", "given", "rule"), VARIANTS, ids=[f"{each[0].__name__}-{each[1].world}" for each in VARIANTS]
)
def test_a_world_finds_the_broken_variant(
    variant: Callable[[Patch], None], bounds: Bounds, given: str, rule: str, monkeypatch: Patch
) -> None:
    variant(monkeypatch)
    found = explore(bounds, steps_of(given)).found
    assert found is not None
    assert found.text.startswith(rule), found.text
    if WORLDS[bounds.world].voices:
        assert "outsider" in {name for name, _ in found.steps}, "what is heard outside has a part in it"
    assert replay(bounds, found.steps)[-1] == found.text


def test_each_world_finds_two_broken_variants() -> None:
    for name in WORLDS:
        assert len({variant for variant, bounds, _, _ in VARIANTS if bounds.world == name}) >= 2, name
