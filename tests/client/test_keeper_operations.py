"""ClickHouse Keeper's operations as methods of the client, on each of its faces, and where servers have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from tests.client.faces import FACES, OnFace
from tests.client.running import KINDS, running
from tests.rigs.in_process import members_here
from zab.client import (
    ANY_STAT,
    Acl,
    BadArgumentsError,
    BadVersionError,
    ChildKind,
    KeeperFeature,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Permission,
    Stat,
    UnimplementedError,
    connect,
    sync,
)
from zab.client.core.operations import _listing
from zab.testing.ensemble import Ensemble

CONFIGURATION = {"tickTime": 200, "minSessionTimeout": 400, "maxSessionTimeout": 20_000}
UNDELETABLE = (Acl(Permission.ALL & ~Permission.DELETE, "world", "anyone"),)

every_face = pytest.mark.parametrize("backend", FACES, ids=lambda backend: backend.name)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with members_here(3, {**CONFIGURATION, "keeperExtensionsEnabled": "true"}) as servers:
        yield servers


@pytest.fixture
def hosts(ensemble: Ensemble, request: pytest.FixtureRequest) -> str:
    """A place of the test's own: every path is below it."""
    root = f"/{request.node.name.replace('[', '-').rstrip(']')}"
    with sync.connect(ensemble.hosts) as zk:
        zk.create(root)
    return ensemble.hosts + root


