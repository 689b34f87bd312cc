"""removeRecursive in whole members: a subtree goes in one transaction, or none of it does."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, Create, Multi, PathLimit, PathVersion, PathWatch, SetData
from datatree.slices import PARTS
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.jute.replies import ReplyHeader
from zab.protocol.features import ALL, KEEPER_REMOVALS
from zab.wire.frames import FrameReader

UNDELETABLE = ((31 & ~8, b"world", b"anyone"),)
SECRET = ((31, *digest_identity(b"bob:pw")),)
NO_LIMIT = 0xFFFF_FFFF
SUBTREE = (b"/d", b"/d/a", b"/d/a/x", b"/d/b")


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(3, keeperExtensionsEnabled="true")


@pytest.fixture
def client(ensemble: Ensemble) -> Client:
    """A follower's client; `SUBTREE` exists, and /e beside it."""
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, *(client.create(path, path) for path in (*SUBTREE, b"/e")))
    return client


def remove(client: Client, path: bytes, limit: int = NO_LIMIT) -> bytes:
    return client.request(OpCode.REMOVE_RECURSIVE, PathLimit(path, limit).encode())


def removed(ensemble: Ensemble, client: Client, path: bytes, limit: int = NO_LIMIT) -> int:
    """The error of the answer, which says nothing else."""
    [(_, error, body)] = ensemble.do(client, remove(client, path, limit))
    assert body is None
    return int(error)


def multi(ensemble: Ensemble, client: Client, *parts: tuple[int, Any]) -> list[tuple[int, int]]:
    [(_, error, results)] = ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    assert error == 0
    return [(result.opcode, result.error) for result in results]


def there(ensemble: Ensemble) -> set[bytes]:
    """The znodes that all members have."""
    trees = [server.member.tree for server in ensemble.servers.values()]
    assert {tree.digest for tree in trees} == {trees[0].recompute_digest()}
    [paths] = {frozenset(path for shard in tree.shards for path in shard) for tree in trees}
    return {path for path in paths if path != b"/" and not path.startswith(b"/zookeeper")}


def test_a_subtree_goes_with_its_root_on_all_members(ensemble: Ensemble, client: Client) -> None:
    assert removed(ensemble, client, b"/d") == 0
    assert there(ensemble) == {b"/e"}
    assert removed(ensemble, client, b"/e") == 0
    assert there(ensemble) == set()


@pytest.mark.parametrize("path", [b"/none", b"/none/x"])
def test_what_is_not_there_is_no_error(ensemble: Ensemble, client: Client, path: bytes) -> None:
    before = there(ensemble)
    assert removed(ensemble, client, path) == 0
    assert there(ensemble) == before


@pytest.mark.parametrize(("limit", "error"), [(0, -111), (1, -111), (3, -111), (4, 0)])
def test_more_than_the_limit_stay_all(ensemble: Ensemble, client: Client, limit: int, error: int) -> None:
    assert removed(ensemble, client, b"/d", limit) == error
    assert there(ensemble) == ({*SUBTREE, b"/e"} if error else {b"/e"})


@pytest.mark.parametrize("path", [b"/", b"/zookeeper", b"/zookeeper/config", b"", b"d", b"/d/\0", b"/\xff"])
def test_what_no_delete_may_name(ensemble: Ensemble, client: Client, path: bytes) -> None:
    before = there(ensemble)
    assert removed(ensemble, client, path) == ErrorCode.BADARGUMENTS
    assert there(ensemble) == before


@pytest.mark.parametrize("body", [b"", b"\0\0\0\2/d", b"\0\0\0\2/d\0\0\0", b"\xff\xff\xff\xff\0\0\0\1"])
def test_what_cannot_be_read(ensemble: Ensemble, client: Client, body: bytes) -> None:
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.REMOVE_RECURSIVE, body))
    assert error == ErrorCode.MARSHALLINGERROR


