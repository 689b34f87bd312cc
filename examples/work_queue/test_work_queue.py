"""The work queue, with the test kit: real bookies, and owners that take over from each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from examples.work_queue.work_queue import Queue, serve
from zab.client import Client, SessionExpiredError, connect
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
        jobs = {b"job %d" % number for number in range(60)}
        done: set[bytes] = set()
        reached = {20: trio.Event(), 40: trio.Event(), 60: trio.Event()}

        async def put(queue: Queue) -> None:
            for job in sorted(jobs):
                await queue.put(job)

        async def work(queue: Queue) -> None:
            async with queue.worker() as worker:
                while True:
                    job = await worker.take()
                    await worker.done(job)
                    done.add(job.payload)
                    for count, event in reached.items():
                        if len(done) >= count:
                            event.set()

        async with (
            Bookies(3) as b,
            connect(b.ensemble.hosts) as zk,
            owner(b) as first,
            owner(b) as second,
            owner(b),
            trio.open_nursery() as clients,
        ):
            for act in (put, work, work):
                clients.start_soon(act, Queue(zk, "mail"))
            for count, session in ((20, first.session_id), (40, second.session_id)):
                await reached[count].wait()
                b.ensemble.expire(session)
            await reached[60].wait()
            clients.cancel_scope.cancel()
        assert done == jobs

    trio.run(main)
