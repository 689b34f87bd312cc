"""What reads and the requests about a connection itself answer, against the documented table."""

from collections.abc import Callable
from typing import Any

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.jute import Writer
from datatree.opcodes import MULTI_READS, READS, OpCode
from datatree.requests import (
    OPEN_ACL,
    AddAuth,
    GetChildrenPage,
    Multi,
    PathKind,
    PathOnly,
    PathWatch,
    SetAcl,
    SetData,
    SetWatches,
)
from datatree.watches import WATCH_BYTES
from datatree.znode import STAT_LAYOUT
from tests.datatree.stat_fields import FIELDS
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble

BOB = (31, *digest_identity(b"bob:pw"))
READ_ONLY = ((1, b"world", b"anyone"), BOB)
ADMIN_ONLY = ((16, b"world", b"anyone"), BOB)
BOB_ONLY = (BOB,)


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(1)


@pytest.fixture
def client(ensemble: Ensemble) -> Client:
    client = ensemble.session()
    ensemble.do(
        client,
        client.create(b"/a", b"data"),
        client.create(b"/a/b", b"x"),
        client.create(b"/a/c"),
        client.create(b"/a/b/d"),
        client.create(b"/read", b"r", acl=READ_ONLY),
        client.create(b"/admin", b"a", acl=ADMIN_ONLY),
        client.create(b"/bob", b"b", acl=BOB_ONLY),
    )
    return client


def ask(ensemble: Ensemble, client: Client, opcode: int, body: bytes) -> tuple[int, Any]:
    ((_, error, answer),) = ensemble.do(client, client.request(opcode, body))
    return error, answer


def stat(body: bytes) -> dict[str, int]:
    return dict(zip(FIELDS, STAT_LAYOUT.unpack(body), strict=True))


def path_watch(path: bytes, watch: bool = False) -> bytes:
    return PathWatch(path, watch).encode()


def test_get_data_and_exists_show_data_and_stat(ensemble: Ensemble, client: Client) -> None:
    error, (data, found) = ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/a"))
    assert (error, data) == (0, b"data")
    assert (stat(found)["length"], stat(found)["children"], stat(found)["cversion"]) == (4, 2, 2)
    assert ask(ensemble, client, OpCode.EXISTS, path_watch(b"/a")) == (0, found)


def test_get_data_of_null_is_null(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, client.request(OpCode.SET_DATA, SetData(b"/a", None, -1).encode()))
    error, (data, found) = ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/a"))
    assert (error, data, stat(found)["length"]) == (0, None, 0)


def test_children_come_with_and_without_the_stat(ensemble: Ensemble, client: Client) -> None:
    error, names = ask(ensemble, client, OpCode.GET_CHILDREN, path_watch(b"/a"))
    assert (error, sorted(names)) == (0, [b"b", b"c"])
    error, (names, found) = ask(ensemble, client, OpCode.GET_CHILDREN2, path_watch(b"/a"))
    assert (error, sorted(names), stat(found)["children"]) == (0, [b"b", b"c"], 2)
    assert ask(ensemble, client, OpCode.GET_CHILDREN, path_watch(b"/a/c")) == (0, [])


def unwatched(path: bytes) -> PathWatch:
    return PathWatch(path, False)


PATH_READS: dict[OpCode, Callable[[bytes], PathOnly | PathWatch | GetChildrenPage]] = {
    OpCode.EXISTS: unwatched,
    OpCode.GET_DATA: unwatched,
    OpCode.GET_CHILDREN: unwatched,
    OpCode.GET_CHILDREN2: unwatched,
    OpCode.GET_ACL: PathOnly,
    OpCode.GET_ALL_CHILDREN_NUMBER: PathOnly,
    OpCode.GET_CHILDREN_PAGE: lambda path: GetChildrenPage(path, b"", b"", 10),
}
"""The reads of one znode, with what makes their body of its path."""


