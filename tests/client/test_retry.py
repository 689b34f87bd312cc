"""What `retrying` promises: each operation is answered once it is known, with a loss at every single request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.world import World, run, trials
from zab.client import (
    ANY_STAT,
    CREATOR_ALL_ACL,
    OPEN_ACL,
    READ_ACL,
    Acl,
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Permission,
    SessionExpiredError,
)
from zab.client.core.sending import Sending
from zab.client.retry import LOSSES_OF_A_FEED_MAX, Retrying

pytestmark = pytest.mark.slow

LOSSES = pytest.mark.parametrize("kind", ["request", "answer", "connection"])


async def every_write(zk: Retrying) -> None:
    """Each is answered as if nothing had been lost: what a second try would be answered is an error here."""
    assert await zk.create("/a", b"1") == "/a"
    path, stat = await zk.create2("/a/n-", b"", sequence=True)
    assert (path, stat.version, stat.czxid, stat.ephemeral_owner) == ("/a/n-0000000000", 0, stat.mzxid, 0)
    path, stat = await zk.create2("/a/e", b"own", ephemeral=True)
    assert (path, stat.data_length) == ("/a/e", 3)
    assert stat.ephemeral_owner
    assert (await zk.set("/a", b"2", 0)).version == 1
    assert (await zk.set("/a", None)).version == 2
    assert (await zk.set_acl("/a", OPEN_ACL, 0)).aversion == 1
    async with zk.transaction() as t:
        t.check("/a", 2)
        numbered = t.create("/a/n-", b"in a transaction", sequence=True)
        changed = t.set("/a", b"3", 2)
        t.delete("/a/n-0000000000", 0)
    assert (numbered.result, changed.result.version) == ("/a/n-0000000002", 3)
    with pytest.raises(NodeExistsError):
        await zk.create("/a")
    with pytest.raises(BadVersionError):
        await zk.set("/a", b"", 1)
    with pytest.raises(NotEmptyError):
        await zk.delete("/a")
    await zk.delete("/a/e", 0)
    with pytest.raises(NoNodeError):
        await zk.delete("/a/e")
    refused = zk.transaction()
    refused.set("/a", b"4")
    refused.check("/a", 9)
    with pytest.raises(BadVersionError):
        await refused.commit()
    assert await zk.get_children("/a") == ["n-0000000002"]
    data, stat = await zk.get("/a")
    assert (data, stat.version, stat.cversion) == (b"3", 3, 5)


@LOSSES
def test_every_write_is_done_once_and_answered(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await every_write(zk.retrying())

    for world in trials(scenario, kind):
        assert world.znodes() == {"/a": b"3", "/a/n-0000000002": b"in a transaction"}


async def every_removal(zk: Retrying) -> None:
    """ClickHouse Keeper's writes, of which some come to nothing."""
    await zk.create("/r")
    await zk.create("/r/a")
    await zk.create("/r/a/x")
    await zk.try_remove("/r/a")
    await zk.try_remove("/r/a/x")
    await zk.try_remove("/none")
    await zk.create("/r/a/x", ephemeral=True)
    await zk.remove_recursive("/r/a", limit=2)
    await zk.remove_recursive("/none")
    async with zk.transaction() as t:
        t.check_not_exists("/n")
        found = t.create("/r", if_not_exists=True)
        made = t.create("/n", b"1", if_not_exists=True)
        t.try_remove("/r")
        t.try_remove("/none")
        t.check_stat("/n", ANY_STAT)
    assert (found.result, made.result) == ("/r", "/n")
    with pytest.raises(NotEmptyError):
        await zk.remove_recursive("/n", limit=0)


