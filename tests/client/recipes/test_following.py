"""What is followed: data, children, services and configurations, with a loss at every request."""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from datatree.opcodes import OpCode
from tests.client.recipes.workers import until
from tests.client.recipes.world import World, run, trials
from zab.client import Client, NoNodeError, SessionExpiredError
from zab.client.recipes.configuration import Configuration, from_json, from_toml
from zab.client.recipes.discovery import Discovery, Instance
from zab.client.recipes.errors import BadDataError
from zab.client.recipes.following import children_of, data_of

pytestmark = pytest.mark.slow

LOSSES = ["request", "answer", "connection"]


async def stays(zk: Client, seconds: float) -> None:
    """The znode of host-7 is neither removed nor made again, as an owner does that notices a removal."""
    _, before = await zk.retrying().get("/services/web/host-7")
    await trio.sleep(seconds)
    _, after = await zk.retrying().get("/services/web/host-7")
    assert after.czxid == before.czxid


async def keep(found: list[Any], iterator: AsyncIterator[Any]) -> None:
    async for one in iterator:
        found.append(one)
    found.append("ended")


@pytest.mark.parametrize("kind", LOSSES)
def test_data_and_children_are_told_as_they_are_at_last_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        data: list[Any] = []
        children: list[Any] = []
        async with world.connect("writer") as writer, trio.open_nursery() as nursery:
            async with world.connect("follower") as zk:
                nursery.start_soon(keep, data, data_of(zk, "/a"))
                nursery.start_soon(keep, children, children_of(zk, "/a"))
                await until(lambda: bool(data) and bool(children))
                await writer.create("/a", b"1")
                await writer.create("/a/x")
                await until(lambda: data[-1] is not None and data[-1][0] == b"1" and children[-1] == ["x"])
                await writer.set("/a", b"2")
                await writer.create("/a/y")
                await until(lambda: data[-1][0] == b"2" and children[-1] == ["x", "y"])
                await writer.delete_all("/a")
                await until(lambda: data[-1] is None and children[-1] is None)
                await writer.create("/a", b"2")
                await until(lambda: data[-1] is not None and children[-1] == [])
            await until(lambda: data[-1] == children[-1] == "ended")
        for told in (data, children):
            assert all(one != other for one, other in pairwise(told))

    for _ in trials(scenario, kind, ("follower",)):
        pass


def test_who_follows_is_told_that_the_session_is_over() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("follower") as zk:
            following = children_of(zk, "/")
            assert await anext(following) == ["zookeeper"]
            world.cut("follower")
            with pytest.raises(SessionExpiredError):
                await anext(following)

    run(scenario, World())


@pytest.mark.parametrize("kind", LOSSES)
def test_instances_are_seen_as_long_as_they_are_registered_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        told: list[Any] = []
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            nursery.start_soon(keep, told, Discovery(two, "/services").following("web"))
            await until(lambda: told == [[]])
            mine = Instance(id="host-7", address="10.0.0.7", port=8080, payload={"zone": "a"})
            async with Discovery(one, "/services").register("web", mine) as registered:
                assert registered == mine
                await until(lambda: told[-1] == [mine])
            await until(lambda: told[-1] == [])
            nursery.cancel_scope.cancel()

    for world in trials(scenario, kind):
        assert world.below("/services/web") == []


def test_who_is_cancelled_while_it_registers_or_ends_is_not_seen() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            with trio.CancelScope() as scope:
                world.scopes["one"] = scope
                async with Discovery(zk, "/services").register("web", Instance(id="host-7")):
                    await zk.exists("/")
            await until(lambda: not world.below("/services/web"))

    for _ in trials(scenario, "cancel"):
        pass


def test_a_registration_takes_the_place_of_an_older_one_which_does_not_remove_it() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            first = Discovery(one, "/services").register("web", Instance(id="host-7", port=1))
            second = Discovery(two, "/services").register("web", Instance(id="host-7", port=2))
            discovery = Discovery(two, "/services")
            async with second, first:
                assert [found.port for found in await discovery.instances("web")] == [1]
            assert await discovery.instances("web") == []
            async with discovery.register("web", Instance()) as made_up:
                assert [found.id for found in await discovery.instances("web")] == [made_up.id]
            await first_then_second(one, two)

    async def first_then_second(one: Client, two: Client) -> None:
        discovery = Discovery(two, "/services")
        async with Discovery(one, "/services").register("web", Instance(id="host-7", port=1)):
            stack = discovery.register("web", Instance(id="host-7", port=2))
            await stack.__aenter__()
        assert [found.port for found in await discovery.instances("web")] == [2]
        assert await discovery.names() == ["web"]
        await stack.__aexit__(None, None, None)
        assert await discovery.instances("web") == []

    run(scenario, World())


