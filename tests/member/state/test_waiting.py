"""Why a member serves nobody is said in words, again and again."""

from __future__ import annotations

import pytest

from tests.protocol.alone import Alone
from tests.rigs.direct.members import Ensemble, Server
from zab.member.state.waiting import WAITING_MS_MAX, WAITING_MS_MIN, reason, why_not_serving
from zab.protocol import events as ev
from zab.protocol.peer_settings import nothing
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId

THREE = ServerId(3)


def said(server: Server) -> list[str]:
    return [text for text in server.traces if text.startswith("no service: ")]


@pytest.fixture
def two_of_three() -> Ensemble:
    """At a first start, when the third one is not there yet."""
    ensemble = Ensemble(3, start=False)
    ensemble.cut.add(THREE)
    for sid, server in ensemble.servers.items():
        if sid != THREE:
            server.answers = type(server.answers)(each for each in server.answers if each.sid != THREE)
    ensemble.settle()
    return ensemble


def test_a_first_start_without_all_voters_says_who_is_missing_and_what_the_marker_does(two_of_three: Ensemble) -> None:
    two_of_three.advance(WAITING_MS_MIN + 1000)
    for sid in (1, 2):
        [text] = said(two_of_three.servers[ServerId(sid)])
        assert text.startswith("no service: server 3 was not heard. No member that was heard has any data, ")
        assert "an empty file `initialize` in the dataDir of each" in text


def test_it_is_said_again_less_and_less_often_and_no_more_once_it_is_over(two_of_three: Ensemble) -> None:
    server = two_of_three.servers[ServerId(1)]
    for count, passed_ms in ((0, WAITING_MS_MIN - 3000), (1, 4000), (1, 18_000), (2, 3000), (3, 41_000)):
        two_of_three.advance(passed_ms)
        assert len(said(server)) == count
    two_of_three.advance(3 * WAITING_MS_MAX)
    assert 5 <= len(said(server)) <= 6
    two_of_three.cut.clear()
    two_of_three.start()
    count = len(said(server))
    two_of_three.advance(2 * WAITING_MS_MAX)
    assert len(said(server)) == count


def test_a_member_that_served_until_now_waits_before_it_says_anything() -> None:
    ensemble = Ensemble(3)
    ensemble.advance(2 * WAITING_MS_MIN)
    alone = ensemble.servers[THREE].member
    assert alone.serving
    ensemble.cut |= {1, 2}
    while alone.serving:
        ensemble.advance(100)
    ensemble.advance(WAITING_MS_MIN - 1000)
    assert not said(ensemble.servers[THREE])
    ensemble.advance(2000)
    assert len(said(ensemble.servers[THREE])) == 1


@pytest.mark.parametrize(
    ("refusal", "all_do", "one_does", "end"),
    [
        (
            {"knows_us": False},
            "do not know server 2: add it with `zab reconfig add`, ",
            "does not know server 2: add it ",
            "; or correct its myid",
        ),
        (
            {"is_taken": True},
            "hear another process as server 2: two have this id, ",
            "hears another process as server 2: ",
            "; see the myid of this member",
        ),
    ],
    ids=["not known", "taken"],
)
def test_a_member_that_others_refuse_says_why_and_nothing_of_a_first_start(
    two_of_three: Ensemble, refusal: dict[str, bool], all_do: str, one_does: str, end: str
) -> None:
    two = two_of_three.servers[ServerId(2)]
    two.answers += [ev.ElectionLinkDown(sid, **refusal) for sid in (ServerId(1), THREE)]
    two_of_three.advance(WAITING_MS_MIN + 1000)
    [text] = said(two)
    assert text.startswith(f"no service: servers 1, 3 {all_do}")
    assert text.endswith(end)
    assert "first start" not in text
    two.answers += [ev.ElectionLinkDown(ServerId(1))]
    two_of_three.settle()
    assert why_not_serving(two.member.peer).startswith(f"no service: server 1 was not heard; server 3 {one_does}")
    two.answers += [ev.ElectionLinkUp(THREE, 1)]
    two_of_three.settle()
    assert "not know" not in why_not_serving(two.member.peer)
    assert "another process" not in why_not_serving(two.member.peer)


def test_a_member_without_a_quorum_says_who_was_not_heard() -> None:
    ensemble = Ensemble(3)
    ensemble.cut |= {1, 2}
    ensemble.advance(60_000)
    alone = ensemble.servers[THREE]
    assert not alone.member.serving
    assert said(alone)[-1] == why_not_serving(alone.member.peer)
    assert "no service: there is no quorum; " in said(alone)[-1]
    assert "first start" not in said(alone)[-1]


def test_an_empty_member_that_heard_of_a_history_says_who_told_it_and_nothing_of_a_first_start() -> None:
    alone = Alone(3, nothing(), 3, takes_unlisted=True)
    alone.vote(7, 7, LEADING)
    assert "server 7 tells of a history, beside which none begins" in reason(alone.peer)
    assert "first start" not in reason(alone.peer)
