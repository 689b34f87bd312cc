"""Leader election: of all candidates one leads, until it resigns or loses its session; then the next one does.

    election = Election(zk, "/elections/a", name="host-7")
    async with election.lead() as leadership:           # waits until this candidate leads
        store.write(data, token=leadership.token)
        await leadership.lost()

    await election.leader()                             # "host-7", or None
    async for leader in election.leaders(): ...         # now, and after each change

A candidate waits in the queue of a lock (`lock`), and leads when its number is the lowest; the znodes are named like
those of Curator's LeaderLatch. `holding` has what a leader must know: the token, which distinguishes a leader from its
predecessors, and that a leader may lose its leadership at any time.

Raises, besides the errors of requests: WaitOverError, LostError.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from zab.client.client import Client
from zab.client.core.exceptions import NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.watcher import Watcher
from zab.client.recipes.contender import rivals
from zab.client.recipes.following import Following
from zab.client.recipes.holding import Held
from zab.client.recipes.lock import Lock
from zab.client.retry import Retrying

__all__ = ["Election", "Leaders"]

_KINDS: Final = ("latch-",)


class Election:
    """name: shown to the other candidates. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self.path = path
        self.name = name
        self._zk = zk
        self._lock = Lock(zk, path, name=name, acl=acl, kinds=_KINDS)

    @asynccontextmanager
    async def lead(self, wait_s: float | None = None) -> AsyncIterator[Held]:
        """Enters the block as the leader; leaving it resigns. Raises WaitOverError."""
        async with self._lock.hold(wait_s) as held:
            yield held

    async def candidates(self) -> list[str]:
        """The names of all candidates; the first one leads."""
        return await self._lock.contenders()

    async def leader(self) -> str | None:
        """The leader's name; None if there is none."""
        return next(iter(await self.candidates()), None)

    def leaders(self) -> "Leaders":
        """`async for leader in election.leaders()`: the leader's name, or None, and every later one."""
        return Leaders(self._zk, self.path)


class Leaders(Following[str | None]):
    """Made by `Election.leaders`. If leaders change quickly, some may be skipped, but never the last one.

    Successive leaders of the same name are two leaders. Iteration ends when the client is closed.
    """

    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, str | None]:
        while True:
            try:
                queue = rivals(await steady.get_children(self._path), _KINDS)
                if queue:
                    # Only the leader's znode is watched: the others may come and go.
                    data, stat = await steady.get(f"{self._path.rstrip('/')}/{queue[0].name}", watch=watcher)
                    return (queue[0].name, stat.czxid), (data or b"").decode("utf-8", "replace")
                if not rivals(await steady.get_children(self._path, watch=watcher), _KINDS):
                    return None, None
            except NoNodeError:
                # The leader has left meanwhile, or there never was one.
                if await steady.exists(self._path, watch=watcher) is None:
                    return None, None
