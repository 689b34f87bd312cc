"""Requests above jute.maxbuffer: an answer in its place up to a limit, the end of the connection beyond it."""

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import SetWatches
from datatree.watches import NODE_CREATED, NODE_DATA_CHANGED
from tests.rigs.direct.members import Ensemble


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


def test_watches_of_a_connection_before_are_set_again_however_many_they_are() -> None:
    """Watches as the C client and others send them: all in one setWatches, which may be far above jute.maxbuffer."""
    ensemble = Ensemble(1, jute__maxbuffer=900)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/there"), client.create(b"/late"))
    names = [b"/absent-%06d" % number for number in range(20_000)]
    watches = SetWatches(1, (b"/there", b"/late"), tuple(names), (), (), (b"/",))
    client.say(client.request(OpCode.SET_WATCHES2, watches.encode(), xid=-8) + client.get(b"/there"))
    ensemble.settle()
    assert [each[:2] for each in client.received] == [("event", -1), ("event", -1), ("reply", -8), ("reply", 3)]
    assert [error for _, error, _ in client.replies()] == [0, 0]
    assert client.events() == [(NODE_DATA_CHANGED, b"/there"), (NODE_DATA_CHANGED, b"/late")]
    another = ensemble.session()
    for name in (names[0], names[-1], b"/late/below"):
        ensemble.do(another, another.create(name))
    assert client.events() == [(NODE_CREATED, name) for name in (names[0], names[-1], b"/late/below")]
    assert client.server.member.metrics.large_requests_rejected == 0


def test_watches_that_cannot_be_read_end_the_connection() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900)
    client = ensemble.session()
    client.replies()
    client.say(client.request(OpCode.SET_WATCHES, SetWatches(1, (b"/" + b"x" * 1_000,), (), ()).encode(), xid=-8))
    ensemble.settle()
    assert client.replies() == []
    assert client.is_closed


def test_more_watches_than_one_may_have_end_the_connection() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=900, maxWatchesPerConnection=5_000)
    client = ensemble.session()
    client.replies()
    names = tuple(b"/absent-%06d" % number for number in range(20_000))
    client.say(client.request(OpCode.SET_WATCHES, SetWatches(1, (), names, ()).encode(), xid=-8))
    ensemble.settle()
    assert client.replies() == []
    assert client.is_closed
    assert client.server.member.processor.state.watches.count(client.connection) == 0
