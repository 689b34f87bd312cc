"""The recipes in simulated ensembles of three where members and networks fail, seed after seed."""

import pytest
import trio

from tests.client.recipes.resource import Resource
from tests.client.recipes.work import Work, work_together
from zab.client import SessionExpiredError, Settings
from zab.client.recipes.election import Election
from zab.client.recipes.errors import LostError
from zab.client.recipes.lease import Lease
from zab.client.recipes.lock import Lock
from zab.testing import SimulatedEnsemble, simulate

pytestmark = pytest.mark.slow

FAULTS = ("disconnect", "kill", "power", "partition", "pause", "depose")
SESSION_TIMEOUT_MS = 60_000
SHORT = Settings(session_timeout_ms=10_000, connect_wait_ms=300_000)
TURNS = 6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.long
def test_no_promise_is_broken_while_members_and_networks_fail(seed: int) -> None:
    async def main(e: SimulatedEnsemble) -> int:
        work = Work()

        async def fail() -> None:
            await trio.sleep(4)
            e.calm()

        async with (
            e.connect(session_timeout_ms=SESSION_TIMEOUT_MS) as one,
            e.connect(session_timeout_ms=SESSION_TIMEOUT_MS) as two,
            e.connect(session_timeout_ms=SESSION_TIMEOUT_MS) as three,
        ):
            await work_together(work, [one, two, three], fail)
        return work.steps

    assert simulate(main, seed=seed, observers=seed % 2, faults=FAULTS, every_seconds=0.5).value > 20


@pytest.mark.parametrize("seed", range(4))
def test_tokens_grow_though_sessions_are_ended(seed: int) -> None:
    """A session that is ended before its time is one that its client believes in: then only the token tells."""

    async def main(e: SimulatedEnsemble) -> None:
        resources = {name: Resource(9, grows=True) for name in ("lock", "election", "lease")}

        async def turns(name: str) -> None:
            done = 0
            while done < TURNS:
                try:
                    async with e.connect(settings=SHORT) as zk:
                        while done < TURNS:
                            async with Lock(zk, "/lock") as held:
                                resources["lock"].enter(name, held)
                                await trio.sleep(e.random.random())
                                resources["lock"].leave(name)
                            async with Election(zk, "/election").lead() as held:
                                resources["election"].enter(name, held)
                                await trio.sleep(e.random.random())
                                resources["election"].leave(name)
                            async with Lease(zk, "/lease", seconds=3) as held:
                                resources["lease"].enter(name, held)
                                await trio.sleep(e.random.random())
                                resources["lease"].leave(name)
                            done += 1
                except (SessionExpiredError, LostError):
                    for resource in resources.values():
                        resource.forget(name)

        async with trio.open_nursery() as nursery:
            for name in ("one", "two", "three"):
                nursery.start_soon(turns, name)
        for resource in resources.values():
            assert resource.turns

    simulate(main, seed=seed, faults=(*FAULTS, "expire"), every_seconds=2)
