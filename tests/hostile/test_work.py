"""Work without bound: little that is asked, and much that has to be done for it. It is refused, or done in slices."""

from __future__ import annotations

import contextlib
import struct

import pytest

from datatree.opcodes import OpCode
from datatree.requests import GetChanges, PathKind, SetData, SetWatches
from tests.hostile.ensembles import Target
from tests.hostile.raw import (
    Client,
    acl_body,
    check_body,
    clients,
    create_body,
    make_crowd,
    multi_body,
    networks,
    text,
    word,
)

SECURE_TOO = (
    "test_multi_of_too_many_parts",
    "test_listings_of_a_crowd",
    "test_feed_of_changes_asked_without_end",
    "test_writes_forwarded_without_end",
)

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

INVALID_ACL, BAD_ARGUMENTS, NO_AUTH, MARSHALLING_ERROR = -114, -8, -102, -5
NO_NODE = -101
DELETE_ANY = struct.pack(">i", -1)
WATCHERS = 2_000


@pytest.fixture
def attacker(target: Target):  # type: ignore[no-untyped-def]
    """A client at the leader."""
    client = Client(target.leader.client_port)
    yield client
    client.close()


def test_list_of_permissions_of_a_megabyte(target: Target, attacker: Client) -> None:
    """A client creates a znode whose list has 30,000 networks: a check of it takes most of a second. So long a list is
    refused."""
    with target.attacked():
        body = text(b"/bomb") + text(b"") + acl_body(networks(30_000)) + bytes(4)
        error, _ = attacker.call(1, body)
        assert error in (INVALID_ACL, MARSHALLING_ERROR)
        assert attacker.create("/bomb", acl=networks(257)) == INVALID_ACL
        assert attacker.call(3, text(b"/bomb") + b"\0")[0] != 0


def test_longest_list_checked_without_end(target: Target, attacker: Client) -> None:
    """A client creates the longest list that may be, and has it checked thousands of times: by pipelined reads, and by
    a multi of as many checks as fit. What a list grants to a connection is worked out once, and the rest takes
    slices."""
    with target.attacked():
        listed = [*networks(255), (31, b"world", b"anyone")]
        assert attacker.create("/list", acl=listed) == 0
        assert attacker.create("/closed", acl=networks(256)) == 0
        asked = [attacker.request(4, text(b"/closed") + b"\0") for _ in range(3000)]
        attacker.sock.sendall(b"".join(asked))
        for _ in asked:
            assert attacker.reply()[0] == NO_AUTH
        error, _ = attacker.call(14, multi_body([(13, check_body("/list"))] * 10_000))
        assert error == 0
        for path in (b"/list", b"/closed"):
            attacker.call(2, text(path) + DELETE_ANY)


def test_multi_of_too_many_parts(target: Target, attacker: Client) -> None:
    """A client sends a multi of a megabyte of checks, or of creates: too many parts are refused and nothing is done."""
    with target.attacked():
        assert attacker.call(14, multi_body([(13, check_body("/"))] * 45_000))[0] == BAD_ARGUMENTS
        creates = [(1, create_body(f"/m{number:05d}")) for number in range(15_000)]
        assert attacker.call(14, multi_body(creates))[0] == BAD_ARGUMENTS
        assert attacker.call(3, text(b"/m00000") + b"\0")[0] == -101


def test_multi_of_as_many_parts_as_may_be(target: Target, attacker: Client) -> None:
    """A client creates 10,000 znodes at once and deletes them at once, on a path of its own choice. It is prepared and
    applied in slices, and those who read meanwhile wait no longer than that takes."""
    with target.attacked():
        creates = [(1, create_body(f"/n{number:05d}")) for number in range(10_000)]
        assert attacker.call(14, multi_body(creates))[0] == 0
        deletes = [(2, text(b"/n%05d" % number) + DELETE_ANY) for number in range(10_000)]
        assert attacker.call(14, multi_body(deletes))[0] == 0


