"""The work queue, with the test kit: real bookies, and owners that take over from each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from examples.work_queue.work_queue import Queue, serve
from zab.client import Client, SessionExpiredError, connect
from zab.client.recipes import Election
from zab.ledgers import open_store
from zab.testing import Bookies

pytestmark = pytest.mark.slow


@asynccontextmanager
async def owner(b: Bookies) -> AsyncIterator[Client]:
    """A process that serves the queue: its session, until that expires."""

    async def live() -> None:
        try:
            async with open_store(zk) as store:
                await serve(zk, store, "mail")
        except SessionExpiredError:
            pass

    async with connect(b.ensemble.hosts) as zk, trio.open_nursery() as nursery:
        nursery.start_soon(live)
        yield zk
        nursery.cancel_scope.cancel()


def test_jobs_are_given_in_order_until_they_are_done() -> None:
    async def main() -> None:
        async with Bookies(3) as b, connect(b.ensemble.hosts) as zk, owner(b):
            queue = Queue(zk, "mail")
            for number in range(5):
                await queue.put(b"job %d" % number)
            async with queue.worker() as first:
                taken = [await first.take() for _ in range(3)]
                assert [job.payload for job in taken] == [b"job 0", b"job 1", b"job 2"]
                await first.done(taken[1])
            # The connection has ended: two jobs are given again.
            async with queue.worker() as second:
                again = [(await second.take()).payload for _ in range(4)]
            assert sorted(again) == [b"job 0", b"job 2", b"job 3", b"job 4"]

    trio.run(main)


def test_owners_take_over_from_each_other_and_no_job_is_lost() -> None:
    async def main() -> None:
        async with Bookies(3) as b, connect(b.ensemble.hosts) as zk:
            queue, done, jobs = Queue(zk, "mail"), set(), {b"job %d" % number for number in range(60)}

            async def work() -> None:
                async with queue.worker() as worker:
                    while done != jobs:
                        job = await worker.take()
                        await worker.done(job)
                        done.add(job.payload)
                worked.cancel_scope.cancel()

            async def put() -> None:
                for job in sorted(jobs):
                    await queue.put(job)
                    await trio.sleep(0.01)

            async with trio.open_nursery() as worked, owner(b) as one, owner(b) as other:
                worked.start_soon(put)
                worked.start_soon(work)
                worked.start_soon(work)
                election = Election(zk, "/queues/mail")
                for victim in (one, other):
                    async with owner(b):
                        first = await _leader(election)
                        b.ensemble.expire(victim.session_id)
                        while await _leader(election) == first and victim is one:
                            await trio.sleep(0.01)
            assert done == jobs

    trio.run(main)


async def _leader(election: Election) -> str:
    while True:
        leader = await election.leader()
        if leader:
            return leader
        await trio.sleep(0.01)