def test_every_read_of_a_znode_is_tested_here() -> None:
    # test_keeper.py has them
    keepers = {OpCode.FILTERED_LIST, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, OpCode.LIST_RECURSIVE}
    assert set(PATH_READS) == READS - {OpCode.GET_EPHEMERALS, OpCode.MULTI_READ} - keepers


@pytest.mark.parametrize("opcode", PATH_READS)
def test_every_read_refuses_what_is_missing_or_forbidden(ensemble: Ensemble, client: Client, opcode: OpCode) -> None:
    def read(path: bytes) -> tuple[int, Any]:
        return ask(ensemble, client, opcode, PATH_READS[opcode](path).encode())

    assert read(b"/missing") == (ErrorCode.NONODE, None)
    assert read(b"no-slash") == (ErrorCode.NONODE, None)
    assert read(b"/bob") == (ErrorCode.NOAUTH, None)
    assert read(b"/read")[0] == 0
    assert read(b"")[0] == 0
    nobody_may = ErrorCode.OK if opcode == OpCode.GET_ACL else ErrorCode.NOAUTH
    assert read(b"/admin")[0] == nobody_may
    nul = ErrorCode.BADARGUMENTS if opcode == OpCode.EXISTS else ErrorCode.NONODE
    assert read(b"/a\0") == (nul, None)
    for bad in (b"", b"\xff\xff\xff\xff\x00", b"\x00\x00\x00\x08/a", b"\x80\x00\x00\x00"):
        assert ask(ensemble, client, opcode, bad) == (ErrorCode.MARSHALLINGERROR, None)
    assert not client.is_closed


def test_acl_is_masked_for_who_may_not_administrate(ensemble: Ensemble, client: Client) -> None:
    error, (acl, _) = ask(ensemble, client, OpCode.GET_ACL, PathOnly(b"/read").encode())
    assert (error, acl) == (0, ((1, b"world", b"anyone"), (31, b"digest", b"bob:x")))
    error, (acl, _) = ask(ensemble, client, OpCode.GET_ACL, PathOnly(b"/admin").encode())
    assert acl == ADMIN_ONLY
    error, (acl, _) = ask(ensemble, client, OpCode.GET_ACL, PathOnly(b"/a").encode())
    assert acl == OPEN_ACL


def test_digest_auth_opens_what_its_user_may_read(ensemble: Ensemble, client: Client) -> None:
    assert ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/bob"))[0] == ErrorCode.NOAUTH
    assert ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"bob:pw").encode()) == (0, None)
    assert ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/bob"))[1][0] == b"b"
    assert ask(ensemble, client, OpCode.WHO_AM_I, b"") == (0, [(b"ip", b"127.0.0.1"), (b"digest", b"bob")])
    own = SetAcl(b"/a", ((31, b"auth", b""),), -1).encode()
    assert ask(ensemble, client, OpCode.SET_ACL, own)[0] == 0
    assert ask(ensemble, client, OpCode.GET_ACL, PathOnly(b"/a").encode())[1][0] == BOB_ONLY


def test_super_digest_passes_every_acl() -> None:
    ensemble = Ensemble(1, DigestAuthenticationProvider__superDigest=digest_identity(b"root:secret")[1].decode())
    client = ensemble.session()
    ensemble.do(client, client.create(b"/bob", b"b", acl=BOB_ONLY))
    ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"root:wrong").encode())
    assert ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/bob"))[0] == ErrorCode.NOAUTH
    ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"root:secret").encode())
    assert ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/bob"))[0] == 0
    assert ask(ensemble, client, OpCode.SET_DATA, SetData(b"/bob", b"", -1).encode())[0] == 0


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (OpCode.AUTH, AddAuth(b"sasl", b"x").encode()),
        (OpCode.AUTH, AddAuth(b"\xff\xfe", b"x").encode()),
        (OpCode.SASL, b"\x00\x00\x00\x00"),
    ],
)
def test_refused_authentication_is_answered_with_zxid_0_and_ends_the_connection(
    ensemble: Ensemble, client: Client, opcode: int, body: bytes
) -> None:
    client.say(client.request(opcode, body, -4))
    ensemble.settle()
    assert client.take_received() == [("reply", -4, 0, ErrorCode.AUTHFAILED, None)]
    assert client.is_closed


