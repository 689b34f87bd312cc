"""A party shows its members, and nobody who left, with a loss at every request."""

import pytest
import trio
import trio.testing

from tests.client.recipes.workers import Together, again_and_again, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import OPEN_ACL, Acl, Client, NoAuthError, Permission, SessionExpiredError
from zab.client.recipes.discovery import Discovery, Instance
from zab.client.recipes.party import Party

pytestmark = pytest.mark.slow

PATH = "/parties/a"


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_members_are_seen_once_until_they_leave_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        seen: list[list[str]] = []
        there = Together(2)

        async def work(name: str, zk: Client) -> None:
            async with Party(zk, PATH, name) as party:
                async for members in party.following():
                    if sorted(members) == ["one", "two"]:
                        break
                await there.done()
            await until(lambda: not world.below(PATH))

        async def follow(zk: Client) -> None:
            async for members in Party(zk, PATH).following():
                seen.append(members)

        async with trio.open_nursery() as following:
            following.start_soon(again_and_again, world, "follower", follow)
            async with trio.open_nursery() as nursery:
                for name in ("one", "two"):
                    nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))
            await until(lambda: bool(seen) and seen[-1] == [])
            following.cancel_scope.cancel()
        assert all(len(members) == len(set(members)) for members in seen)

    for world in trials(scenario, kind, ("one", "follower")):
        assert world.below(PATH) == []


def test_who_is_cancelled_while_it_joins_is_no_member() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            scope = world.scopes["one"] = trio.CancelScope()
            with scope:
                async with Party(zk, PATH, "one"):
                    pass
            await until(lambda: not world.below(PATH))

    for _ in trials(scenario, "cancel"):
        pass


def test_who_is_a_member_stays_one() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            party = Party(zk, PATH, "one")
            assert await party.members() == []
            await party.join()
            await party.join()
            assert await party.members() == ["one"]
            await party.leave()
            assert world.below(PATH) == []
            await party.leave()
            assert await party.members() == []

    run(scenario, World())


@pytest.mark.parametrize("kind", ["request", "answer", "connection"])
def test_a_member_whose_znode_somebody_deleted_is_one_again_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            async with Party(one, PATH, "one"):
                await two.retrying().delete_all("/parties")
                await until(lambda: len(world.below(PATH)) == 1)
                await two.retrying().delete_all(PATH)
                await until(lambda: len(world.below(PATH)) == 1)
            await until(lambda: not world.below(PATH))
            await trio.sleep(1)
            assert not world.below(PATH)

    for _ in trials(scenario, kind, ("one",)):
        pass


@pytest.mark.parametrize("kind", ["request", "answer", "connection"])
def test_a_registration_comes_back_when_what_replaced_it_has_ended_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            async with Discovery(one, "/s").register("web", Instance(id="i", port=1)):
                async with Discovery(two, "/s").register("web", Instance(id="i", port=2)):
                    await trio.sleep(1)
                    assert [found.port for found in await Discovery(two, "/s").instances("web")] == [2]
                await until(lambda: world.below("/s") == ["web", "web/i"])
                assert [found.port for found in await Discovery(two, "/s").instances("web")] == [1]
                await two.delete("/s/web/i")
                await until(lambda: world.below("/s") == ["web", "web/i"])
            await until(lambda: world.below("/s") == ["web"])
            await trio.sleep(1)
            assert world.below("/s") == ["web"]

    for _ in trials(scenario, kind, ("one",)):
        pass


WITHOUT_CREATE = [Acl(Permission.ALL & ~Permission.CREATE, "world", "anyone")]


def test_who_may_not_be_a_member_again_is_told() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            party = Party(one, PATH, "one")
            with pytest.raises(RuntimeError, match="join"):
                await party.lost()
            async with party:
                await two.set_acl(PATH, WITHOUT_CREATE)
                await two.delete(f"{PATH}/{world.below(PATH)[0]}")
                with trio.fail_after(5):
                    assert isinstance(await party.lost(), NoAuthError)

    run(scenario, World())


def test_who_may_not_be_registered_again_is_told_and_who_leaves_too() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            discovery, left = Discovery(one, "/s"), []
            instance = Instance(id="i", port=1)

            async def wait() -> None:
                left.append(await discovery.lost("web", instance))

            async with trio.open_nursery() as nursery, discovery.register("web", instance):
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                assert left == []
            assert left == [None]
            with pytest.raises(RuntimeError, match="not registered"):
                await discovery.lost("web", instance)
            async with discovery.register("web", instance):
                await two.set_acl("/s/web", WITHOUT_CREATE)
                await two.delete("/s/web/i")
                with trio.fail_after(5):
                    assert isinstance(await discovery.lost("web", instance), NoAuthError)

    run(scenario, World())


@pytest.mark.parametrize("kind", ["request", "answer", "connection"])
def test_what_was_refused_before_is_told_no_more_once_it_is_tried_again_whatever_is_lost(kind: str) -> None:
    """A registration is refused; then another one's znode has its path, which goes, and it is made again."""

    async def is_lost(discovery: Discovery, instance: Instance) -> bool:
        with trio.move_on_after(1):
            await discovery.lost("web", instance)
            return True
        return False

    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            discovery, instance = Discovery(one, "/s"), Instance(id="i", port=1)
            async with discovery.register("web", instance):
                await two.set_acl("/s/web", WITHOUT_CREATE)
                await two.delete("/s/web/i")
                assert isinstance(await discovery.lost("web", instance), NoAuthError)
                await two.set_acl("/s/web", OPEN_ACL)
                await two.create("/s/web/i")
                await trio.sleep(1)
                assert not await is_lost(discovery, instance)
                await two.delete("/s/web/i")
                await until(lambda: world.below("/s") == ["web", "web/i"])
                await trio.sleep(1)
                assert not await is_lost(discovery, instance)

    for _ in trials(scenario, kind, ("one",)):
        pass


def test_a_member_whose_session_is_over_is_told() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one:
            party = Party(one, PATH, "one")
            await party.join()
            world.cut("one")
            with trio.fail_after(60):
                assert isinstance(await party.lost(), SessionExpiredError)

    run(scenario, World())


def test_who_joins_twice_at_once_is_one_member() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one:
            party = Party(one, PATH, "one")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(party.join)
                nursery.start_soon(party.join)
            assert await party.members() == ["one"]
            await party.leave()
            assert await party.members() == []

    run(scenario, World())
