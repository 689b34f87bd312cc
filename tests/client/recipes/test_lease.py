"""Leases: with a loss at every request, with holders that are stuck, and with data of others."""

import pytest
import trio

from tests.client.recipes.resource import Resource
from tests.client.recipes.workers import Together, again_and_again, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import Client
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.lease import CLOCK_DRIFT, Lease

pytestmark = pytest.mark.slow

PATH = "/leases/a"
SECONDS = 1.0


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_one_at_a_time_has_a_lease_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        resource, together = Resource(), Together(2)
        turns = {"one": 2, "two": 2}

        async def work(name: str, zk: Client) -> None:
            lease = Lease(zk, PATH, seconds=SECONDS, name=name)
            while turns[name]:
                async with lease as held:
                    turns[name] -= 1
                    resource.enter(name, held)
                    try:
                        await trio.sleep(0.5)
                        await held.renew()
                        with trio.move_on_after(0.8):
                            await held.lost()
                    finally:
                        resource.leave(name)
            await together.done()
            await until(lambda: not world.below(PATH))

        async with trio.open_nursery() as nursery:
            for name in turns:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))

    for world in trials(scenario, kind):
        assert world.znodes() == {"/leases": b"", PATH: b""}


def test_a_lease_ends_though_its_holder_lives_and_is_stuck() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, world.connect("three") as three:
            stuck = Lease(one, PATH, seconds=SECONDS)
            held = await stuck.acquire()
            began = trio.current_time()
            with pytest.raises(WaitOverError):
                await Lease(two, PATH, seconds=SECONDS).acquire(wait_s=SECONDS / 2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hold_for_short, three)
                async with Lease(two, PATH, seconds=SECONDS) as next_one:
                    assert not held.is_held
                    assert "its znode is gone" in repr(held)
                    assert next_one.token > held.token
                    # The first one was measured again by the second who waited.
                    assert began + SECONDS < trio.current_time() < began + 2 * SECONDS * (1 + CLOCK_DRIFT) + 0.1
            with pytest.raises(LostError, match="its znode is gone"):
                await held.renew()
            await stuck.release()
            assert world.below(PATH) == []

    run(scenario, World())


async def _hold_for_short(zk: Client) -> None:
    async with Lease(zk, PATH, seconds=SECONDS):
        await trio.sleep(0.1)


def test_who_renews_keeps_it_and_hears_when_it_is_over() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            lease = Lease(one, PATH, seconds=SECONDS)
            held = await lease.acquire()
            nursery.start_soon(_hold_for_short, two)
            for _ in range(5):
                await trio.sleep(SECONDS * 0.7)
                await held.renew()
                assert held.is_held
            began = trio.current_time()
            await held.lost()
            assert trio.current_time() - began == pytest.approx(SECONDS, abs=0.02)
            await lease.release()

    run(scenario, World())


def test_a_renewal_after_the_znode_was_taken_for_over_is_refused() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            lease = Lease(one, PATH, seconds=60)
            held = await lease.acquire()
            with pytest.raises(WaitOverError):
                await lease.acquire(wait_s=1)
            await two.delete(held.path)
            with pytest.raises(LostError, match="its znode is gone"):
                await held.renew()
            await lease.release()
            with pytest.raises(RuntimeError, match="not held by this object"):
                await lease.release()

    run(scenario, World())


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"seconds": "NaN"}', b'{"seconds": -1}', b"[" * 9999])
def test_a_znode_without_a_sensible_time_counts_as_long_as_ones_own(data: bytes) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            await one.ensure_path(PATH)
            await one.create(f"{PATH}/other-lease-", data, ephemeral=True, sequence=True)
            began = trio.current_time()
            async with Lease(two, PATH, seconds=SECONDS):
                assert trio.current_time() - began == pytest.approx(SECONDS * (1 + CLOCK_DRIFT), abs=0.1)

    run(scenario, World())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_lease_has_a_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="is none: give a time above 0"):
        Lease(None, PATH, seconds=seconds)  # type: ignore[arg-type]