def test_digest_can_be_switched_off() -> None:
    ensemble = Ensemble(1, DigestAuthenticationProvider__enabled="false")
    client = ensemble.session()
    assert ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"bob:pw").encode())[0] == ErrorCode.AUTHFAILED


def test_skip_acl_opens_everything() -> None:
    ensemble = Ensemble(1, skipACL="yes")
    client = ensemble.session()
    ensemble.do(client, client.create(b"/bob", b"b", acl=BOB_ONLY))
    assert ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/bob"))[0] == 0


def test_descendants_are_counted_at_every_depth(ensemble: Ensemble, client: Client) -> None:
    count = ensemble.servers[1].member.tree.znode_count
    assert ask(ensemble, client, OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/a").encode()) == (0, 3)
    assert ask(ensemble, client, OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/a/c").encode()) == (0, 0)
    assert ask(ensemble, client, OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/").encode()) == (0, count - 1)


def test_ephemerals_are_those_of_the_session_below_the_prefix(ensemble: Ensemble, client: Client) -> None:
    other = ensemble.session()
    ensemble.do(other, other.create(b"/a/of-other", b"", 1))
    ensemble.do(client, client.create(b"/a/e1", b"", 1), client.create(b"/e2", b"", 1))
    for prefix, paths in [(b"", [b"/a/e1", b"/e2"]), (b"/", [b"/a/e1", b"/e2"]), (b"/a/e", [b"/a/e1"]), (b"/x", [])]:
        assert ask(ensemble, client, OpCode.GET_EPHEMERALS, Writer().string(prefix).getvalue()) == (0, paths)
    assert ask(ensemble, client, OpCode.GET_EPHEMERALS, b"\xff\xff\xff\xff")[1] == [b"/a/e1", b"/e2"]


@pytest.mark.parametrize("opcode", sorted(MULTI_READS))
def test_a_part_of_a_multi_read_says_what_the_same_read_says_alone(
    ensemble: Ensemble, client: Client, opcode: OpCode
) -> None:
    wanted = PATH_READS[opcode](b"/a")
    alone = ask(ensemble, client, opcode, wanted.encode())
    error, (part,) = ask(ensemble, client, OpCode.MULTI_READ, Multi(((int(opcode), wanted),)).encode())
    assert (error, part.opcode, (part.error, part.value)) == (0, opcode, alone)


def test_each_part_of_a_multi_read_stands_alone(ensemble: Ensemble, client: Client) -> None:
    parts = [
        (OpCode.GET_DATA, b"/a"),
        (OpCode.GET_DATA, b"/no"),
        (OpCode.GET_CHILDREN, b"/a"),
        (OpCode.GET_DATA, b"/bob"),
    ]
    body = Multi(tuple((int(opcode), PathWatch(path, True)) for opcode, path in parts)).encode()
    error, results = ask(ensemble, client, OpCode.MULTI_READ, body)
    assert (error, [(part.opcode, part.error) for part in results]) == (0, [(4, 0), (-1, -101), (8, 0), (-1, -102)])
    assert results[0].value[0] == b"data"
    assert sorted(results[2].value) == [b"b", b"c"]
    assert ensemble.servers[1].member.state.watches.total_count == 0
    assert ask(ensemble, client, OpCode.MULTI_READ, Multi(()).encode()) == (0, [])


def test_multi_read_larger_than_a_client_takes_is_refused() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=10_000)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a", bytes(4_000)))
    for count, error in [(2, 0), (3, ErrorCode.BADARGUMENTS)]:
        body = Multi(((4, PathWatch(b"/a", False)),) * count).encode()
        assert ask(ensemble, client, OpCode.MULTI_READ, body)[0] == error


def test_config_znode_shows_the_ensemble() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session()
    _, (data, found) = ask(ensemble, client, OpCode.GET_DATA, path_watch(b"/zookeeper/config"))
    assert data.splitlines()[0] == b"server.1=127.0.0.1:2001:3001:participant"
    assert data.endswith(b"version=0")
    assert (stat(found)["version"], stat(found)["length"]) == (-1, len(data))


# Watches. Which change fires what is tested in tests/datatree/test_watches.py; here is who registers, and when.


def test_watch_is_registered_only_by_a_read_that_may_register_one(ensemble: Ensemble, client: Client) -> None:
    watches = ensemble.servers[1].member.state.watches
    for request in (
        client.get(b"/no", True),
        client.children(b"/no", True),
        client.get(b"/bob", True),
        client.exists(b"/bob", True),
    ):
        ensemble.do(client, request)
        assert watches.total_count == 0
    for number, request in enumerate(
        (client.get(b"/a", True), client.children(b"/a", True), client.exists(b"/no", True)), 1
    ):
        ensemble.do(client, request)
        assert watches.total_count == number
    ensemble.do(
        client, client.create(b"/no"), client.set(b"/a", b""), client.create(b"/a/new"), client.set(b"/no", b"")
    )
    assert client.events() == [(1, b"/no"), (3, b"/a"), (4, b"/a")]


def test_add_check_and_remove_watches(ensemble: Ensemble, client: Client) -> None:
    def watch(opcode: OpCode, path: bytes, kind: int) -> int:
        return ask(ensemble, client, opcode, PathKind(path, kind).encode())[0]

    assert watch(OpCode.ADD_WATCH, b"/a", 0) == 0
    assert watch(OpCode.ADD_WATCH, b"/a", 2) == ErrorCode.MARSHALLINGERROR
    assert watch(OpCode.CHECK_WATCHES, b"/a", 4) == 0
    assert watch(OpCode.CHECK_WATCHES, b"/a", 1) == ErrorCode.NOWATCHER
    assert watch(OpCode.CHECK_WATCHES, b"/a", 9) == ErrorCode.MARSHALLINGERROR
    assert watch(OpCode.REMOVE_WATCHES, b"/a", 5) == ErrorCode.NOWATCHER
    assert watch(OpCode.REMOVE_WATCHES, b"/a", 3) == 0
    assert watch(OpCode.CHECK_WATCHES, b"/a", 4) == ErrorCode.NOWATCHER


def test_set_watches_tells_at_once_what_was_missed(ensemble: Ensemble, client: Client) -> None:
    seen = ensemble.servers[1].member.tree.applied
    ensemble.do(client, client.set(b"/a", b"new"), client.create(b"/appeared"), client.delete(b"/a/c"))
    body = SetWatches(seen, (b"/a", b"/read", b"/gone"), (b"/appeared",), (b"/a", b"/a/b"), (b"/a",), ())
    client.say(client.request(OpCode.SET_WATCHES2, body.encode(), -8))
    ensemble.settle()
    received = client.take_received()
    assert received[:-1] == [
        ("event", -1, 3, b"/a"),
        ("event", -1, 2, b"/gone"),
        ("event", -1, 1, b"/appeared"),
        ("event", -1, 4, b"/a"),
    ]
    assert received[-1][:2] == ("reply", -8)
    ensemble.do(client, client.set(b"/read", b""), client.set(b"/a", b""))
    assert ensemble.servers[1].member.state.watches.total_count == 3


def test_set_watches_tells_no_change_of_znodes_that_one_may_not_read(ensemble: Ensemble, client: Client) -> None:
    """Asked with one zxid after the other, the events would tell when each was changed: mzxid and pzxid."""
    for seen in (0, ensemble.servers[1].member.tree.applied):
        body = SetWatches(seen, (b"/bob", b"/admin"), (), (b"/bob", b"/admin"), (), ())
        client.say(client.request(OpCode.SET_WATCHES2, body.encode(), -8))
        ensemble.settle()
        assert [each[:2] for each in client.take_received()] == [("reply", -8)], seen
    client.say(client.request(OpCode.SET_WATCHES2, SetWatches(0, (), (b"/bob",), (), (), ()).encode(), -8))
    ensemble.settle()
    assert client.take_received()[0] == ("event", -1, 1, b"/bob"), "a refused exists tells as much"
    assert ensemble.servers[1].member.state.watches.total_count == 4, "what comes is told to who may read it then"
    ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"digest", b"bob:pw").encode(), -4))
    client.say(client.request(OpCode.SET_WATCHES2, SetWatches(0, (b"/bob",), (), (), (), ()).encode(), -8))
    ensemble.settle()
    assert client.take_received()[0] == ("event", -1, 3, b"/bob")