def test_each_parent_has_to_permit_it(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(
        client,
        client.create(b"/d/b/leaf", acl=UNDELETABLE),
        client.create(b"/guarded", acl=UNDELETABLE),
        client.create(b"/guarded/x"),
    )
    before = there(ensemble)
    assert removed(ensemble, client, b"/guarded/x") == ErrorCode.NOAUTH
    assert removed(ensemble, client, b"/guarded") == ErrorCode.NOAUTH
    assert there(ensemble) == before
    assert removed(ensemble, client, b"/d") == 0, "of a leaf nothing is asked, as by a delete"


def test_writes_in_flight_count(ensemble: Ensemble, client: Client) -> None:
    replies = ensemble.do(
        client,
        client.create(b"/d/b/new"),
        client.delete(b"/d/a/x"),
        remove(client, b"/d", 3),
        remove(client, b"/d", 4),
        client.create(b"/d"),
        client.create(b"/d/again"),
        client.create(b"/d/again/and"),
        remove(client, b"/d", 2),
        remove(client, b"/d/again", 2),
    )
    assert [error for _, error, _ in replies] == [0, 0, -111, 0, 0, 0, 0, -111, 0]
    assert there(ensemble) == {b"/d", b"/e"}


def test_whoever_watches_is_told_of_each_znode(ensemble: Ensemble, client: Client) -> None:
    ensemble.do(client, *(client.get(path, watch=True) for path in SUBTREE), client.children(b"/", watch=True))
    client.events()
    assert removed(ensemble, client, b"/d") == 0
    assert sorted(client.events()) == sorted([*((2, path) for path in SUBTREE), (4, b"/")])


def test_in_a_multi_it_is_one_part(ensemble: Ensemble, client: Client) -> None:
    parts = (
        (int(OpCode.CREATE), Create(b"/d/new", b"", OPEN_ACL, 0)),
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d", NO_LIMIT)),
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d", NO_LIMIT)),
        (int(OpCode.CREATE), Create(b"/d", b"", OPEN_ACL, 0)),
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/e", NO_LIMIT)),
    )
    assert multi(ensemble, client, *parts) == [(1, 0), (2, 0), (13, 0), (1, 0), (2, 0)]
    assert there(ensemble) == {b"/d"}


def test_in_a_multi_it_is_refused_with_the_others(ensemble: Ensemble, client: Client) -> None:
    parts = (
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/e", NO_LIMIT)),
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d/a", NO_LIMIT)),
        (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d", 1)),
        (int(OpCode.SET_DATA), SetData(b"/d", b"", -1)),
    )
    assert multi(ensemble, client, *parts) == [(-1, 0), (-1, 0), (-1, -111), (-1, -2)]
    assert there(ensemble) == {*SUBTREE, b"/e"}


def test_a_transaction_has_room_for_so_many() -> None:
    ensemble = Ensemble(1, keeperExtensionsEnabled="true", multiMaxParts="5")
    client = ensemble.session()
    ensemble.do(client, *(client.create(path) for path in (*SUBTREE, b"/d/a/y", b"/d/a/z")))
    assert removed(ensemble, client, b"/d") == ErrorCode.NOTEMPTY
    ensemble.do(client, client.delete(b"/d/a/z"))
    whole = (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d", NO_LIMIT))
    check = (int(OpCode.CHECK), PathVersion(b"/", -1))
    assert multi(ensemble, client, check, whole) == [(-1, 0), (-1, -111)]
    body = Multi((whole, check)).encode()
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.MULTI, body))
    assert error == ErrorCode.BADARGUMENTS
    assert removed(ensemble, client, b"/d") == 0


def test_a_transaction_has_room_for_so_many_bytes() -> None:
    ensemble = Ensemble(1, keeperExtensionsEnabled="true", **{"jute.maxbuffer": "70000"})
    client = ensemble.session()
    name = b"/" + b"n" * 1_600
    ensemble.do(client, client.create(b"/d"), client.create(b"/d" + name), client.create(b"/d" + name * 2))
    assert removed(ensemble, client, b"/d") == ErrorCode.NOTEMPTY
    assert removed(ensemble, client, b"/d" + name * 2) == 0
    assert removed(ensemble, client, b"/d") == 0


def test_a_large_one_is_prepared_and_applied_in_slices_and_what_comes_meanwhile_waits(ensemble: Ensemble) -> None:
    count = 4 * PARTS
    client, other = ensemble.session(ensemble.leader), ensemble.session(ensemble.leader)
    parts = tuple((1, Create(b"/m%s" % number, b"", OPEN_ACL, 0)) for number in [b"", *paths_below(count)])
    ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    seen: list[int] = []
    step = ensemble.step

    def noting(server: Any) -> None:
        step(server)
        if server is ensemble.leader:
            seen.append(server.member.tree.znode_count)

    ensemble.step = noting  # type: ignore[method-assign]
    # Of what was made just before, some is applied while this is prepared.
    client.raw = b""
    client.say(client.create(b"/m/last") + remove(client, b"/m") + client.create(b"/m"))
    assert [error for _, error, _ in ensemble.do(other, other.create(b"/o"))] == [0]
    assert [error for _, error, _ in client.replies()] == [0, 0, 0]
    assert [len(reply) for reply in FrameReader(1 << 20).feed(client.raw)][1] == ReplyHeader.BYTES
    assert max(before - after for before, after in pairwise(seen)) == PARTS
    assert there(ensemble) == {b"/m", b"/o"}


def paths_below(count: int) -> list[bytes]:
    return [b"/%03d" % number for number in range(count // 2)] + [b"/%03d/x" % number for number in range(count // 2)]


def test_a_leader_of_the_version_before_gets_none(ensemble: Ensemble, client: Client) -> None:
    ensemble.follower.member.processor.forwards_to(ALL & ~KEEPER_REMOVALS)
    [(_, error, _), *_] = ensemble.do(client, remove(client, b"/d"))
    assert error == ErrorCode.UNIMPLEMENTED
    assert there(ensemble) == {*SUBTREE, b"/e"}


def test_in_a_multi_all_members_have_to_know_it(ensemble: Ensemble, client: Client) -> None:
    leading = ensemble.leader.member.peer.leading
    assert leading is not None
    handler = next(iter(leading.handlers.values()))
    features, handler.features = handler.features, ALL & ~KEEPER_REMOVALS
    part = (int(OpCode.REMOVE_RECURSIVE), PathLimit(b"/d", NO_LIMIT))
    assert multi(ensemble, client, part) == [(-1, ErrorCode.UNIMPLEMENTED)]
    assert removed(ensemble, client, b"/d/a") == 0, "alone it needs no answer of its own"
    handler.features = features
    assert multi(ensemble, client, part) == [(2, 0)]


def test_readers_find_them_all_gone_or_none(ensemble: Ensemble, client: Client) -> None:
    replies = ensemble.do(
        client, *(client.exists(path) for path in SUBTREE), remove(client, b"/d"),
        *(client.request(OpCode.EXISTS, PathWatch(path, False).encode()) for path in SUBTREE),
    )  # fmt: skip
    assert [error for _, error, _ in replies] == [0] * 5 + [ErrorCode.NONODE] * 4
