"""What the scenarios share: clients that come again when their session is over, and what they wait for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from tests.client.recipes.resource import Resource
from tests.client.recipes.world import World
from zab.client import Client, SessionExpiredError
from zab.client.recipes.errors import LostError
from zab.client.recipes.holding import Held


class Together:
    """Lets clients stay connected until all of them have done their work."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._all = trio.Event()

    async def done(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._all.set()
        await self._all.wait()


async def until(condition: Callable[[], bool]) -> None:
    """The world has no event for its state: this looks at it, in virtual time."""
    with trio.fail_after(30):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.05)


async def again_and_again(world: World, name: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """The work, started again with another session where one was lost."""
    while True:
        try:
            async with world.connect(name) as zk:
                await work(zk)
                return
        except (SessionExpiredError, LostError):
            continue


async def hold_for(held: Held, resource: Resource, name: str, seconds: float = 0.3) -> None:
    """Uses what is held, for so long at most."""
    resource.enter(name, held)
    try:
        with trio.move_on_after(seconds):
            await held.lost()
    finally:
        resource.leave(name)
