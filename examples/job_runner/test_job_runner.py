"""The job runner, with the test kit: against real members, and against simulated ones with whatever goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from examples.job_runner.job_runner import DONE, TAKEN, WAITING, result, set_up, submit, work
from zab.client import Client, SessionExpiredError
from zab.testing import Ensemble, SimulatedEnsemble, simulate


async def upper(job: bytes) -> bytes:
    await trio.sleep(0.01)
    return job.upper()


def test_jobs_are_done(zab_server: Ensemble) -> None:
    async def main() -> None:
        async with zab_server.connect() as zk, trio.open_nursery() as workers:
            await set_up(zk)
            names = [await submit(zk, b"job %d" % number) for number in range(10)]
            for worker in ("anna", "boris"):
                workers.start_soon(work, zab_server.connect, worker, upper)
            assert [await result(zk, name) for name in names] == [b"JOB %d" % number for number in range(10)]
            assert await zk.get_children(WAITING) == []
            workers.cancel_scope.cancel()

    trio.run(main)


def test_a_job_of_a_worker_that_dies_is_done_by_another(zab_server: Ensemble) -> None:
    async def main() -> None:
        begun = trio.Event()

        async def never(_job: bytes) -> bytes:
            begun.set()
            await trio.sleep_forever()
            raise AssertionError

        async with zab_server.connect() as zk, trio.open_nursery() as workers:
            await set_up(zk)
            name = await submit(zk, b"job")
            workers.start_soon(work, zab_server.connect, "slow", never)
            await begun.wait()
            workers.start_soon(work, zab_server.connect, "quick", upper)
            stat = await zk.exists(f"{TAKEN}/{name}")
            assert stat is not None
            zab_server.expire(stat.ephemeral_owner)
            assert await result(zk, name) == b"JOB"
            workers.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.slow
@pytest.mark.zab(size=3)
def test_jobs_are_done_though_the_leader_is_killed(zab_ensemble: Ensemble) -> None:
    async def main() -> None:
        async with zab_ensemble.connect() as zk, trio.open_nursery() as workers:
            await set_up(zk)
            workers.start_soon(work, zab_ensemble.connect, "anna", upper)
            first = await submit(zk, b"first")
            assert zab_ensemble.leader is not None
            zab_ensemble.leader.kill()
            second = await submit(zk, b"second")
            assert (await result(zk, first), await result(zk, second)) == (b"FIRST", b"SECOND")
            workers.cancel_scope.cancel()

    trio.run(main)


async def in_some_session(e: SimulatedEnsemble, act: Callable[[Client], Awaitable[object]]) -> None:
    """Sessions expire, this one too."""
    while True:
        try:
            async with e.connect(session_timeout_ms=60_000) as zk:
                await act(zk)
                return
        except SessionExpiredError:
            pass


async def many_jobs(e: SimulatedEnsemble) -> int:
    """Three workers, twenty jobs: each comes to one end. Returns how often one was begun."""
    begun_count = 0

    async def do(job: bytes) -> bytes:
        nonlocal begun_count
        begun_count += 1
        await trio.sleep(e.random.expovariate(1))
        return job.upper()

    async with trio.open_nursery() as workers:
        await in_some_session(e, set_up)
        for worker in ("anna", "boris", "clara"):
            workers.start_soon(work, lambda: e.connect(session_timeout_ms=2000), worker, do)
        for number in range(20):
            await in_some_session(e, partial(submit, job=b"job %d" % number))
        await trio.sleep(30)
        e.calm()
        await e.until_serving()
        async with e.connect() as zk:
            names = await zk.get_children(WAITING) + await zk.get_children(DONE)
            # A job is there twice if the session was lost that submitted it.
            assert {await result(zk, name) for name in names} == {b"JOB %d" % number for number in range(20)}
            assert await zk.get_children(WAITING) == []
        workers.cancel_scope.cancel()
    return begun_count


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_each_job_is_done_whatever_goes_wrong(seed: int) -> None:
    run = simulate(many_jobs, seed=seed, faults=["kill", "pause", "partition", "disconnect", "expire"], every_seconds=2)
    assert run.value >= 20


def test_a_run_can_be_repeated() -> None:
    assert simulate(many_jobs, seed=1).hash == simulate(many_jobs, seed=1).hash