def test_set_watches_of_older_clients_has_no_persistent_lists(ensemble: Ensemble, client: Client) -> None:
    body = SetWatches(1 << 40, (b"/a",), (), ())
    assert ask(ensemble, client, OpCode.SET_WATCHES, body.encode())[0] == 0
    ensemble.do(client, client.set(b"/a", b""))
    ensemble.do(client, client.set(b"/a", b""))
    assert ensemble.servers[1].member.state.watches.total_count == 0


def test_more_watches_than_the_limit_end_the_connection() -> None:
    ensemble = Ensemble(1, maxWatchesPerConnection=3)
    client, other = ensemble.session(), ensemble.session()
    for number in range(3):
        ensemble.do(client, client.exists(b"/%d" % number, True))
    ensemble.do(client, client.exists(b"/2", True))
    assert not client.is_closed
    ensemble.do(client, client.exists(b"/3", True))
    assert client.is_closed
    assert not other.is_closed
    assert ensemble.servers[1].member.state.watches.total_count == 0


def test_more_bytes_of_watches_than_the_limit_end_the_connection() -> None:
    """A path may have as many bytes as a request."""
    ensemble = Ensemble(1, watchLimitBytes=50_000)
    member = ensemble.servers[1].member
    client, other = ensemble.session(), ensemble.session()
    for number in range(4):
        ensemble.do(client, client.exists(b"/%d" % number + b"x" * 12_000, True))
    assert member.state.watches.total_bytes == 4 * (WATCH_BYTES + 12_002)
    ensemble.do(client, client.exists(b"/0" + b"x" * 12_000, True))
    assert not client.is_closed
    ensemble.do(client, client.exists(b"/4" + b"x" * 12_000, True))
    assert client.is_closed
    assert not other.is_closed
    assert member.state.watches.total_bytes == 0
    assert (member.metrics.connections_closed_for_watches, member.metrics.connection_drop_count) == (1, 1)