@every_face
def test_children_are_listed_by_kind_with_what_is_asked_for(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        await zk.create("/d")
        await zk.create("/d/p", b"one")
        await zk.create("/d/n", None)
        await zk.create("/d/e", b"own", ephemeral=True)
        listing = await zk.list_children("/d")
        assert [tuple(child) for child in listing.children] == [(name, None, None) for name in "enp"]
        assert listing.stat == await zk.exists("/d")
        listing = await zk.list_children("/d", ChildKind.PERSISTENT, stats=True, data=True)
        assert [(child.name, child.data) for child in listing.children] == [("n", None), ("p", b"one")]
        assert [child.stat for child in listing.children] == [await zk.exists("/d/n"), await zk.exists("/d/p")]
        listing = await zk.list_children("/d", ChildKind.EPHEMERAL, data=True)
        assert [tuple(child) for child in listing.children] == [("e", None, b"own")]
        assert (await zk.list_children("/d/p", stats=True)).children == []
        with pytest.raises(NoNodeError):
            await zk.list_children("/none")
        with pytest.raises(TypeError):
            await zk.list_children("/d", watch=print)

    backend.run(hosts, body)


async def test_its_watch_hears_of_children(hosts: str) -> None:
    with trio.fail_after(60):
        async with connect(hosts) as zk:
            for data in (False, True):
                watcher = zk.watcher()
                await zk.list_children("/", ChildKind.EPHEMERAL, data=data, watch=watcher)
                await zk.create(f"/new-{data}")
                assert (await watcher.receive()).path == "/"


@every_face
def test_subtrees_are_listed_and_removed(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        for path in ("/d", "/d/a", "/d/a/x", "/d/b"):
            await zk.create(path)
        assert await zk.list_recursive("/d") == ["/d/a", "/d/a/x", "/d/b"]
        assert await zk.list_recursive("/d", limit=2) == ["/d/a", "/d/b"]
        assert await zk.with_chroot("/d").list_recursive("/") == ["/a", "/a/x", "/b"]
        with pytest.raises(NotEmptyError, match="more znodes than its limit"):
            await zk.remove_recursive("/d", limit=3)
        assert await zk.get_all_children_number("/d") == 3
        await zk.with_chroot("/d").remove_recursive("/a", limit=2)
        await zk.remove_recursive("/d")
        await zk.remove_recursive("/d")
        assert await zk.exists("/d") is None
        for limit in (-1, 1 << 32):
            with pytest.raises(BadArgumentsError, match="a limit is between 0 and 4294967295"):
                await zk.remove_recursive("/d", limit=limit)
        with pytest.raises(NoNodeError):
            await zk.list_recursive("/d")

    backend.run(hosts, body)


@every_face
def test_what_can_be_removed_is(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        for path in ("/d", "/d/a"):
            await zk.create(path)
        await zk.try_remove("/none")
        await zk.try_remove("/d")
        await zk.try_remove("/d/a", 7)
        assert await zk.exists("/d/a") is not None
        await zk.try_remove("/d/a", 0)
        assert await zk.exists("/d/a") is None
        await zk.create("/closed")
        await zk.create("/closed/a")
        await zk.set_acl("/closed", UNDELETABLE)
        with pytest.raises(NoAuthError, match="DELETE of its parent /closed"):
            await zk.try_remove("/closed/a")
        with pytest.raises(NoAuthError, match="or of a parent below it"):
            await zk.remove_recursive("/closed")

    backend.run(hosts, body)


@every_face
def test_in_a_transaction_each_has_its_part(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        for path in ("/d", "/d/a", "/d/a/x", "/s"):
            await zk.create(path)
        stat = await zk.exists("/s")
        async with zk.transaction() as t:
            t.check_not_exists("/n")
            t.check_stat("/s", stat)
            t.check_stat("/s", ANY_STAT._replace(mzxid=stat.mzxid))
            t.remove_recursive("/d", limit=3)
            t.remove_recursive("/none")
            t.try_remove("/none")
            made = t.create("/d", if_not_exists=True)
            t.try_remove("/d")
            last = t.set("/s", b"1")
        assert (made.result, last.result.version) == ("/d", 1)
        assert t.results == [None] * 6 + ["/d", None, last.result]
        assert await zk.get_children("/") == ["s"]
        for fill, error, at in (
            (lambda t: t.check_not_exists("/s"), NodeExistsError, 1),
            (lambda t: t.check_stat("/s", stat), BadVersionError, 1),
            (lambda t: t.check_stat("/none", ANY_STAT), NoNodeError, 1),
            (lambda t: t.remove_recursive("/s", limit=0), NotEmptyError, 1),
        ):
            refused = zk.transaction()
            refused.create("/new")
            fill(refused)
            with pytest.raises(error) as caught:
                await refused.commit()
            assert caught.value.index == at
        assert await zk.exists("/new") is None

    backend.run(hosts, body)


@every_face
def test_a_server_says_what_it_has(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        features = await zk.keeper_features()
        assert features == frozenset(KeeperFeature) - {
            *(KeeperFeature.MULTI_WATCHES, KeeperFeature.PERSISTENT_WATCHES, KeeperFeature.CREATE_WITH_STATS)
        }

    backend.run(hosts, body)


@pytest.mark.parametrize("kind", KINDS)
async def test_servers_without_them_are_told_apart_from_those_with_them(kind: str) -> None:
    with running(kind, 1, CONFIGURATION) as servers, trio.fail_after(120):
        for operate in (
            lambda zk: zk.list_children("/"),
            lambda zk: zk.list_recursive("/"),
            lambda zk: zk.try_remove("/a"),
            lambda zk: zk.remove_recursive("/a"),
            lambda zk: in_a_transaction(zk, "check_not_exists", "/a"),
            lambda zk: in_a_transaction(zk, "check_stat", "/", ANY_STAT),
            lambda zk: in_a_transaction(zk, "remove_recursive", "/a"),
        ):
            async with connect(servers.hosts) as zk:
                assert await zk.keeper_features() == frozenset()
                with pytest.raises(UnimplementedError, match="keeperExtensionsEnabled=true"):
                    await operate(zk)
        async with connect(servers.hosts) as zk:
            assert "a" not in await zk.get_children("/")


async def in_a_transaction(zk: Any, name: str, *arguments: Any) -> None:
    async with zk.transaction() as t:
        t.create("/a")
        getattr(t, name)(*arguments)


def test_an_answer_that_does_not_fit_its_names_is_refused() -> None:
    stat = bytes(68)
    assert [child.stat for child in _listing(([b"a"], stat, [stat], [])).children] == [Stat(*(0,) * 11)]
    for stats, data in (([stat] * 2, []), ([], [b"", b""]), ([stat], [b"", b""])):
        with pytest.raises(Exception, match="1 children with"):
            _listing(([b"a"], stat, stats, data))
