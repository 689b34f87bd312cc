"""Which links there are: dialled when they are wanted, again when they fail, and given up when nobody answers."""

from zab.partition.links.dialling import AGAIN_MS, AGAIN_MS_MAX, NEVER, Dialling
from zab.partition.settings.listeners import Endpoint

AT_2, AT_3 = Endpoint("REPLICATION", "b", 2), Endpoint("REPLICATION", "c", 3)


def dialling():
    one = Dialling(timeout_ms=1000)
    one.know({2: AT_2, 3: AT_3})
    return one


def dials(one):
    found, one.dials = one.dials, []
    return found


def test_what_is_wanted_and_lives_is_dialled_once():
    one = dialling()
    one.keep_up(0, [2, 9])
    one.keep_up(1, [2])
    assert dials(one) == [(2, AT_2)]
    assert one.up(7, 2)
    one.keep_up(2, [2])
    assert (dials(one), one.link_to(2), one.link_to(3), one.broker_of(7)) == ([], 7, None, 2)


def test_a_dial_that_fails_is_tried_again_later_each_time():
    one, now, pauses = dialling(), 0, []
    for _ in range(8):
        one.keep_up(now, [2])
        assert dials(one)
        one.failed(2, now)
        one.keep_up(now, [2])
        assert not dials(one)
        pauses.append(one.next_deadline() - now)
        now = one.next_deadline()
    assert pauses[:3] == [AGAIN_MS, 2 * AGAIN_MS, 4 * AGAIN_MS]
    assert pauses[-1] == AGAIN_MS_MAX


def test_a_broker_that_listens_elsewhere_is_dialled_at_once():
    one = dialling()
    one.keep_up(0, [2])
    dials(one)
    one.failed(2, 0)
    one.know({2: AT_3})
    one.keep_up(0, [2])
    assert dials(one) == [(2, AT_3)]


def test_a_second_link_to_a_broker_is_broken_off():
    one = dialling()
    assert one.up(7, 2)
    assert not one.up(8, 2)
    assert [link for link, _ in one.breaks] == [8]
    assert one.down(8, 0) is None
    assert one.link_to(2) == 7
    assert one.down(7, 0) == 2
    assert one.link_to(2) is None


def test_who_owes_an_answer_for_too_long_loses_the_link():
    one = dialling()
    one.up(7, 2)
    one.said(7, 0)
    one.said(7, 500)
    one.heard(7, 600)
    one.keep_up(1599, [2])
    assert (one.breaks, one.next_deadline()) == ([], 1600)
    one.keep_up(1600, [2])
    assert [link for link, _ in one.breaks] == [7]
    assert one.next_deadline() == NEVER


def test_who_answers_keeps_the_link():
    one = dialling()
    one.up(7, 2)
    one.said(7, 0)
    one.heard(7, 900)
    one.keep_up(5000, [2])
    assert not one.breaks
