"""A semaphore: at most `permits` clients hold it at once.

    async with Semaphore(zk, "/semaphores/a", permits=3) as held: ...

    /semaphores/a           "3": how many permits there are, for all clients
    /semaphores/a/locks     a queue: whose turn it is to wait for a permit
    /semaphores/a/leases    one znode for each permit that is held, and one for the first in the queue

The leases with the lowest numbers hold a permit: so the rule needs no lock, and losing one breaks nothing. Which leases
leave cannot be seen from one of them. So only the first in the queue watches the list of leases, and the others wait
for their turn in the queue; no client wakes in vain. The layout is that of Curator's semaphore.

The token is the czxid of the holder's lease: the tokens of later holders are greater, but there are several holders.

Each `acquire`, and each block, takes another permit; `owning` has all ways to take and give back. Raises, besides the
errors of requests: WaitOverError, LostError; BadDataError if the semaphore was made with a different number of permits;
RuntimeError as `owning` says.
"""

from collections.abc import Iterable
from typing import Final

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import BadVersionError, ConnectionLossError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.recipes.contender import Contender
from zab.client.recipes.errors import BadDataError
from zab.client.recipes.holding import Held, Hold
from zab.client.recipes.lock import Lock, names_of_rivals
from zab.client.recipes.owning import Owned
from zab.client.recipes.paths import checked

__all__ = ["Semaphore"]

_KINDS: Final = ("lease-",)


class Semaphore(Owned[Held]):
    """name: shown by `holders`. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, *, permits: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        if permits < 1:
            raise ValueError(f"a semaphore of {permits} permits lets nobody in: give 1 or more")
        super().__init__(zk, checked(zk, path))
        self.permits = permits
        self._name = name.encode()
        self._acl = tuple(acl)
        self._queue = Lock(zk, f"{self.path}/locks", name=name, acl=acl)
        self._leases = f"{self.path}/leases"
        self._is_agreed = False

    async def holders(self) -> list[str]:
        """The names of those that hold a permit, in the order in which they came."""
        return (await names_of_rivals(self._zk, self._leases, _KINDS))[: self.permits]

    async def _take(self, wait_s: float | None) -> Held | None:
        async with self._zk.move_on_after(wait_s):
            return await self._turn()
        return None

    async def _turn(self) -> Held:
        await self._agree()
        contender = Contender(self._zk, self._leases, _KINDS, self._name, self._acl)
        held = None
        try:
            # The queue may be lost while waiting; the number of the lease is what counts.
            async with self._queue.hold():
                await contender.enter()
                await self._wait(contender)
            assert contender.path is not None
            hold = Hold(self._zk, contender.path, contender.czxid)
            self._zk.undertake(hold)
            held = Held(hold, contender)
        finally:
            if held is None:
                await contender.leave()
        return held

    def _refuse_nesting(self) -> None:
        """Each block takes another permit, so nesting is allowed."""

    async def _wait(self, contender: Contender) -> None:
        """Returns when fewer leases than permits are before this one."""
        while len(await contender.ahead()) >= self.permits:
            watcher = self._zk.watcher()
            try:
                await self._zk.retrying().get_children(self._leases, watch=watcher)
                # Read again with the watch set: it does not report what left before.
                if len(await contender.ahead()) >= self.permits:
                    await watcher.receive()
            finally:
                watcher.close()

    async def _agree(self) -> None:
        """Makes all clients agree on the number of permits, which is in the znode."""
        if self._is_agreed:
            return
        steady, attempts = self._zk.retrying(), Attempts()
        wanted = str(self.permits).encode()
        while True:
            try:
                data, stat = await steady.get(self.path)
            except NoNodeError as error:
                attempts.again(error)
                await steady.ensure_path(self.path, self._acl)
                continue
            if data == wanted:
                self._is_agreed = True
                return
            if data:
                raise BadDataError(self.path, f"the semaphore has {data[:20]!r} permits, not {self.permits}")
            try:
                await self._zk.set(self.path, wanted, stat.version)
            except BadVersionError:
                # Another client wrote it: look again.
                continue
            except ConnectionLossError as error:
                # This client may have written it, and the answer was lost.
                attempts.again(error)
