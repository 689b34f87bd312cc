"""The recipes against real members that are killed and started again, while clients go on; judged by what is there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.client.recipes.work import Work, work_together
from tests.client.running import KINDS, running_processes
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client import Client, Settings, connect

pytestmark = [pytest.mark.slow, pytest.mark.long]

CONFIGURATION = {"tickTime": 200, "minSessionTimeout": 400, "maxSessionTimeout": 60_000}
KILLS = 4
STEPS_BETWEEN_KILLS = 12


@asynccontextmanager
async def clients(hosts: str, count: int) -> AsyncIterator[list[Client]]:
    if count == 0:
        yield []
        return
    settings = Settings(session_timeout_ms=60_000, connect_wait_ms=60_000)
    async with connect(hosts, settings=settings) as zk, clients(hosts, count - 1) as others:
        yield [zk, *others]


async def kill_members(ensemble: ZooKeeperEnsemble, work: Work) -> None:
    for number in range(KILLS):
        await work.steps_more(STEPS_BETWEEN_KILLS)
        member = ensemble.leader() if number % 2 == 0 else ensemble.followers()[0]
        await trio.to_thread.run_sync(member.kill)
        await work.steps_more(STEPS_BETWEEN_KILLS)
        member.start()
        await trio.to_thread.run_sync(ensemble.wait)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longest
async def test_clients_go_on_while_members_are_killed_and_break_no_promise(kind: str) -> None:
    work = Work()
    with running_processes(kind, 3, CONFIGURATION) as ensemble, trio.fail_after(300):
        async with clients(ensemble.hosts, 3) as zks:
            await work_together(work, zks, lambda: kill_members(ensemble, work))