def test_more_bytes_of_watches_of_all_together_than_the_limit_end_those_with_most() -> None:
    ensemble = Ensemble(1, watchLimitBytes=50_000, totalWatchLimitBytes=100_000)
    member = ensemble.servers[1].member
    clients = [ensemble.session() for _ in range(5)]
    for count, client in enumerate(clients, 1):
        for number in range(count):
            ensemble.do(client, client.exists(b"/%d" % number + b"x" * 6_000, True))
    assert not any(client.is_closed for client in clients)
    ensemble.do(clients[0], clients[0].exists(b"/a" + b"x" * 6_000, True))
    assert [client.is_closed for client in clients] == [False, False, False, False, True]
    assert member.metrics.connections_closed_for_watches == 1
    assert member.state.watches.total_bytes == 11 * (WATCH_BYTES + 6_002)


def test_more_watches_than_the_limit_set_again_at_once_end_the_connection() -> None:
    limited = Ensemble(1, maxWatchesPerConnection=3)
    seen = limited.servers[1].member.tree.applied
    for count, is_closed in ((3, False), (4, True)):
        client = limited.session()
        absent = tuple(b"/%d" % number for number in range(count))
        client.say(client.request(OpCode.SET_WATCHES, SetWatches(seen, (), absent, ()).encode(), -8))
        limited.settle()
        assert client.is_closed is is_closed