def test_multis_pipelined_by_four(target: Target, attacker: Client) -> None:
    """Four clients have ten multis of 1,000 changes each on their way. A client that asks for one change waits for a
    multi that has begun, and not for all of them."""
    attacker.create("/piped", b"x")
    changes = multi_body([(5, text(b"/piped") + text(b"") + DELETE_ANY)] * 1000)
    for port in (target.leader.client_port, target.follower.client_port):
        with target.attacked(), clients(port, 4) as greedy:
            for client in greedy:
                client.sock.sendall(b"".join(client.request(14, changes) for _ in range(10)))
            for client in greedy:
                assert [client.reply()[0] for _ in range(10)] == [0] * 10
    attacker.call(2, text(b"/piped") + DELETE_ANY)


@pytest.mark.parametrize(
    "body",
    [
        multi_body([(14, multi_body([(14, multi_body([(13, check_body("/"))]))]))]),
        multi_body([(4, text(b"/") + b"\0"), (1, create_body("/x"))]),
        multi_body([(-11, b"")]),
        multi_body([(100, bytes(12))]),
        b"\0\0\0\x0e\0\xff\xff\xff\xff" * 100_000,
        multi_body([(1, create_body("/x"))])[:-9],
        multi_body([(1, create_body("/x"))])[:-9] * 3000,
    ],
    ids=["nested", "reads and writes", "closeSession", "auth", "100,000 deep", "without end", "without end, long"],
)
def test_multi_of_what_may_not_stand_in_one(target: Target, attacker: Client, body: bytes) -> None:
    """A client puts multis into multis, and whatever else: they are no requests, and nothing is done."""
    with target.attacked():
        with contextlib.suppress(EOFError, ConnectionError):
            assert attacker.call(14, body)[0] != 0
        with contextlib.closing(Client(target.leader.client_port)) as other:
            assert other.call(3, text(b"/x") + b"\0")[0] == -101


@pytest.mark.longest
def test_watches_set_again_by_the_hundred_thousand(target: Target, attacker: Client) -> None:
    """A client sets 80,000 watches again, of paths that are gone, with zxids of long ago: each becomes an event. It is
    done in slices, and beyond the limit of watches the connection ends; they are forgotten in slices, too."""
    with target.attacked():
        paths = tuple(b"/w%d" % number for number in range(80_000))
        attacker.send(101, SetWatches(-(1 << 62), paths, (), ()).encode(), xid=-8)
        attacker.send(101, SetWatches(1 << 62, (), paths, ()).encode(), xid=-8)
        some = paths[:40_000]
        attacker.send(105, SetWatches(0, (), (), (), some, some).encode(), xid=-8)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                attacker.get()


def test_fan_out_to_watchers(target: Target) -> None:
    """A few clients watch everything, recursively, and one writes without pause: each write is an event for each of
    them. They are told in slices, and writes wait for that."""
    with target.attacked(), clients(target.leader.client_port, 40) as watchers:
        for watcher in watchers:
            assert watcher.call(106, PathKind(b"/", 1).encode())[0] == 0
        with contextlib.closing(Client(target.leader.client_port)) as writer:
            make_crowd(writer, "/fan", 2000)
            for first in (0, 1000):
                deletes = [(2, text(b"/fan/%06d" % number) + DELETE_ANY) for number in range(first, first + 1000)]
                assert writer.call(14, multi_body(deletes))[0] == 0
            writer.call(2, text(b"/fan") + DELETE_ANY)
        for watcher in watchers:
            watcher.ping()


