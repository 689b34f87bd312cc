"""ClickHouse Keeper's operations where they are switched on, by its shapes; unknown opcodes where they are not."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import KEEPERS, OpCode
from datatree.requests import CheckStat, Create, FilteredList, Multi, PathLimit, PathVersion, PathWatch, SetData
from datatree.znode import STAT_LAYOUT
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.jute.keeper_features import features_of
from zab.jute.replies import MultiResult
from zab.member.requests import child_lists, multi_reads
from zab.member.requests import keeper_probes as keeper

OPEN = ((31, b"world", b"anyone"),)
SECRET = ((31, *digest_identity(b"bob:pw")),)


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(3, keeperExtensionsEnabled="true")


@pytest.fixture
def client(ensemble: Ensemble) -> Client:
    """A follower's client: /d has two persistent children and an ephemeral one."""
    client = ensemble.session(ensemble.follower)
    ensemble.do(
        client,
        client.create(b"/d", b"top"),
        client.create(b"/d/p", b"one"),
        client.create(b"/d/q"),
        client.create(b"/d/e", b"three", flags=1),
    )
    return client


def ask(ensemble: Ensemble, client: Client, opcode: int, body: Any) -> tuple[int, Any]:
    ((_, error, answer),) = ensemble.do(client, client.request(opcode, body.encode()))
    return error, answer


def filtered(ensemble: Ensemble, client: Client, which: int, watch: bool = False) -> list[bytes]:
    error, (names, stat) = ask(ensemble, client, OpCode.FILTERED_LIST, FilteredList(b"/d", watch, which))
    assert (error, len(stat)) == (0, 68)
    return sorted(names)


def test_children_of_one_kind(ensemble: Ensemble, client: Client) -> None:
    assert filtered(ensemble, client, 0) == [b"e", b"p", b"q"]
    assert filtered(ensemble, client, 1) == [b"p", b"q"]
    assert filtered(ensemble, client, 2) == [b"e"]
    assert ask(ensemble, client, OpCode.FILTERED_LIST, FilteredList(b"/none", False, 1)) == (ErrorCode.NONODE, None)


@pytest.mark.parametrize("which", [0, 2])
def test_its_watch_is_that_of_get_children(ensemble: Ensemble, client: Client, which: int) -> None:
    filtered(ensemble, client, which, watch=True)
    ensemble.do(client, client.create(b"/d/another"))
    assert client.events() == [(4, b"/d")]


def test_stats_and_data_come_along(ensemble: Ensemble, client: Client) -> None:
    opcode = OpCode.FILTERED_LIST_WITH_STATS_AND_DATA
    error, (names, stat, stats, data) = ask(ensemble, client, opcode, FilteredList(b"/d", False, 1, True, True))
    assert (error, dict(zip(names, data, strict=True))) == (0, {b"p": b"one", b"q": b""})
    for name, found in zip(names, stats, strict=True):
        assert ask(ensemble, client, OpCode.EXISTS, PathWatch(b"/d/" + name, False))[1] == found
    assert ask(ensemble, client, OpCode.EXISTS, PathWatch(b"/d", False))[1] == stat
    _, (names, _, stats, data) = ask(ensemble, client, opcode, FilteredList(b"/d", False, 0, True, False))
    assert (len(names), len(stats), data) == (3, 3, [])
    _, (names, _, stats, data) = ask(ensemble, client, opcode, FilteredList(b"/d", False, 2, False, True))
    assert (names, stats, data) == ([b"e"], [], [b"three"])


def test_what_is_secret_of_a_child_is_not_told(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, client.create(b"/d/s", b"x", acl=SECRET))
    assert filtered(ensemble, client, 0) == [b"e", b"p", b"q", b"s"], "that it is there is no secret"
    assert ask(ensemble, client, OpCode.FILTERED_LIST, FilteredList(b"/d", False, 1))[0] == ErrorCode.NOAUTH
    assert filtered(ensemble, client, 2) == [b"e"]
    opcode = OpCode.FILTERED_LIST_WITH_STATS_AND_DATA
    assert ask(ensemble, client, opcode, FilteredList(b"/d", False, 0, True, False))[0] == ErrorCode.NOAUTH
    assert ask(ensemble, client, opcode, FilteredList(b"/d", False, 0, False, True))[0] == ErrorCode.NOAUTH
    assert ask(ensemble, client, opcode, FilteredList(b"/d", False, 0, False, False))[0] == 0