@pytest.mark.parametrize("kind", ["request", "answer"])
def test_who_ends_and_loses_its_server_does_not_remove_who_came_meanwhile(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            discovery = Discovery(two, "/services")
            lost = world.lose("one", OpCode.DELETE, kind)
            async with Discovery(one, "/services").register("web", Instance(id="host-7", port=1)):
                world.refuse("one", 2)
            assert lost.happened
            async with discovery.register("web", Instance(id="host-7", port=2)):
                await stays(two, 3)
                assert one.state.is_connected
                assert [found.port for found in await discovery.instances("web")] == [2]

    run(scenario, World())


@pytest.mark.parametrize("kind", LOSSES)
def test_a_registration_is_not_taken_for_another_one_of_its_session_whatever_is_lost(kind: str) -> None:
    """Though both say the same: the first one ends, and leaves the second one there."""

    async def scenario(world: World) -> None:
        same = Instance(id="host-7", port=1)
        async with world.connect("one") as zk:
            discovery = Discovery(zk, "/services")
            first = discovery.register("web", same)
            await first.__aenter__()
            async with discovery.register("web", same):
                await first.__aexit__(None, None, None)
                await stays(zk, 1)
                assert await discovery.instances("web") == [same]
            await until(lambda: not world.below("/services/web"))

    for _ in trials(scenario, kind):
        pass


def test_who_is_cancelled_while_it_registers_removes_no_later_registration_of_its_session() -> None:
    async def scenario(world: World) -> None:
        same = Instance(id="host-7", port=1)
        async with world.connect("one") as zk:
            discovery = Discovery(zk, "/services")
            with trio.CancelScope() as scope:
                world.scopes["one"] = scope
                async with discovery.register("web", same):
                    await zk.exists("/")
            async with discovery.register("web", same):
                await stays(zk, 1)
                assert await discovery.instances("web") == [same]
            await until(lambda: not world.below("/services/web"))

    for _ in trials(scenario, "cancel"):
        pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"id": 1}',
        b'{"id": ""}',
        b'{"id": "a", "port": "80"}',
        b'{"id": "a", "port": true}',
        b'{"id": "a", "port": 65536}',
        b'{"id": "a", "address": 7}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_instance_is_left_out(data: bytes) -> None:
    assert Instance.decode(data) is None


def test_an_instance_of_curators_is_read_and_ours_is_one() -> None:
    theirs = b'{"name":"web","id":"3c2","address":"10.0.0.7","port":8080,"sslPort":null,"payload":"x","uriSpec":null}'
    assert Instance.decode(theirs) == Instance(id="3c2", address="10.0.0.7", port=8080, payload="x")
    ours = Instance(id="a", payload=[1, "ü"])
    assert Instance.decode(ours.encode("web")) == ours
    with pytest.raises(ValueError, match="the payload of a is no JSON"):
        Instance(id="a", payload=object()).encode("web")


@pytest.mark.parametrize(("name", "identity"), [("a/b", "x"), ("", "x"), ("a", "x/y"), ("..", "x"), ("a", ".")])
def test_a_name_or_id_with_a_slash_is_refused(name: str, identity: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            with pytest.raises(ValueError, match="is no name of a znode"):
                async with Discovery(zk, "/services").register(name, Instance(id=identity)):
                    raise AssertionError
            assert world.znodes() == {}

    run(scenario, World())


@pytest.mark.parametrize("kind", LOSSES)
def test_a_configuration_is_the_last_good_one_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        values: list[Any] = []
        async with world.connect("writer") as writer, trio.open_nursery() as nursery:
            await writer.create("/config", b'{"limit": 1}')
            async with world.connect("reader") as zk:
                config = Configuration(zk, "/config", from_json)
                async with config:
                    assert config.value == {"limit": 1}
                    nursery.start_soon(keep, values, config.following())
                    await writer.set("/config", b"{")
                    await until(lambda: config.value == {"limit": 1} and config.error is not None)
                    assert "/config: it is no such configuration" in str(config.error)
                    await writer.set("/config", b'{"limit": 2}')
                    await until(lambda: config.value == {"limit": 2})
                    assert config.error is None
                    await writer.delete("/config")
                    await writer.create("/config", b'{"limit": 3}')
                    await until(lambda: bool(values) and values[-1] == {"limit": 3})
            await until(lambda: values[-1] == "ended")
        assert values[0] == {"limit": 1}

    for _ in trials(scenario, kind, ("reader",)):
        pass


def test_a_configuration_of_children_is_one_value() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create("/flags")
            await zk.create("/flags/fast", b"on")

            def parse(flags: dict[str, bytes]) -> dict[str, bool]:
                return {name: data == b"on" for name, data in flags.items()}

            config = Configuration.of_children(zk, "/flags", parse)
            async with config:
                assert config.value == {"fast": True}
                async with zk.transaction() as both:
                    both.set("/flags/fast", b"off")
                    both.create("/flags/safe", b"on")
                seen = []
                with trio.move_on_after(1):
                    async for value in config.following():
                        seen.append(value)
                assert seen[-1] == {"fast": False, "safe": True}
                assert all(value in ({"fast": True}, seen[-1]) for value in seen), "never half of a change"

    run(scenario, World())


def test_a_configuration_that_is_bad_or_missing_at_the_beginning_is_an_error() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            with pytest.raises(NoNodeError):
                await Configuration(zk, "/config", from_toml).start()
            async with Configuration(zk, "/config", from_toml, {"limit": 0}) as config:
                assert config.value == {"limit": 0}
                await zk.create("/config", b"limit = 1")
                await until(lambda: config.value == {"limit": 1})
                await zk.delete("/config")
                await until(lambda: config.value == {"limit": 0})
            await zk.create("/config", b"limit = ")
            config = Configuration(zk, "/config", from_toml)
            with pytest.raises(RuntimeError, match="was not started"):
                assert config.value
            with pytest.raises(BadDataError, match="/config: it is no such configuration"):
                async with config:
                    raise AssertionError

    run(scenario, World())


def test_who_waits_for_a_configuration_that_is_closed_hears_of_it() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk, trio.open_nursery() as nursery:
            await zk.create("/config", b"1")
            config = Configuration(zk, "/config", from_json)

            async def start() -> None:
                with pytest.raises(RuntimeError, match="/config is followed no more"):
                    await config.start()

            nursery.start_soon(start)
            await wait_all_tasks_blocked()
            config.close()

    run(scenario, World())
