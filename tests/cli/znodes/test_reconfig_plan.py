"""What a plan of `zab reconfig` says of an ensemble that is in a certain way; without servers."""

from __future__ import annotations

import pytest

from zab.cli.znodes.reconfig_plan import ASKED_NOBODY, NOBODY_SERVES, Plan, Stand, best_of, value_of
from zab.client import ReconfigDisabledError
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of, next_ensemble


def ensemble(*servers: str, more: str = "", version: int = 0x100000001) -> Ensemble:
    """Servers 1, 2, … with these roles."""
    lines = [f"server.{n}=h{n}:2888:3888:{role};2181" for n, role in enumerate(servers, 1)]
    return ensemble_of("\n".join([*lines, more, f"version={version:x}"]).encode())


THREE = ensemble(*["participant"] * 3)
FIVE = ensemble(*["participant"] * 5)
FOLLOWS, LEADS = Stand("follower"), Stand("leader")


def plan(before: Ensemble, after: Ensemble, stands: dict[int, Stand], version: int = -1) -> Plan:
    return Plan(before, after, stands, version)


def refused(*stands: Stand, after: Ensemble = FIVE, before: Ensemble = THREE, version: int = -1) -> str | None:
    found = plan(before, after, dict(enumerate(stands, 1)), version).value["refused"]
    assert found is None or isinstance(found, str)
    return found


def test_a_quorum_of_the_new_ones_has_to_follow() -> None:
    assert refused(LEADS, FOLLOWS, FOLLOWS, NOBODY_SERVES, NOBODY_SERVES) is None
    assert refused(LEADS, FOLLOWS, NOBODY_SERVES, FOLLOWS, NOBODY_SERVES) is None
    assert refused(LEADS, FOLLOWS, Stand("observer"), NOBODY_SERVES, NOBODY_SERVES) is None
    assert refused(LEADS, FOLLOWS, NOBODY_SERVES, Stand("standalone"), NOBODY_SERVES) == (
        "NEWCONFIGNOQUORUM /zookeeper/config: no quorum of the new configuration follows: 3 of servers 1, 2, 3, 4, 5"
    )
    assert refused(LEADS, FOLLOWS, NOBODY_SERVES, Stand("read-only"), NOBODY_SERVES) is not None


def test_who_cannot_be_asked_may_follow() -> None:
    unknown = plan(THREE, FIVE, dict(enumerate([LEADS, FOLLOWS, ASKED_NOBODY, NOBODY_SERVES, NOBODY_SERVES], 1)))
    assert unknown.refused is None
    assert unknown.value["not_known"] == ["whether a quorum of the new configuration follows: server 3 cannot be asked"]
    assert unknown.lines[-1] == f"not known: {unknown.value['not_known'][0]}"
    assert refused(LEADS, ASKED_NOBODY, NOBODY_SERVES, NOBODY_SERVES, NOBODY_SERVES) is not None
    assert plan(THREE, FIVE, dict.fromkeys(range(1, 6), FOLLOWS)).value["not_known"] == []


def test_groups_decide_as_they_do_at_the_servers() -> None:
    after = ensemble(*["participant"] * 3, more="group.1=1:2:3\nweight.1=1\nweight.2=1\nweight.3=0")
    assert refused(LEADS, NOBODY_SERVES, FOLLOWS, after=after) is not None
    assert refused(LEADS, FOLLOWS, NOBODY_SERVES, after=after) is None


def test_one_participant_is_too_few_unless_it_was_enough_before() -> None:
    one = ensemble("participant", "observer", "observer")
    assert (refused(LEADS, FOLLOWS, FOLLOWS, after=one) or "").startswith(
        "BADARGUMENTS /zookeeper/config: 1 participant would be left, and an ensemble has two, unless standaloneEnabled"
    )
    assert refused(LEADS, FOLLOWS, FOLLOWS, before=one, after=one) is None


def test_another_version_than_the_one_in_force() -> None:
    assert refused(LEADS, FOLLOWS, FOLLOWS, after=THREE, version=0x77) == (
        "BADVERSION /zookeeper/config: version 77 is asked for, and 100000001 is in force"
    )
    assert refused(LEADS, FOLLOWS, FOLLOWS, after=THREE, version=0x100000001) is None


def test_what_the_leader_refuses_comes_first() -> None:
    stands = dict.fromkeys(range(1, 6), NOBODY_SERVES)
    disabled = Plan(THREE, FIVE, stands, 0x77, ReconfigDisabledError("/zookeeper/config", detail="so"))
    assert disabled.lines[-1] == "would be refused: RECONFIGDISABLED /zookeeper/config: so"
    assert [line for line in disabled.lines if line.startswith("not known")] == []


