"""What election links decide, without any sockets: a connection is a word here, and each effect is looked at."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from datatree.log.zxid import Epoch, Zxid
from zab.member.membership import election_connections as module
from zab.member.membership.election_connections import (
    REDIAL_MS_MAX,
    Abandon,
    Close,
    Dial,
    ElectionConnections,
    Send,
    Tell,
    Wait,
)
from zab.protocol.effects import SendNotification
from zab.protocol.events import ElectionLinkDown, ElectionLinkUp
from zab.protocol.message import Notification
from zab.protocol.states import LOOKING, NOTHING
from zab.quorum.ids import ServerId

TWO, THREE, UNLISTED = ServerId(2), ServerId(3), ServerId(7)
LIFE, NEXT_LIFE, DOUBLE = b"life", b"next life", b"double"


@attrs.frozen
class At:
    text: str


HERE, THERE = At("here:1"), At("there:1")


def vote(sid: ServerId, number: int) -> SendNotification:
    empty = Notification(LOOKING, ServerId(1), Zxid(0), Epoch(0), 0, b"", False, NOTHING, False, False, False)
    return SendNotification(sid, attrs.evolve(empty, round=number))


def started(*sids: ServerId) -> ElectionConnections[str]:
    """A server has begun to dial these; server 2's dial is attempt 1, and so on."""
    links: ElectionConnections[str] = ElectionConnections(dict.fromkeys(sids, HERE), Random(0))
    assert links.start() == [Dial(sid, attempt) for attempt, sid in enumerate(sids, 1)]
    return links


def connected(life: bytes = LIFE) -> ElectionConnections[str]:
    """The connection `out` to server 2 is open."""
    links = started(TWO)
    assert links.reached(TWO, 1, "out", life, 5) == [Tell(ElectionLinkUp(TWO, 5))]
    return links


# ------------------------------------------------------------------------------------------------------------ dialling


def test_each_wait_is_twice_as_long_up_to_a_second_and_all_vary() -> None:
    links = started(TWO)
    waits, attempt = [], 1
    for _ in range(9):
        wait = links.refused(TWO, attempt)[-1]
        assert isinstance(wait, Wait)
        waits.append(wait.ms)
        [dial] = links.waited(TWO, wait.attempt)
        assert isinstance(dial, Dial)
        attempt = dial.attempt
    for ms, middle in zip(waits, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000], strict=True):
        assert 0.8 * middle <= ms <= 1.2 * middle
    assert len(set(waits[-3:])) == 3
    links.reached(TWO, attempt, "out", LIFE, 1)
    [dial] = links.closed("out")
    assert isinstance(dial, Dial)
    wait = links.refused(TWO, dial.attempt)[-1]
    assert isinstance(wait, Wait)
    assert wait.ms < 0.1 * REDIAL_MS_MAX, "after a connection it begins with short ones"


def test_a_link_is_said_to_be_down_once_for_each_reason() -> None:
    links, told, attempt = started(TWO), [], 1
    for reason in [{}, {}, {"knows_us": False}, {"knows_us": False}, {"is_taken": True}, {}]:
        *before, wait = links.refused(TWO, attempt, **reason)
        assert isinstance(wait, Wait)
        told.append(before)
        [dial] = links.waited(TWO, wait.attempt)
        assert isinstance(dial, Dial)
        attempt = dial.attempt
    down = ElectionLinkDown
    assert told == [
        [Tell(down(TWO))],
        [],
        [Tell(down(TWO, knows_us=False))],
        [],
        [Tell(down(TWO, is_taken=True))],
        [Tell(down(TWO))],
    ]


def test_a_connection_that_closes_is_dialled_at_once_and_down_only_when_that_fails() -> None:
    links = started(TWO)
    assert links.refused(TWO, 1)[0] == Tell(ElectionLinkDown(TWO))
    links.waited(TWO, 1)
    links.reached(TWO, 2, "out", LIFE, 1)
    links.admitted(TWO, "in", LIFE)
    assert links.closed("out") == [Dial(TWO, 3)]
    assert links.closed("out") == []
    assert links.refused(TWO, 3)[0] == Tell(ElectionLinkDown(TWO))
    assert links.admitted(TWO, "newer", LIFE)[0] == Close("in"), "that one was still heard"


def test_a_server_that_connects_is_dialled_without_waiting() -> None:
    links = started(TWO)
    links.refused(TWO, 1)
    assert links.admitted(TWO, "in", LIFE) == [Abandon(1), Dial(TWO, 2)]
    assert links.waited(TWO, 1) == []