@pytest.mark.longest
def test_change_that_two_thousand_clients_watch(target: Target) -> None:
    """Two thousand clients of a follower watch a znode, and whether another one exists, and watch them again after each
    change. A change is an event for each of them; they are told in slices."""
    watched, awaited = text(b"/watched") + b"\1", text(b"/awaited") + b"\1"
    with contextlib.closing(Client(target.follower.client_port)) as writer, contextlib.ExitStack() as stack:
        writer.create("/watched")
        watchers: list[Client] = []
        for number in range(WATCHERS):
            source = f"127.0.1.{1 + number % 50}"
            watchers.append(Client(target.follower.client_port, source=source, timeout_ms=40_000))
            stack.callback(watchers[-1].close)
            if number % 200 == 199:
                for watcher in watchers:
                    watcher.send(OpCode.PING, xid=-2)
                assert {watcher.reply()[0] for watcher in watchers} == {0}
        with target.attacked():
            for value in (b"1", b"2", b"3"):
                for watcher in watchers:
                    watcher.send(OpCode.GET_DATA, watched)
                    watcher.send(OpCode.EXISTS, awaited)
                assert {(watcher.reply()[0], watcher.reply()[0]) for watcher in watchers} == {(0, NO_NODE)}
                parts = [(5, SetData(b"/watched", value, -1).encode()), (1, create_body("/awaited"))]
                assert writer.call(OpCode.MULTI, multi_body(parts))[0] == 0
                for watcher in watchers:
                    assert [is_event(watcher.get()) for _ in range(2)] == [True, True]
                assert writer.call(OpCode.DELETE, text(b"/awaited") + DELETE_ANY)[0] == 0
        writer.call(OpCode.DELETE, text(b"/watched") + DELETE_ANY)


def test_watches_of_one_session_that_fire_at_once(target: Target, attacker: Client) -> None:
    """A client of a follower watches 5,000 znodes; one multi creates them, and one deletes them. Each is an event, and
    all are watched again with one request."""
    paths = [b"/fired/%06d" % number for number in range(5000)]
    again = SetWatches(1 << 62, (), tuple(paths), tuple(paths)).encode()
    attacker.create("/fired")
    with target.attacked(), contextlib.closing(Client(target.follower.client_port)) as watcher:
        for opcode, bodies in (
            (1, [create_body(path.decode()) for path in paths]),
            (2, [text(path) + DELETE_ANY for path in paths]),
        ) * 3:
            assert watcher.call(OpCode.SET_WATCHES, again, xid=-8)[0] == 0
            assert attacker.call(OpCode.MULTI, multi_body([(opcode, body) for body in bodies]))[0] == 0
    attacker.call(2, text(b"/fired") + DELETE_ANY)


def is_event(payload: bytes) -> bool:
    """Whether a frame from a member is the notification of a watch."""
    return payload.startswith(b"\xff\xff\xff\xff")


def test_quota_set_over_and_over_a_crowd(target: Target, attacker: Client) -> None:
    """A client sets a quota over 5,000 znodes and removes it, 120 times in a multi of 18 KB, and leaves it there. Each
    was summed up as it was applied, by all members at once. The sums are counted afterwards, in slices."""
    make_crowd(attacker, "/many", 5000)
    attacker.create("/zookeeper/quota/many")
    limits, stats = ("/zookeeper/quota/many/zookeeper_" + name for name in ("limits", "stats"))
    with target.attacked():
        again = [(1, create_body(limits, b"count=5")), (2, text(limits.encode()) + DELETE_ANY)] * 120
        assert attacker.call(14, multi_body([*again, (1, create_body(stats))]))[0] == 0
    for path in (stats, "/zookeeper/quota/many", *(f"/many/{number:06d}" for number in range(5000)), "/many"):
        attacker.send(2, text(path.encode()) + DELETE_ANY)
    for _ in range(5003):
        assert attacker.reply()[0] == 0


def test_multis_that_many_watch(target: Target) -> None:
    """Fifty clients of a follower watch a znode, recursively, and read nothing; another one has it changed 200 times by
    each of 60 multis, all on their way at once. The follower served nobody until it had told of all of them."""
    changes = multi_body([(5, text(b"/told") + text(b"") + DELETE_ANY)] * 200)
    with (
        target.attacked(),
        clients(target.follower.client_port, 50) as watchers,
        contextlib.closing(Client(target.leader.client_port)) as writer,
    ):
        writer.create("/told", b"x")
        for watcher in watchers:
            assert watcher.call(106, PathKind(b"/told", 1).encode())[0] == 0
        writer.sock.sendall(b"".join(writer.request(14, changes) for _ in range(60)))
        for _ in range(60):
            assert writer.reply()[0] == 0
        writer.call(2, text(b"/told") + DELETE_ANY)


