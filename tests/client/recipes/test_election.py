"""Elections: one leader at a time, with a loss at every request, and who follows hears of each."""

import pytest
import trio

from tests.client.recipes.resource import Resource
from tests.client.recipes.workers import Together, again_and_again, hold_for, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import Client
from zab.client.recipes.election import Election
from zab.client.recipes.errors import WaitOverError

pytestmark = pytest.mark.slow

PATH = "/elections/a"


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_one_at_a_time_leads_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        resource, together = Resource(), Together(2)
        wanted = {"one": 1, "two": 1}
        told: list[str | None] = []

        async def work(name: str, zk: Client) -> None:
            while wanted[name]:
                async with Election(zk, PATH, name).lead() as leadership:
                    await hold_for(leadership, resource, name)
                wanted[name] -= 1
            await together.done()
            await until(lambda: not world.below(PATH))

        async def follow(zk: Client) -> None:
            async for leader in Election(zk, PATH).leaders():
                told.append(leader)
                if leader is None and not any(wanted.values()):
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(again_and_again, world, "follower", follow)
            for name in wanted:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))
        assert told[-1] is None

    for world in trials(scenario, kind):
        assert set(world.znodes()) <= {"/elections", PATH}


def test_who_follows_hears_of_each_leader() -> None:
    async def scenario(world: World) -> None:
        told: list[str | None] = []
        async with world.connect("zk") as zk, trio.open_nursery() as nursery:

            async def follow() -> None:
                async for leader in Election(zk, PATH).leaders():
                    told.append(leader)
                told.append("closed")

            nursery.start_soon(follow)
            await until(lambda: told == [None])
            first, second = Election(zk, PATH, "first"), Election(zk, PATH, "second")
            async with first.lead():
                await until(lambda: told == [None, "first"])
                with pytest.raises(WaitOverError):
                    async with second.lead(wait_s=0.5):
                        raise AssertionError
                nursery.start_soon(_lead, second)
                await until(lambda: len(world.below(PATH)) == 2)
                assert await first.candidates() == ["first", "second"]
                assert await second.leader() == "first"
            await until(lambda: told == [None, "first", "second"])
            await until(lambda: told == [None, "first", "second", None])
            assert await second.leader() is None
            nursery.cancel_scope.cancel()

    run(scenario, World())


async def _lead(election: Election) -> None:
    async with election.lead():
        await trio.sleep(1)