def test_a_server_that_connects_during_a_dial_is_dialled_once_more_without_waiting() -> None:
    links = started(TWO)
    assert links.admitted(TWO, "in", LIFE) == []
    assert links.refused(TWO, 1) == [Tell(ElectionLinkDown(TWO)), Dial(TWO, 2)]
    assert isinstance(links.refused(TWO, 2)[-1], Wait)


def test_a_dial_that_was_given_up_may_still_lead_to_a_connection_and_nothing_waits_then() -> None:
    links = started(TWO)
    links.refused(TWO, 1)
    assert links.reached(TWO, 1, "out", LIFE, 5) == [Tell(ElectionLinkUp(TWO, 5))]
    assert links.admitted(TWO, "in", LIFE) == []
    assert links.waited(TWO, 1) == []


def test_what_an_abandoned_dial_leads_to_is_ignored() -> None:
    links = started(TWO)
    assert links.meet({TWO: THERE}) == [Abandon(1), Dial(TWO, 2)]
    assert links.refused(TWO, 1) == []
    assert links.reached(TWO, 1, "late", LIFE, 1) == [Close("late")]
    assert links.closed("late") == []
    assert links.reached(TWO, 2, "out", LIFE, 1) == [Tell(ElectionLinkUp(TWO, 1))]


# --------------------------------------------------------------------------------------------------------------- votes


def test_only_the_newest_vote_waits_for_a_connection() -> None:
    links = started(TWO, THREE)
    for number in (1, 2, 3):
        assert links.send(vote(TWO, number)) == []
    assert links.reached(TWO, 1, "out", LIFE, 1) == [Tell(ElectionLinkUp(TWO, 1)), Send("out", vote(TWO, 3))]
    assert links.reached(THREE, 2, "other", LIFE, 1) == [Tell(ElectionLinkUp(THREE, 1))]


def test_one_vote_is_under_way_at_a_time_and_the_newest_is_next() -> None:
    links = connected()
    assert links.send(vote(TWO, 1)) == [Send("out", vote(TWO, 1))]
    assert links.send(vote(TWO, 2)) == links.send(vote(TWO, 3)) == []
    assert links.sent("out") == [Send("out", vote(TWO, 3))]
    assert links.sent("out") == []


@pytest.mark.parametrize(("newer", "next_number"), [((), 1), ((2,), 2)], ids=["none newer", "a newer one"])
def test_a_vote_that_was_under_way_is_sent_again_unless_there_is_a_newer_one(
    newer: tuple[int, ...], next_number: int
) -> None:
    links = connected()
    links.send(vote(TWO, 1))
    for number in newer:
        links.send(vote(TWO, number))
    links.closed("out")
    assert links.reached(TWO, 2, "next", LIFE, 1)[-1] == Send("next", vote(TWO, next_number))


def test_a_vote_that_was_sent_is_not_sent_again() -> None:
    links = connected()
    links.send(vote(TWO, 1))
    links.sent("out")
    links.closed("out")
    assert links.reached(TWO, 2, "next", LIFE, 1) == [Tell(ElectionLinkUp(TWO, 1))]


def test_a_vote_for_nobody_is_dropped() -> None:
    links = connected()
    links.admitted(TWO, "in", LIFE)
    assert links.send(vote(THREE, 1)) == []


# ------------------------------------------------------------------------------------------------------------- inbound


def test_the_newest_connection_of_a_server_is_heard() -> None:
    links = connected()
    assert links.admitted(TWO, "older", LIFE) == []
    assert links.admitted(TWO, "newer", LIFE) == [Close("older")]
    assert links.closed("older") == []
    assert links.admitted(TWO, "newest", LIFE) == [Close("newer")], "the end of an older one is not that of a newer one"


def test_an_unlisted_server_is_answered_on_its_own_connection() -> None:
    links = started()
    assert links.admitted(UNLISTED, "in", LIFE) == []
    assert links.send(vote(UNLISTED, 1)) == [Send("in", vote(UNLISTED, 1))]
    assert links.send(vote(UNLISTED, 2)) == []
    assert links.sent("in") == [Send("in", vote(UNLISTED, 2))]
    assert links.closed("in") == []
    assert links.send(vote(UNLISTED, 3)) == []


def test_unlisted_servers_are_limited_and_one_that_comes_back_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNLISTED_MAX", 2)
    links = connected()
    assert links.admitted(TWO, "member", LIFE) == []
    assert links.admitted(UNLISTED, "first", LIFE) == []
    assert links.admitted(ServerId(8), "second", LIFE) == []
    [close] = links.admitted(ServerId(9), "third", LIFE)
    assert isinstance(close, Close)
    assert close.connection == "third"
    assert "too many" in close.reason
    assert links.admitted(UNLISTED, "again", LIFE) == [Close("first")]
    links.closed("second")
    assert links.admitted(ServerId(9), "fourth", LIFE) == []


