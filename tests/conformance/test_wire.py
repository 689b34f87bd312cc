"""The client protocol, request by request: ours must answer what the real ZooKeeper answers, byte for byte as far as
two servers can.

Each exchange of `cases` is held with both; zxids (counted from the beginning of the exchange), errors, data, stats and
events must be equal. `DIFFERENCES` is the complete list of what is different on purpose.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.conformance.cases import CASES, UNDECODABLE
from tests.conformance.exchange import Line, run
from tests.conformance.wire import (
    ConnectionClosedError,
    Wire,
    connect_request,
    exists,
    get,
    i32,
    i64,
    set_data,
)
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word

pytestmark = pytest.mark.java


@dataclass(frozen=True)
class Difference:
    """`ours`: the error of each reply. `steady` False: what ZooKeeper answers depends on its threads."""

    reason: str
    ours: tuple[object, ...]
    steady: bool = True


_NULL = "a null path is no path: MARSHALLINGERROR whatever the operation"
_AUTH = "an auth packet that cannot be decoded is answered as any other request: MARSHALLINGERROR"
_ORDER = "what ends a connection does not overtake what was sent before it"

DIFFERENCES = {
    "create ACL null id": Difference("INVALIDACL, as every other list that is none", (-114,)),
    "deleteContainer": Difference("it checks no ACL, so only the leader may ask for it", (0, -6, "closed")),
    "createSession": Difference("only a handshake creates sessions", (-6, "closed")),
    "multi TTL errors": Difference("flags that no znode has fail their part of a multi, not its decoding", (0, 0)),
    "unknown opcode behind a write": Difference(_ORDER, (0, -6, "closed"), steady=False),
    "unknown opcode ends what follows": Difference("nothing is answered after it", (-6, "closed"), steady=False),
    "frame too long behind a request": Difference(_ORDER, (0, "closed"), steady=False),
    "sync path null": Difference(_NULL, (-5, 0)),
    "checkWatches path null": Difference(_NULL, (-5, 0)),
    "removeWatches path null": Difference(_NULL, (-5, 0)),
    "setData path null": Difference(_NULL, (-5, 0)),
    "setACL path null": Difference(_NULL, (-5, 0)),
    "setWatches null lists": Difference("a null list is an empty one", (0, 0)),
    "watch by getChildren of no path": Difference(
        "an empty path is the root, for the watch as for the read", (0, 0, 0)
    ),
    "auth cut": Difference(_AUTH, (-5, 0)),
    "auth without body": Difference(_AUTH, (-5, 0)),
    "auth digest null": Difference("null is taken for empty, which ZooKeeper accepts", (0, 0)),
    "sasl is not set up": Difference("AUTHFAILED instead of a null token, which says nothing", (-115, "closed")),
    "close ends what follows": Difference("nothing is answered behind a closeSession", (0, "closed"), steady=False),
}


def errors(lines: list[Line]) -> tuple[object, ...]:
    """The error of each reply, and "closed"."""
    return tuple(said if isinstance(said, str) else said[2] for _, said in lines if said[0] != "event")  # type: ignore[index]


def without_zxids(lines: list[Line]) -> list[Line]:
    return [(who, said if isinstance(said, str) else (said[0], *said[2:])) for who, said in lines]  # type: ignore[index,misc]


def side_by_side(ours: list[Line], theirs: list[Line]) -> str:
    rows = itertools.zip_longest(ours, theirs)
    return "\n".join(f"  {mine}" if mine == other else f"- {mine}\n+ {other}" for mine, other in rows)


@pytest.mark.parametrize("name", CASES)
def test_same_exchange(name: str, quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    # One case after the other goes to another member: leader and followers must not differ either.
    first = list(CASES).index(name) % len(quiet.members)
    members = quiet.members[first:] + quiet.members[:first]
    mine = run([member.client_port for member in members], CASES[name], "/wire")
    other = run([member.client_port for member in theirs.members], CASES[name], "/wire")
    difference = DIFFERENCES.get(name)
    if difference is not None:
        assert errors(mine) == difference.ours, side_by_side(mine, other)
    if name in UNDECODABLE:
        # ZooKeeper uses a zxid for some writes that cannot be decoded and none for others; ours has one for each (A2).
        mine, other = without_zxids(mine), without_zxids(other)
    if difference is None:
        assert mine == other, side_by_side(mine, other)
    else:
        assert mine != other or not difference.steady, "they do not differ any more"


def test_the_differences_are_cases() -> None:
    assert set(DIFFERENCES) <= set(CASES)


# Handshakes.

Handshake = Callable[[Wire], bytes]
"""The payload of the first frame, given a session that lives."""

HANDSHAKES: dict[str, Handshake] = {
    "new session": lambda _: connect_request(),
    "without the last byte": lambda _: connect_request(read_only=None),
    "read-only wanted": lambda _: connect_request(read_only=True),
    "password null": lambda _: connect_request(password=None),
    "password short": lambda _: connect_request(password=b"x"),
    "password long": lambda _: connect_request(password=bytes(100)),
    "timeout 0": lambda _: connect_request(timeout_ms=0),
    "timeout negative": lambda _: connect_request(timeout_ms=-5),
    "timeout in between": lambda _: connect_request(timeout_ms=1999),
    "timeout too long": lambda _: connect_request(timeout_ms=10**9),
    "version 7": lambda _: i32(7) + connect_request()[4:],
    "zxid from the future": lambda _: connect_request(last_zxid=1 << 60),
    "zxid negative": lambda _: connect_request(last_zxid=-1),
    "unknown session": lambda _: connect_request(session=1 << 58, password=bytes(16)),
    "unknown session without the last byte": lambda _: connect_request(session=1 << 58, read_only=None),
    "negative session": lambda _: connect_request(session=-1),
    "wrong password": lambda live: connect_request(session=live.session, password=b"x" * 16),
    "password null for a session": lambda live: connect_request(session=live.session, password=None),
    "session comes back": lambda live: connect_request(session=live.session, password=live.password),
    "session comes back with a zxid": lambda live: connect_request(
        session=live.session, password=live.password, last_zxid=live.last_zxid
    ),
    "bytes after": lambda _: connect_request() + b"more",
    "cut before the password": lambda _: connect_request()[:24],
    "cut in the password": lambda _: connect_request()[:40],
    "empty": lambda _: b"",
    "a request": lambda _: i32(1) + i32(4) + get("/")[1],
    "password length negative": lambda _: i32(0) + i64(0) + i32(4000) + i64(0) + i32(-9),
    "password length huge": lambda _: i32(0) + i64(0) + i32(4000) + i64(0) + i32(2**31 - 1),
}


def shake_hands(port: int, handshake: Handshake) -> tuple[object, ...]:
    """What the answer says, and what becomes of a request after it."""
    with Wire(port) as live, Wire(port, greet=False) as wire:
        live.ask(*exists("/"))
        said: tuple[object, ...] = ()
        try:
            said = wire.greet(handshake(live))
            said = (*said, wire.session == live.session, wire.session != 0, wire.ask(*exists("/")).error)
            wire.close_session()
        except ConnectionClosedError:
            said = (*said, "closed")
        live.close_session()
        # ZooKeeper may have closed that connection already: without this, the session would expire in another test.
        with Wire(port, session=live.session, password=live.password) as again:
            again.close_session()
        return said


@pytest.mark.parametrize("name", HANDSHAKES)
def test_same_handshake(name: str, quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    other = shake_hands(theirs.members[0].client_port, HANDSHAKES[name])
    for member in quiet.members:
        assert shake_hands(member.client_port, HANDSHAKES[name]) == other


def test_a_wrong_password_leaves_the_session_alone(quiet: ZooKeeperEnsemble) -> None:
    """ZooKeeper closes the older connection of a session before it looks at the password."""
    port = quiet.members[0].client_port
    with Wire(port) as live:
        with Wire(port, session=live.session, password=b"x" * 16) as thief:
            assert thief.session == 0
        assert live.ask(*exists("/")).error == 0
        live.close_session()


def test_a_session_has_one_connection(quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    for ensemble in (quiet, theirs):
        port = ensemble.members[0].client_port
        with Wire(port) as older, Wire(port, session=older.session, password=older.password) as newer:
            assert newer.session == older.session
            with pytest.raises(ConnectionClosedError):
                older.ask(*exists("/"))
            newer.close_session()


def test_a_moved_session_writes_where_it_is(quiet: ZooKeeperEnsemble) -> None:
    """The old connection reads on; its first write ends it without a reply."""
    first, second = (member.client_port for member in quiet.members[:2])
    with Wire(first) as older, Wire(second, session=older.session, password=older.password) as newer:
        assert newer.session == older.session
        assert older.ask(*exists("/")).error == 0
        with pytest.raises(ConnectionClosedError):
            older.ask(*set_data("/zookeeper/quota", b"moved"))
        assert newer.ask(*set_data("/zookeeper/quota", b"")).error == 0
        newer.close_session()


# Four-letter words.

WORDS_LEFT_OUT = {"conf": {"dataDirSize", "dataLogSize"}}
"""Lines that ours do not have: sizes would mean reading directories in the loop that serves clients."""


def beginnings(answer: str, left_out: set[str]) -> list[str]:
    """What comes before the value in each line, as far as standalone servers have the line, too."""
    lines = answer.partition("initLimit=")[0].splitlines()
    return [key for line in lines if (key := re.split("[=:]", line)[0]) not in left_out]


@pytest.mark.parametrize("word", ["ruok", "isro"])
def test_same_short_word(word: str, quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    answer = four_letter_word(theirs.members[0].client_port, word)
    assert [four_letter_word(member.client_port, word) for member in quiet.members] == [answer] * 3


@pytest.mark.parametrize("word", ["srvr", "stat", "conf", "none"])
def test_same_lines(word: str, quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    member = quiet.followers()[0]
    left_out = WORDS_LEFT_OUT.get(word, set())
    answer = four_letter_word(theirs.members[0].client_port, word)
    mine = beginnings(four_letter_word(member.client_port, word), left_out)
    other = beginnings(answer, left_out)
    assert mine == other
