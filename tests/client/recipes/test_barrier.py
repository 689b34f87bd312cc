"""Barriers: nobody passes too soon, everybody passes, with a loss at every request."""

import pytest
import trio

from tests.client.recipes.workers import again_and_again, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import Client
from zab.client.recipes.barrier import Barrier, DoubleBarrier
from zab.client.recipes.errors import LostError, WaitOverError

pytestmark = pytest.mark.slow

PATH = "/barriers/a"


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_a_barrier_holds_everybody_up_until_it_is_removed(kind: str) -> None:
    async def scenario(world: World) -> None:
        passed: list[bool] = []
        is_removed = False

        async def wait(zk: Client) -> None:
            await Barrier(zk, PATH).wait()
            passed.append(is_removed)

        async def keep(zk: Client) -> None:
            nonlocal is_removed
            barrier = Barrier(zk, PATH)
            await barrier.create()
            nursery.start_soon(again_and_again, world, "waiter", wait)
            await trio.sleep(1)
            is_removed = True
            await barrier.remove()
            await barrier.remove()

        async with trio.open_nursery() as nursery:
            await again_and_again(world, "keeper", keep)
        assert passed
        assert all(passed)

    for world in trials(scenario, kind):
        assert world.below("/barriers") == []


def test_a_wait_at_a_barrier_has_a_limit() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            barrier = Barrier(zk, PATH)
            await barrier.wait()
            await barrier.create()
            await barrier.create()
            with pytest.raises(WaitOverError):
                await barrier.wait(wait_s=1)

    run(scenario, World())


@pytest.mark.parametrize("kind", of_each(["request", "answer", "connection"]))
def test_all_begin_together_and_end_together_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        inside: list[set[str]] = [set(), set()]
        left: list[set[str]] = [set(), set()]

        async def work(name: str, zk: Client) -> None:
            barrier = DoubleBarrier(zk, PATH, count=2, name=name)
            for number in range(2):
                # Nobody is in the next round before all have left this one.
                assert number == 0 or len(inside[0]) == 2
                arrived[number].add(name)
                async with barrier:
                    assert len(arrived[number]) == 2
                    inside[number].add(name)
                    await trio.sleep(0.1 if name == "one" else 0.2)
                    left[number].add(name)
                assert len(left[number]) == 2

        arrived: list[set[str]] = [set(), set()]
        async with trio.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))

    for world in trials(scenario, kind):
        assert world.znodes() == {"/barriers": b"", PATH: b""}


@pytest.mark.parametrize("kind", of_each(["session", "late", "cancel"]))
def test_the_barrier_goes_on_after_a_member_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        rounds = dict.fromkeys(("one", "two", "three"), 0)

        async def work(name: str, zk: Client) -> None:
            while not all(rounds.values()):
                with trio.CancelScope() as scope:
                    world.scopes[name] = scope
                    async with DoubleBarrier(zk, PATH, count=2, name=name):
                        await trio.sleep(2)
                    rounds[name] += 1

        async with trio.open_nursery() as nursery:
            for name in rounds:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))
            while not all(rounds.values()):  # noqa: ASYNC110
                await trio.sleep(0.1)
            # Who is left alone would wait for ever.
            nursery.cancel_scope.cancel()
        async with world.connect("last") as zk, DoubleBarrier(zk, PATH, count=1):
            pass

    for world in trials(scenario, kind, ("one",)):
        assert world.znodes() == {"/barriers": b"", PATH: b""}


def test_who_comes_while_a_round_is_on_waits_for_the_next() -> None:
    async def scenario(world: World) -> None:
        rounds: list[str] = []
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            first, second = (DoubleBarrier(zk, PATH, count=1, name=str(zk is one)) for zk in (one, two))

            async def late() -> None:
                async with second:
                    rounds.append("second")

            async with first:
                with pytest.raises(RuntimeError, match="entered already"):
                    await first.enter()
                assert await first.members() == ["True"]
                nursery.start_soon(late)
                await trio.sleep(1)
                assert rounds == []
                rounds.append("first")
            await until(lambda: rounds == ["first", "second"])
            with pytest.raises(RuntimeError, match="was not entered"):
                await first.leave()

    run(scenario, World())


def test_who_waits_for_the_next_round_hears_that_all_members_of_this_one_were_lost() -> None:
    async def scenario(world: World) -> None:
        has_entered = trio.Event()

        async def late(zk: Client) -> None:
            async with DoubleBarrier(zk, PATH, count=1):
                has_entered.set()

        async with world.connect("late") as zk, trio.open_nursery() as nursery:
            async with world.connect("one") as one, world.connect("two") as two:
                async with trio.open_nursery() as entering:
                    for client in (one, two):
                        entering.start_soon(DoubleBarrier(client, PATH, count=2).enter)
                nursery.start_soon(late, zk)
                await trio.sleep(1)
                assert not has_entered.is_set()
            # Their sessions are over, and nobody closed the round.
            with trio.fail_after(5):
                await has_entered.wait()

    run(scenario, World())


def test_waits_at_a_double_barrier_have_limits() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            first, second = (DoubleBarrier(zk, PATH, count=2) for zk in (one, two))
            with pytest.raises(WaitOverError):
                await first.enter(wait_s=1)
            await until(lambda: not world.below(PATH))
            nursery.start_soon(first.enter)
            await second.enter()
            with pytest.raises(WaitOverError):
                await second.leave(wait_s=1)
            await until(lambda: len(world.below(PATH)) == 1)
            await first.leave()
            assert world.znodes()[PATH] == b""

    run(scenario, World())


def test_a_member_whose_znode_somebody_deleted_is_told() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:

            async def enter() -> None:
                with pytest.raises(LostError, match="somebody deleted the znode of this member"):
                    await DoubleBarrier(one, PATH, count=2).enter()

            nursery.start_soon(enter)
            await until(lambda: len(world.below(PATH)) == 1)
            # By now it waits.
            await trio.sleep(1)
            await two.delete(f"{PATH}/{world.below(PATH)[0]}")

    run(scenario, World())


def test_a_barrier_is_for_somebody() -> None:
    with pytest.raises(ValueError, match="holds nobody up"):
        DoubleBarrier(None, PATH, count=0)  # type: ignore[arg-type]
