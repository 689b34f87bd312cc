"""What a member makes of digests that differ, apart from messages and trees (E6 wrong trees)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from datatree.log.zxid import Zxid
from zab.member.state.digests import Difference, Digests
from zab.member.state.metrics import Metrics
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.trees.tree_check import Comparison, Finding, TreeCheck
from zab.member.trees.tree_integrity import TreeIntegrity
from zab.protocol import member_message as mmsg
from zab.protocol.effects import Send
from zab.protocol.states import FOLLOWING
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Majority

Z = Zxid(1 << 32 | 5)
LINK = Link(9)
ONE, TWO, THREE = map(ServerId, (1, 2, 3))


@pytest.fixture
def check() -> TreeCheck:
    return TreeCheck(Majority(frozenset({ONE, TWO, THREE})))


def test_position_that_is_not_remembered_settles_nothing(check: TreeCheck) -> None:
    check.suspect(Difference(Z, 1, 2))
    assert check.judge(Zxid(Z + 1), None, 2) is Finding.UNKNOWN
    assert check.is_doubtful


def test_difference_that_a_verdict_has_settled_is_no_reason_for_doubt(check: TreeCheck) -> None:
    """The batch that said another digest may come again: from the log, or from the next leader."""
    assert check.suspect(Difference(Z, 1, 2))
    assert check.judge(Zxid(Z + 1), 4, 4) is Finding.RIGHT
    assert not check.suspect(Difference(Z, 1, 2))
    assert not check.is_doubtful
    assert check.suspect(Difference(Zxid(Z + 2), 1, 2)), "of another position nothing is known"


@pytest.mark.parametrize(("zxid", "is_replay"), [(Zxid(Z - 1), False), (Z, True)])
def test_answer_to_another_comparison_is_not_counted(check: TreeCheck, zxid: Zxid, is_replay: bool) -> None:
    assert check.compare(Z) is not None
    assert check.told(ONE, Z, 7, is_replay=False) is None
    assert check.told(TWO, zxid, 7, is_replay=is_replay) is None
    assert check.told(THREE, Z, 7, is_replay=False) == 7


def integrity_of(check: TreeCheck, *, is_served: bool, outbox: Outbox[object]) -> TreeIntegrity:
    """The part of a learner that asks."""
    settings = SimpleNamespace(sid=ONE)
    peer = SimpleNamespace(
        quorum=check.quorum, settings=settings, serving=is_served, state=FOLLOWING, link_to_leader=LINK
    )
    digests = Digests()
    digests.record(Z, 1)
    applier: Any = SimpleNamespace(digests=digests, applied=Z)
    nobody: Any = SimpleNamespace()
    integrity = TreeIntegrity(cast(PeerDriver, SimpleNamespace(peer=peer)), outbox, applier, nobody, nobody, Metrics())
    integrity.check = check
    return integrity


@pytest.mark.parametrize("is_served", [True, False])
def test_leader_is_asked_once_it_serves_this_member(check: TreeCheck, is_served: bool) -> None:
    """Before UPTODATE a message for the member breaks the protocol, and the link."""
    outbox = Outbox[object]()
    integrity = integrity_of(check, is_served=is_served, outbox=outbox)
    check.suspect(Difference(Z, 1, 2))
    integrity.ask()
    assert outbox.effects == ([Send((LINK,), mmsg.Suspect(Z, 1))] if is_served else [])


def test_tree_is_disputed_until_a_quorum_has_spoken(check: TreeCheck) -> None:
    assert check.compare(Z) is not None
    assert not check.is_disputed, "a difference may be found in another tree as well"
    check.told(ONE, Z, 7, is_replay=False)
    check.replay()
    assert check.is_disputed
    check.give_up()
    assert check.is_disputed
    check.compare(Z)
    check.told(ONE, Z, 7, is_replay=False)
    check.told(TWO, Z, 7, is_replay=False)
    assert not check.is_disputed


def test_e6_most_of_the_answers_are_no_quorum(check: TreeCheck) -> None:
    assert check.compare(Z) is not None
    for sid in (ONE, ServerId(4), ServerId(5)):
        assert check.told(sid, Z, 8, is_replay=False) is None, "the others are observers"
    assert check.told(TWO, Z, 7, is_replay=False) is None
    assert check.told(THREE, Z, 7, is_replay=False) == 7


def test_what_a_member_knew_before_it_was_started_again_still_counts(check: TreeCheck) -> None:
    assert check.compare(Z) is not None
    assert check.told(TWO, Z, 7, is_replay=False) is None
    assert check.told(TWO, Z, None, is_replay=False) is None
    assert check.told(THREE, Z, 7, is_replay=False) == 7


def test_who_has_left_is_not_waited_for(check: TreeCheck) -> None:
    comparison = check.compare(Z)
    assert comparison is not None
    other = Link(10)
    assert comparison.ask({LINK: TWO, other: THREE}) == [LINK, other]
    assert comparison.asked == {TWO: LINK, THREE: other}
    check.told(TWO, Z, 7, is_replay=False)
    assert not comparison.is_answered
    assert comparison.ask({LINK: TWO}) == []
    assert comparison.is_answered


def is_outnumbered(told: dict[ServerId, int | None]) -> bool:
    """Whether the first of three voters is; there may be observers besides."""
    return Comparison(Z, told=told).is_outnumbered(ONE, Majority(frozenset({ONE, TWO, THREE})))


def test_whose_files_lead_to_no_tree_is_outnumbered_by_anybody() -> None:
    assert is_outnumbered({ONE: None, TWO: 7})
    assert not is_outnumbered({ONE: 7, TWO: None, THREE: 8})


def test_who_knows_nothing_outnumbers_nobody() -> None:
    assert not is_outnumbered({ONE: 7, TWO: None, THREE: None})
    assert not is_outnumbered({ONE: None, TWO: None})


def test_observers_outnumber_nobody() -> None:
    four, five = ServerId(4), ServerId(5)
    assert not is_outnumbered({ONE: 7, TWO: 8, four: 8, five: 8})
    assert is_outnumbered({ONE: 7, TWO: 8, THREE: 8})