def test_too_much_at_once_is_refused(ensemble: Ensemble, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    opcode, body = OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, FilteredList(b"/d", True, 0, False, True)
    twice = Multi(((opcode, body), (opcode, body)))
    for module in (child_lists, multi_reads):
        monkeypatch.setattr(module, "FILTERED_COUNT_MAX", 3)
    assert ask(ensemble, client, opcode, body)[0] == 0
    assert ask(ensemble, client, OpCode.MULTI_READ, twice)[0] == ErrorCode.BADARGUMENTS
    for module in (child_lists, multi_reads):
        monkeypatch.setattr(module, "FILTERED_COUNT_MAX", 2)
    assert ask(ensemble, client, opcode, body)[0] == ErrorCode.BADARGUMENTS
    for module in (child_lists, multi_reads):
        monkeypatch.setattr(module, "FILTERED_COUNT_MAX", 100)
    for name in (b"/d/x", b"/d/y"):
        ensemble.do(client, client.create(name, b"z" * 600_000))
    assert ask(ensemble, client, opcode, body)[0] == ErrorCode.BADARGUMENTS
    assert ask(ensemble, client, OpCode.MULTI_READ, Multi(((opcode, body),)))[0] == ErrorCode.BADARGUMENTS


def test_a_multi_read_has_keepers_parts(ensemble: Ensemble, client: Client) -> None:
    parts = (
        (OpCode.EXISTS, PathWatch(b"/d", False)),
        (OpCode.EXISTS, PathWatch(b"/none", False)),
        (OpCode.GET_CHILDREN2, PathWatch(b"/d/p", False)),
        (OpCode.FILTERED_LIST, FilteredList(b"/d", False, 2)),
        (OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, FilteredList(b"/d", False, 2, False, True)),
        (OpCode.GET_DATA, PathWatch(b"/d/p", False)),
    )
    error, found = ask(ensemble, client, OpCode.MULTI_READ, Multi(parts))
    assert error == 0
    assert [result.opcode for result in found] == [3, 3, 12, 12, 506, 4]
    assert found[1].error == ErrorCode.NONODE
    assert (found[2].value[0], found[3].value[0], found[4].value[3], found[5].value[0]) == (
        [],
        [b"e"],
        [b"three"],
        b"one",
    )


FLAGS = (OpCode.GET_DATA, PathWatch(b"/keeper/feature_flags", False))
VERSION = (OpCode.GET_DATA, PathWatch(b"/keeper/api_version", False))
BY_KIND = (OpCode.FILTERED_LIST, FilteredList(b"/d", False, 1))
RECURSIVELY = (OpCode.LIST_RECURSIVE, PathLimit(b"/d", 9))
NOTHING_THERE = PathWatch(b"/none", False)


@pytest.mark.parametrize(
    ("before", "part", "wanted"),
    [
        (None, OpCode.GET_DATA, -1),
        ((OpCode.GET_DATA, PathWatch(b"/d", False)), OpCode.GET_CHILDREN, -1),
        (FLAGS, OpCode.GET_DATA, 4),
        (FLAGS, OpCode.GET_CHILDREN, 8),
        (VERSION, OpCode.GET_DATA, 4),
        (BY_KIND, OpCode.GET_DATA, 4),
        (RECURSIVELY, OpCode.GET_DATA, 4),
        (None, OpCode.EXISTS, 3),
        (None, OpCode.GET_CHILDREN2, 12),
    ],
)
def test_a_part_of_a_multi_read_that_fails_has_keepers_shape_for_its_clients_alone(
    ensemble: Ensemble, client: Client, before: Any, part: OpCode, wanted: int
) -> None:
    if before is not None:
        assert ask(ensemble, client, *before)[0] == 0
    parts = ((part, NOTHING_THERE), (OpCode.GET_DATA, PathWatch(b"/d/p", False)))
    error, found = ask(ensemble, client, OpCode.MULTI_READ, Multi(parts))
    assert (error, [(each.opcode, each.error) for each in found]) == (0, [(wanted, ErrorCode.NONODE), (4, 0)])


def test_keepers_shape_is_not_for_members_that_do_not_have_its_operations() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/keeper"), client.create(b"/keeper/feature_flags"))
    assert ask(ensemble, client, *FLAGS)[0] == 0
    error, (found,) = ask(ensemble, client, OpCode.MULTI_READ, Multi(((OpCode.GET_DATA, NOTHING_THERE),)))
    assert (error, found.opcode, found.error) == (0, -1, ErrorCode.NONODE)


def multi(ensemble: Ensemble, client: Client, *parts: tuple[OpCode, Any]) -> list[MultiResult]:
    error, found = ask(ensemble, client, OpCode.MULTI, Multi(parts))
    assert error == 0
    results: list[MultiResult] = found
    return results


def test_check_not_exists_holds_for_the_whole_multi(ensemble: Ensemble, client: Client) -> None:
    made = (OpCode.CREATE, Create(b"/new", b"", OPEN, 0))
    found = multi(ensemble, client, (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/new", -1)), made)
    assert [(result.opcode, result.error) for result in found] == [(13, 0), (1, 0)]
    found = multi(
        ensemble,
        client,
        (OpCode.SET_DATA, SetData(b"/d", b"", -1)),
        (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/new", -1)),
    )
    assert [result.error for result in found] == [0, ErrorCode.NODEEXISTS]
    found = multi(ensemble, client, (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/new", 0)))
    assert [result.error for result in found] == [ErrorCode.NODEEXISTS]
    found = multi(ensemble, client, (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/new", 7)))
    assert [result.error for result in found] == [0], "there is none of this version"
    ensemble.do(client, client.create(b"/s", acl=SECRET))
    found = multi(ensemble, client, (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/s", 7)))
    assert [result.error for result in found] == [ErrorCode.NOAUTH]


FIELDS = (
    *("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion"),
    *("ephemeralOwner", "dataLength", "numChildren", "pzxid"),
)
ANY = (-1,) * len(FIELDS)


def stat_of(ensemble: Ensemble, client: Client, path: bytes) -> tuple[int, ...]:
    error, stat = ask(ensemble, client, OpCode.EXISTS, PathWatch(path, False))
    assert error == 0
    return STAT_LAYOUT.unpack(stat)


def check(ensemble: Ensemble, client: Client, path: bytes, stat: Sequence[int], version: int = -1) -> int:
    (result,) = multi(ensemble, client, (OpCode.CHECK_STAT, CheckStat(path, version, stat)))
    assert result.opcode == (OpCode.ERROR if result.error else OpCode.CHECK)
    return result.error


def below(ensemble: Ensemble, client: Client, path: bytes, limit: int = 0xFFFF_FFFF) -> list[bytes] | int:
    error, paths = ask(ensemble, client, OpCode.LIST_RECURSIVE, PathLimit(path, limit))
    return error or paths


def test_all_that_is_below_nearer_ones_first(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, *map(client.create, (b"/d/p/1", b"/d/p/1/a", b"/d/q/2")))
    found = below(ensemble, client, b"/d")
    assert isinstance(found, list)
    assert (sorted(found[:3]), sorted(found[3:5]), found[5:]) == (
        [b"/d/e", b"/d/p", b"/d/q"],
        [b"/d/p/1", b"/d/q/2"],
        [b"/d/p/1/a"],
    )
    assert below(ensemble, client, b"/d", 4) == found[:4]
    assert below(ensemble, client, b"/d", 0) == below(ensemble, client, b"/d/e") == []
    assert set(found) < set(below(ensemble, client, b""))  # type: ignore[arg-type]
    assert below(ensemble, client, b"/none") == ErrorCode.NONODE


def test_what_may_not_be_read_is_left_out_with_all_below_it(ensemble: Ensemble, client: Client) -> None:
    closed = ((31 & ~1, b"world", b"anyone"),)
    ensemble.do(client, client.create(b"/d/s", acl=closed), client.create(b"/d/s/x"))
    found = below(ensemble, client, b"/d")
    assert isinstance(found, list)
    assert set(found) == {b"/d/e", b"/d/p", b"/d/q"}
    assert below(ensemble, client, b"/d/s") == ErrorCode.NOAUTH


def test_too_much_below_is_refused(ensemble: Ensemble, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble.do(client, client.create(b"/d/p/1"))
    monkeypatch.setattr(child_lists, "FILTERED_COUNT_MAX", 3)
    assert below(ensemble, client, b"/d") == ErrorCode.BADARGUMENTS
    assert isinstance(below(ensemble, client, b"/d", 3), list), "it need not look further"
    monkeypatch.setattr(child_lists, "FILTERED_COUNT_MAX", 100)
    long = b"/d/p/" + b"l" * 60_000
    small = Ensemble(1, keeperExtensionsEnabled="true", **{"jute.maxbuffer": "70000"})
    other = small.session()
    small.do(other, *map(other.create, (b"/d", b"/d/p", long)))
    assert below(small, other, b"/d") == [b"/d/p", long]
    small.do(other, other.create(b"/d/p/" + b"k" * 60_000))
    assert below(small, other, b"/d") == ErrorCode.BADARGUMENTS


@pytest.mark.parametrize("path", [b"/", b"/d", b"/d/p", b"/d/e"])
def test_check_stat_compares_what_a_client_sees(ensemble: Ensemble, client: Client, path: bytes) -> None:
    stat = stat_of(ensemble, client, path)
    assert check(ensemble, client, path, stat) == 0
    assert check(ensemble, client, path, ANY) == 0
    assert check(ensemble, client, path, ANY, stat[4]) == 0
    assert check(ensemble, client, path, ANY, stat[4] + 1) == ErrorCode.BADVERSION
    for at in range(len(FIELDS)):
        alone = [value if index == at else -1 for index, value in enumerate(stat)]
        assert check(ensemble, client, path, alone) == 0, FIELDS[at]
        alone[at] += 1
        assert check(ensemble, client, path, alone) == ErrorCode.BADVERSION, FIELDS[at]


def test_check_stat_knows_what_is_in_flight(ensemble: Ensemble, client: Client) -> None:
    before = stat_of(ensemble, client, b"/d/p")
    old = Multi(((OpCode.CHECK_STAT, CheckStat(b"/d/p", -1, before)),)).encode()
    replies = ensemble.do(client, client.set(b"/d/p", b"longer"), client.request(OpCode.MULTI, old))
    assert [result.error for result in replies[1][2]] == [ErrorCode.BADVERSION]
    made = (OpCode.CREATE, Create(b"/d/new", b"12", OPEN, 0))
    fresh = [-1] * len(FIELDS)
    fresh[FIELDS.index("dataLength")], fresh[FIELDS.index("numChildren")] = 2, 0
    found = multi(ensemble, client, made, (OpCode.CHECK_STAT, CheckStat(b"/d/new", 0, fresh)))
    assert [(result.opcode, result.error) for result in found] == [(1, 0), (13, 0)]


def test_check_stat_is_refused_as_a_check_is(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, client.create(b"/s", acl=SECRET))
    assert check(ensemble, client, b"/none", ANY) == ErrorCode.NONODE
    assert check(ensemble, client, b"/s", ANY) == ErrorCode.NOAUTH
    assert check(ensemble, client, b"s", ANY) == ErrorCode.BADARGUMENTS
    whole = Multi(((OpCode.CHECK_STAT, CheckStat(b"/d", -1, ANY)),)).encode()
    ((_, error, _),) = ensemble.do(client, client.request(OpCode.MULTI, whole[:-20]))
    assert error == ErrorCode.MARSHALLINGERROR


@pytest.mark.parametrize(
    ("path", "version", "is_gone"),
    [(b"/d/p", -1, True), (b"/d/p", 0, True), (b"/d/p", 3, False), (b"/d", -1, False), (b"/no/ne", -1, False)],
)
def test_try_remove_removes_what_can_be(
    ensemble: Ensemble, client: Client, path: bytes, version: int, is_gone: bool
) -> None:
    before = ask(ensemble, client, OpCode.EXISTS, PathWatch(path, False))[0]
    assert ask(ensemble, client, OpCode.TRY_REMOVE, PathVersion(path, version)) == (0, None)
    after = ask(ensemble, client, OpCode.EXISTS, PathWatch(path, False))[0]
    assert after == (ErrorCode.NONODE if is_gone else before)
    assert len({server.member.tree.digest for server in ensemble.servers.values()}) == 1
    # Once more, in a multi with others.
    found = multi(
        ensemble, client, (OpCode.TRY_REMOVE, PathVersion(path, version)), (OpCode.DELETE, PathVersion(b"/d/q", -1))
    )
    assert [(result.opcode, result.error) for result in found] == [(13, 0), (2, 0)]


def test_try_remove_is_refused_without_the_permission(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, client.create(b"/s", acl=((31 & ~8, b"world", b"anyone"),)), client.create(b"/s/a"))
    assert ask(ensemble, client, OpCode.TRY_REMOVE, PathVersion(b"/s/a", -1))[0] == ErrorCode.NOAUTH
    assert ask(ensemble, client, OpCode.TRY_REMOVE, PathVersion(b"/zookeeper", -1))[0] == ErrorCode.BADARGUMENTS


def test_keeper_tells_what_it_can(ensemble: Ensemble, client: Client) -> None:
    error, (flags, stat) = ask(ensemble, client, OpCode.GET_DATA, PathWatch(b"/keeper/feature_flags", False))
    assert error == 0
    numbers = {number for number in range(16) if flags[number // 8] & (1 << (7 - number % 8))}
    assert numbers == keeper.FEATURES == features_of(flags)
    assert struct.unpack_from(">i", stat, 52) == (2,)
    assert ask(ensemble, client, OpCode.GET_DATA, PathWatch(b"/keeper/api_version", False))[1][0] == b"3"
    assert ask(ensemble, client, OpCode.EXISTS, PathWatch(b"/keeper", False))[0] == 0
    # They are in no tree, and cannot be made up.
    ensemble.do(client, client.create(b"/keeper"), client.create(b"/keeper/api_version", b"9"))
    assert ask(ensemble, client, OpCode.GET_DATA, PathWatch(b"/keeper/api_version", False))[1][0] == b"3"
    for server in ensemble.servers.values():
        assert server.member.tree.digest == server.member.tree.recompute_digest()


@pytest.mark.parametrize("opcode", sorted(KEEPERS | {OpCode.CREATE_IF_NOT_EXISTS}))
def test_they_are_unknown_where_they_are_off(opcode: OpCode) -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    body = FilteredList(b"/", False, 0, True, True) if opcode in (500, 506) else PathVersion(b"/a", -1)
    replies = ensemble.do(client, client.request(opcode, body.encode()), client.create(b"/a"))
    assert [error for _, error, _ in replies] == [ErrorCode.UNIMPLEMENTED]
    assert client.is_closed


def test_off_nothing_is_told_and_nothing_stands_in_a_multi() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert ask(ensemble, client, OpCode.EXISTS, PathWatch(b"/keeper", False))[0] == ErrorCode.NONODE
    parts = [(opcode, PathVersion(b"/", -1)) for opcode in (OpCode.CHECK_NOT_EXISTS, OpCode.TRY_REMOVE)]
    for part in (*parts, (OpCode.REMOVE_RECURSIVE, PathLimit(b"/", 1)), (OpCode.CHECK_STAT, CheckStat(b"/", -1, ANY))):
        (result,) = multi(ensemble, client, part)
        assert result.error == ErrorCode.UNIMPLEMENTED
    for read in ((OpCode.EXISTS, PathWatch(b"/", False)), (OpCode.FILTERED_LIST, FilteredList(b"/", False, 0))):
        assert ask(ensemble, client, OpCode.MULTI_READ, Multi((read,)))[0] == ErrorCode.MARSHALLINGERROR


def test_a_leader_where_it_is_off_refuses() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    follower.member.processor._writes |= {OpCode.TRY_REMOVE}
    client = ensemble.session(follower)
    assert ask(ensemble, client, OpCode.TRY_REMOVE, PathVersion(b"/a", -1))[0] == ErrorCode.UNIMPLEMENTED