@pytest.mark.parametrize("role", ["observer", ""])
def test_a_leader_that_loses_its_vote_hands_the_lead_over(role: str) -> None:
    before = ensemble(*["participant"] * 4)
    after = ensemble(*["participant"] * 3, *[role] * bool(role))
    stands = {1: FOLLOWS, 2: FOLLOWS, 3: FOLLOWS, 4: LEADS}
    leaves = plan(before, after, stands)
    assert leaves.value["hands_over"] == 4
    assert leaves.value["voters_now"] == {"1": "follower", "2": "follower", "3": "follower"}
    assert "server 4 leads, and hands the lead over once this is in force" in leaves.lines
    stays = plan(before, after, {**stands, 1: LEADS, 4: FOLLOWS})
    assert stays.value["hands_over"] is None
    assert not any("hands the lead" in line for line in stays.lines)


def test_whether_one_that_leaves_leads_is_not_always_known() -> None:
    before, after = ensemble(*["participant"] * 4), THREE
    stands = {1: FOLLOWS, 2: FOLLOWS, 3: FOLLOWS}
    assert plan(before, after, {**stands, 4: ASKED_NOBODY}).value["not_known"] == [
        "whether server 4 leads, and so hands the lead over"
    ]
    assert plan(before, after, {**stands, 3: LEADS, 4: ASKED_NOBODY}).value["not_known"] == []


def test_the_answer_of_two_places_that_says_most() -> None:
    assert best_of([NOBODY_SERVES, FOLLOWS]) is FOLLOWS
    assert best_of([NOBODY_SERVES, ASKED_NOBODY]) is ASKED_NOBODY
    assert best_of([NOBODY_SERVES]) is NOBODY_SERVES


def test_each_address_is_there() -> None:
    line = "server.1=[::1]:7811:7911|127.0.0.1:7821:7921:participant;127.0.0.1:7831"
    two = ensemble_of(f"{line}\nserver.2=h2:1:2;3\nversion=1".encode())
    [first, second] = value_of(two)["servers"]
    assert first["addresses"] == [
        {"host": "::1", "quorum_port": 7811, "election_port": 7911},
        {"host": "127.0.0.1", "quorum_port": 7821, "election_port": 7921},
    ]
    assert (first["host"], first["quorum_port"], first["election_port"]) == ("::1", 7811, 7911)
    assert second["addresses"] == [{"host": "h2", "quorum_port": 1, "election_port": 2}]


def test_whether_several_addresses_are_allowed_is_not_known_unless_there_are_some() -> None:
    stands = dict.fromkeys(range(1, 4), FOLLOWS)
    after = next_ensemble(THREE, b"server.3=h3:1:2|h4:1:2;2181", None, None, 2)
    assert plan(THREE, after, stands).value["not_known"] == [
        "whether several addresses of one server are allowed, as multiAddress.enabled=true does"
    ]
    assert plan(after, after, stands).value["not_known"] == []


@pytest.mark.parametrize(
    ("before", "after", "follow", "needed"),
    [
        (3, 5, (1, 2, 3, 4, 5), []),
        (3, 5, (1, 2, 3, 4), []),
        (3, 5, (1, 2, 3), [1, 2, 3]),
        (3, 2, (1, 2, 3), [1, 2]),
        (3, 2, (1, 2), [1, 2]),
        (3, 3, (1, 2), []),
        (1, 2, (1, 2), [1, 2]),
        (4, 3, (1, 2, 4), [1, 2, 4]),
    ],
)
def test_servers_whose_disks_must_not_be_lost_meanwhile_are_named(
    before: int, after: int, follow: tuple[int, ...], needed: list[int]
) -> None:
    """Without one of them there is no quorum of the old, or of the new, among those that follow."""
    stands = {sid: FOLLOWS if sid in follow else NOBODY_SERVES for sid in range(1, 6)}
    made = plan(ensemble(*["participant"] * before), ensemble(*["participant"] * after), stands)
    assert made.refused is None
    assert made.value["needed"] == needed
    assert any(line.startswith("until this is in force: if the disk of one of servers") for line in made.lines) == bool(
        needed
    )


def test_of_one_that_cannot_be_asked_it_is_not_said_that_it_does_not_follow() -> None:
    stands = dict(enumerate([LEADS, FOLLOWS, FOLLOWS, ASKED_NOBODY, NOBODY_SERVES], 1))
    assert plan(THREE, FIVE, stands).value["needed"] == []


def test_a_plan_that_is_refused_names_no_disks() -> None:
    stands = dict(enumerate([LEADS, FOLLOWS, NOBODY_SERVES, NOBODY_SERVES, NOBODY_SERVES], 1))
    assert plan(THREE, FIVE, stands).value["needed"] == []