@LOSSES
def test_every_removal_is_done_once_and_answered(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await every_removal(zk.retrying())

    for world in trials(scenario, kind):
        assert world.znodes() == {"/n": b"1"}


def test_a_removal_of_a_subtree_in_a_lost_transaction_stays_unknown() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.create("/a")
            await zk.create("/a/b")
            world.lose("one", OpCode.MULTI, "answer")
            lost = zk.retrying().transaction()
            lost.remove_recursive("/a")
            lost.create("/a")
            with pytest.raises(ConnectionLossError) as caught:
                await lost.commit()
            assert not caught.value.definite
            assert await zk.get_children("/a") == []

    run(scenario, World())


@LOSSES
def test_writes_that_look_the_same_are_each_their_own(kind: str) -> None:
    """Two callers of one client do the same at once: as many are done as are answered, and no answer is given twice."""

    async def scenario(world: World) -> None:
        async with world.connect("one") as client:
            zk = client.retrying()
            await zk.create("/a")
            created: list[str] = []
            versions: list[int] = []

            async def work() -> None:
                created.append(await zk.create("/a/n-", b"same", sequence=True))
                versions.append((await zk.set("/a", b"same")).version)

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(work)
            assert sorted(created) == [f"/a/n-{number:010}" for number in range(3)]
            assert sorted(versions) == [1, 2, 3]

    for world in trials(scenario, kind):
        assert len(world.znodes()) == 4


@LOSSES
def test_one_of_two_that_delete_the_same_is_answered_that_it_did(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as client:
            zk = client.retrying()
            await zk.create("/a")
            done: list[bool] = []

            async def delete() -> None:
                try:
                    await zk.delete("/a")
                    done.append(True)
                except NoNodeError:
                    done.append(False)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(delete)
                nursery.start_soon(delete)
            assert sorted(done) == [False, True]

    for world in trials(scenario, kind):
        assert world.znodes() == {}


@pytest.mark.parametrize("kind", ["session", "late"])
def test_a_session_that_is_over_is_said(kind: str) -> None:
    async def scenario(world: World) -> None:
        try:
            async with world.connect("one") as client:
                await every_write(client.retrying())
        except SessionExpiredError:
            assert world.loss is not None
            assert world.loss.happened

    for world in trials(scenario, kind):
        assert "/a/e" not in world.znodes()


# A server of ZooKeeper, which has no feed of changes.


async def on_an_old_server(zk: Retrying) -> None:
    assert await zk.create("/e", b"own", ephemeral=True) == "/e"
    assert (await zk.set("/e", b"1", 0)).version == 1
    assert await zk.exists("/none") is None


@LOSSES
def test_without_a_feed_the_znode_tells_what_it_can(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await on_an_old_server(zk.retrying())

    for _ in trials(scenario, kind, is_old=True):
        pass


Write = Callable[[Any], Awaitable[object]]
UNKNOWN: dict[str, tuple[OpCode, Write]] = {
    "create": (OpCode.CREATE2, lambda zk: zk.create("/b", b"")),
    "sequence": (OpCode.CREATE2, lambda zk: zk.create("/b-", b"", sequence=True)),
    "set": (OpCode.SET_DATA, lambda zk: zk.set("/a", b"2")),
    "acl": (OpCode.SET_ACL, lambda zk: zk.set_acl("/a", READ_ACL)),
    "delete": (OpCode.DELETE, lambda zk: zk.delete("/a")),
    "transaction": (OpCode.MULTI, lambda zk: transaction(zk)),
}


async def transaction(zk: Any) -> None:
    async with zk.transaction() as t:
        t.set("/a", b"2")


@pytest.mark.parametrize("name", UNKNOWN)
def test_without_a_feed_the_rest_stays_unknown(name: str) -> None:
    opcode, write = UNKNOWN[name]

    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.create("/a")
            world.lose("one", opcode, "answer")
            with pytest.raises(ConnectionLossError) as caught:
                await write(zk.retrying())
            assert not caught.value.definite

    run(scenario, World(is_old=True))


def test_without_a_feed_a_version_tells_that_a_delete_was_not_done() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.create("/a")
            world.lose("one", OpCode.DELETE, "request")
            await zk.retrying().delete("/a", 0)
            assert await zk.exists("/a") is None

    run(scenario, World(is_old=True))


@LOSSES
def test_servers_that_end_the_connection_without_a_word_tell_as_much(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await on_an_old_server(zk.retrying())

    for world in trials(scenario, kind, is_old="silent"):
        asked = sum(opcode == OpCode.GET_CHANGES for _, opcode in world.requests)
        assert asked <= LOSSES_OF_A_FEED_MAX


# What cannot be seen.


NOBODY_READS = (Acl(Permission.ALL & ~Permission.READ, "world", "anyone"),)


def test_what_this_client_may_not_read_stays_unknown() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            steady = zk.retrying()
            world.lose("one", OpCode.CREATE2, "answer")
            with pytest.raises(ConnectionLossError):
                await steady.create("/hidden-", acl=NOBODY_READS, sequence=True)
            await zk.create("/hidden", acl=NOBODY_READS)
            world.lose("one", OpCode.SET_DATA, "request")
            with pytest.raises(ConnectionLossError):
                await steady.set("/hidden", b"1")
            world.lose("one", OpCode.DELETE, "answer")
            with pytest.raises(ConnectionLossError):
                await steady.delete("/hidden")

    world = World()
    run(scenario, world)
    assert list(world.znodes()) == ["/hidden-0000000000"]


def test_what_only_its_creator_reads_is_seen_by_it() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.add_auth("digest", "me:secret")
            world.lose("one", OpCode.CREATE2, "request")
            assert await zk.retrying().create("/own", acl=CREATOR_ALL_ACL) == "/own"

    run(scenario, World())


# Time.


def test_a_limit_ends_with_the_last_error() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one", request_wait_ms=500) as zk:
            await zk.create("/a")
            world.cut("one")
            start = trio.current_time()
            with pytest.raises(ConnectionLossError):
                await zk.retrying(limit_s=2).set("/a", b"1")
            assert trio.current_time() - start == pytest.approx(2, abs=0.2)

    run(scenario, World())


def test_who_is_cancelled_is_gone() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.create("/a")
            world.refuse("one", 1)
            world.lose("one", OpCode.SET_DATA, "request")
            with trio.move_on_after(0.5) as scope:
                await zk.retrying().set("/a", b"1")
            assert scope.cancelled_caught
            await trio.sleep(1)
            assert (await zk.retrying().get("/a"))[0] == b""

    run(scenario, World())


def test_a_client_that_has_seen_nothing_asks_where_it_is_first() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            assert zk.last_zxid == 0
            await zk.retrying().create("/a")
            assert [opcode for _, opcode in world.requests] == [OpCode.SYNC, OpCode.CREATE2]

    run(scenario, World())


# Whose a transaction is.


def test_only_what_may_be_asked_for_is_kept() -> None:
    sending = Sending()
    assert not sending.is_used
    with sending.under_way(5):
        sending.own(6)
        with sending.under_way(7):
            sending.own(8)
            sending.own(8)
            assert len(sending) == 2
        assert sending.is_owned(8)
    assert len(sending) == 0
    with sending.under_way(8):
        older = sending.under_way(9)
        with older:
            sending.own(9)
            sending.own(10)
        assert (sending.is_owned(9), sending.is_owned(10)) == (True, True)
    assert not sending.is_used