def test_listings_of_a_crowd(target: Target, attacker: Client) -> None:
    """A client makes a parent of 10,000, and has it listed, counted and searched for ephemerals, over and over. A
    listing comes in slices, and only its own connection waits."""
    make_crowd(attacker, "/crowd", 10_000, flags=1)
    with target.attacked():
        for opcode, body in (
            (8, text(b"/crowd") + b"\0"),
            (12, text(b"/crowd") + b"\0"),
            (104, text(b"/")),
            (103, text(b"/crowd")),
        ):
            attacker.sock.sendall(b"".join(attacker.request(opcode, body) for _ in range(10)))
            for _ in range(10):
                assert attacker.reply()[0] == 0


def test_session_of_a_crowd_is_closed(target: Target) -> None:
    """A client owns 5,000 ephemerals and closes its session: one transaction, which is applied in slices everywhere."""
    with target.attacked(), contextlib.closing(Client(target.follower.client_port)) as owner:
        make_crowd(owner, "/owned", 5000, flags=1)
        assert owner.call(-11)[0] == 0


def test_paths_without_end(target: Target, attacker: Client) -> None:
    """A client creates a name of a megabyte, and a path 100 deep under recursive watches, which it then writes to."""
    with target.attacked():
        attacker.create("/" + "n" * 1_000_000)
        attacker.call(2, text(b"/" + b"n" * 1_000_000) + DELETE_ANY)
        assert attacker.call(106, PathKind(b"/", 1).encode())[0] == 0
        path = ""
        for _ in range(100):
            path += "/d"
            attacker.send(1, create_body(path))
        for _ in range(100):
            assert attacker.reply()[0] == 0
        for _ in range(100):
            assert attacker.set_data(path, b"x") == 0
        while path:
            attacker.call(2, text(path.encode()) + DELETE_ANY)
            path = path[:-2]
        for bad in ("", "x", "//", "/a/", "/a//b", "/a/../b", "/\0", "/\ud800", "/a\x01"):
            body = text(bad.encode("utf-8", "surrogatepass")) + text(b"") + create_body("/x")[8:]
            assert attacker.call(1, body)[0] != 0, bad


def test_feed_of_changes_asked_without_end(target: Target) -> None:
    """Clients ask for all changes from the beginning, as many times as they may, over and over, and for changes below a
    path that is nowhere. Reading old ones is work of another thread, a page at a time."""
    asked = GetChanges(0, -1, b"", b"/", 1 << 30, 30_000).encode()
    nothing = GetChanges(0, -1, b"", b"/nowhere", 1 << 30, 0).encode()
    with target.attacked(), clients(target.leader.client_port, 8) as attackers:
        for attacker in attackers:
            said = [attacker.request(1000, (asked, nothing)[n % 2], xid=-16 - n) for n in range(200)]
            attacker.sock.sendall(b"".join(said))
        for attacker in attackers:
            for _ in range(100):
                attacker.reply()


@pytest.mark.parametrize("name", ["wchp", "wchc", "dump", "cons", "mntr", "stat"])
def test_four_letter_words_by_the_hundred(target: Target, attacker: Client, name: str) -> None:
    """Anybody asks for the longest answers, one connection after the other and many in one. They come in slices."""
    attacker.call(101, SetWatches(1 << 62, (), tuple(b"/v%d" % n for n in range(20_000)), ()).encode(), xid=-8)
    with target.attacked():
        for _ in range(5):
            assert word(target.leader.client_port, name)
        word(target.leader.client_port, name * 1000)


def test_writes_forwarded_without_end(target: Target) -> None:
    """Clients of a follower send writes as fast as they can, and read no answer: they are held, and clients that wait
    for one answer at a time gets it."""
    with target.attacked(), clients(target.follower.client_port, 10) as attackers:
        for attacker in attackers:
            body = text(b"/innocent") + text(b"x" * 100) + DELETE_ANY
            attacker.sock.sendall(b"".join(attacker.request(5, body) for _ in range(1000)))
        for attacker in attackers:
            for _ in range(1000):
                attacker.reply()