# --------------------------------------------------------------------------------------------- two of the same id


def test_another_life_is_asked_for_at_the_address_and_is_heard_when_it_is_there() -> None:
    links = connected()
    links.admitted(TWO, "in", LIFE)
    close_out, dial, refuse = links.admitted(TWO, "other", NEXT_LIFE)
    assert (close_out, dial) == (Close("out"), Dial(TWO, 2))
    assert isinstance(refuse, Close)
    assert "it is dialled again to find out which one it is" in refuse.reason
    assert links.reached(TWO, 2, "out 2", NEXT_LIFE, 1) == [Tell(ElectionLinkUp(TWO, 1)), Close("in")]
    assert links.objection(TWO, NEXT_LIFE) is None
    assert links.admitted(TWO, "newest", NEXT_LIFE) == []


def test_a_double_is_told_to_see_its_myid_while_the_server_is_at_its_address() -> None:
    links = connected()
    links.admitted(TWO, "in", LIFE)
    links.admitted(TWO, "double", DOUBLE)
    assert links.objection(TWO, DOUBLE) is None, "it may be in another life"
    links.reached(TWO, 2, "out 2", LIFE, 1)
    objection = links.objection(TWO, DOUBLE)
    assert objection is not None
    assert "here:1" in objection
    assert links.admitted(TWO, "double again", DOUBLE) == [Close("double again", objection)]
    assert links.objection(TWO, LIFE) is None
    assert links.admitted(TWO, "in 2", LIFE) == [Close("in")]
    links.closed("out 2")
    assert links.objection(TWO, DOUBLE) is None, "nobody is known to be at the address"
    assert links.admitted(TWO, "double at last", DOUBLE) == [Close("in 2")]


def test_who_came_while_nobody_was_at_the_address_goes_when_another_process_is_there() -> None:
    links = started(TWO)
    links.refused(TWO, 1)
    links.admitted(TWO, "early", DOUBLE)
    assert links.reached(TWO, 2, "out", LIFE, 1) == [Tell(ElectionLinkUp(TWO, 1)), Close("early")]
    assert links.objection(TWO, DOUBLE) is not None


@pytest.mark.parametrize(("at_address", "who_comes"), [(b"", LIFE), (LIFE, b"")])
def test_lives_that_have_no_names_are_not_compared(at_address: bytes, who_comes: bytes) -> None:
    links = started(TWO)
    links.admitted(TWO, "early", who_comes)
    assert links.reached(TWO, 1, "out", at_address, 1) == [Tell(ElectionLinkUp(TWO, 1))]
    assert links.admitted(TWO, "in", who_comes) == [Close("early")]


# -------------------------------------------------------------------------------------------------- who is known


def test_who_leaves_is_closed_both_ways_and_who_comes_is_dialled() -> None:
    links = connected()
    links.admitted(TWO, "in", LIFE)
    assert links.meet({THREE: THERE}) == [Close("out"), Close("in"), Dial(THREE, 2)]
    assert links.closed("out") == links.closed("in") == []
    assert links.meet({THREE: THERE}) == []
    assert links.admitted(TWO, "as an unlisted server", LIFE) == []
    assert links.send(vote(TWO, 1)) == [Send("as an unlisted server", vote(TWO, 1))]


def test_a_server_that_moves_is_dialled_there_and_heard_where_it_was() -> None:
    links = connected()
    links.admitted(TWO, "in", LIFE)
    assert links.meet({TWO: THERE}) == [Close("out"), Dial(TWO, 2)]
    assert links.admitted(TWO, "newer", LIFE) == [Close("in")]


def test_an_unlisted_server_that_becomes_known_is_dialled_and_its_votes_go_there() -> None:
    links = started()
    links.admitted(UNLISTED, "in", LIFE)
    assert links.meet({UNLISTED: HERE}) == [Dial(UNLISTED, 1)]
    assert links.send(vote(UNLISTED, 1)) == []
    assert links.reached(UNLISTED, 1, "out", LIFE, 1)[-1] == Send("out", vote(UNLISTED, 1))


def test_nobody_is_dialled_before_the_start() -> None:
    links: ElectionConnections[str] = ElectionConnections({TWO: HERE}, Random(0))
    assert links.meet({TWO: HERE, THREE: HERE}) == []
    assert links.send(vote(THREE, 1)) == []
    assert links.start() == [Dial(TWO, 1), Dial(THREE, 2)]
