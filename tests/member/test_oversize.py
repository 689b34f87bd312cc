"""Requests above jute.maxbuffer: an answer in its place up to a limit, the end of the connection beyond it."""

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import SetWatches
from tests.direct.members import Ensemble


@pytest.mark.parametrize("size", [1_000, 4_000])
def test_it_is_refused_in_its_place_and_the_connection_goes_on(size: int) -> None:
    ensemble = Ensemble(3, jute__maxbuffer=900, oversizeRequestBytes=4_100)
    client = ensemble.session(ensemble.follower)
    replies = ensemble.do(
        client, client.create(b"/a"), client.create(b"/b", bytes(size)), client.get(b"/a"), client.create(b"/c")
    )
    assert [(xid, error) for xid, error, _ in replies] == [(1, 0), (2, ErrorCode.BADARGUMENTS), (3, 0), (4, 0)]
    assert ensemble.do(client, client.exists(b"/b"))[0][1] == ErrorCode.NONODE
    assert not client.is_closed
    assert client.server.member.metrics.large_requests_rejected == 1


def test_nothing_of_it_is_kept_while_it_comes() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900)
    client = ensemble.session()
    client.replies()
    request = client.create(b"/b", bytes(1 << 20))
    for first in range(0, len(request), 100_000):
        client.say(request[first : first + 100_000])
        ensemble.settle()
        assert client.connection.frames.kept_bytes == 0
    assert [(xid, error) for xid, error, _ in client.replies()] == [(1, ErrorCode.BADARGUMENTS)]
    assert ensemble.do(client, client.create(b"/b"))[0][1] == 0


@pytest.mark.parametrize("limit", [0, 2_000])
def test_above_the_limit_the_connection_ends_as_in_zookeeper(limit: int) -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900, oversizeRequestBytes=limit)
    client = ensemble.session()
    client.replies()
    client.say(client.get(b"/") + client.create(b"/b", bytes(2_000)) + client.get(b"/"))
    ensemble.settle()
    assert [xid for xid, _, _ in client.replies()] == [1]
    assert client.is_closed


def test_a_greeting_is_never_passed_over() -> None:
    ensemble = Ensemble(1)
    client = ensemble.client()
    client.say((1 << 20).to_bytes(4, "big") + bytes(100))
    ensemble.settle()
    assert client.is_closed


def test_who_has_to_prove_who_he_is_is_not_answered_before() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900, enforce__auth__enabled="true", enforce__auth__schemes="digest")
    client = ensemble.session()
    client.replies()
    client.say(client.create(b"/b", bytes(1_000)))
    ensemble.settle()
    assert [error for _, error, _ in client.replies()] == [ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH]
    assert client.is_closed


def test_an_opcode_that_looks_like_the_mark_is_unknown() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    replies = ensemble.do(client, client.request(-(1 << 31)), client.request(OpCode.PING, xid=-2))
    assert [error for _, error, _ in replies] == [ErrorCode.UNIMPLEMENTED]
    assert client.is_closed


def test_watches_are_not_dropped_for_a_client_that_does_not_look_at_the_error() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900)
    client = ensemble.session()
    client.replies()
    client.say(client.request(OpCode.SET_WATCHES, SetWatches(1, (b"/" + b"x" * 1_000,), (), ()).encode(), xid=-8))
    ensemble.settle()
    assert client.replies() == []
    assert client.is_closed
