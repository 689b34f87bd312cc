"""Locks: `Lock`, and `ReadWriteLock`, whose readers share and whose writers do not.

    lock = Lock(zk, "/locks/a")
    async with lock as held:
        write(data, token=held.token)

    async with lock.hold(wait_s=5) as held: ...         # WaitOverError when it did not come in time
    held = await lock.try_acquire()                     # None when somebody has it

Whose number is the lowest holds it; every other waits for the one before it to leave (`contender`). What the holder has
to know is in `holding`: the token, and that it may lose the lock.

- *Re-entrant*: the caller (a task, or a thread) that holds it gets the same `Held` again, and has released it when it
  has released each. Other callers of the same object are rivals, as those of other processes are.
- *A lock that may be lost is not given again* to the caller that lost it: LostError, until it has released it.
- *Read and write*: a reader waits for the writers before it, a writer for everybody before it. So no writer starves.
  Who holds the write lock gets the read lock at once, and may `downgrade`. The other way is refused: two readers that
  both want to write would wait for each other.

The znodes are named as Curator's, and kazoo's are rivals too: with `extra_lock_patterns=["-lock-"]` kazoo's `Lock`
counts ours.

Raised beside what requests raise: WaitOverError, LostError; RuntimeError where a caller releases what it does not hold.
"""

from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType

from attrs import define

from zab.client.client import Client
from zab.client.core.exceptions import NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.recipes.contender import Contender, Rival, rivals
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.holding import Held, Hold
from zab.client.recipes.paths import checked

__all__ = ["Lock", "ReadWriteLock"]

_LOCK_KINDS = ("lock-", "__lock__")
_READ_KINDS = ("__READ__", "__rlock__")
_WRITE_KINDS = ("__WRIT__", "__lock__")


@define
class _Holding:
    """What one caller holds, and how often it asked for it."""

    contender: Contender
    hold: Hold
    held: Held
    count: int = 1


class Lock:
    """See the module.

    name: says who waits or holds, in `contenders`. acl: of the znodes. kinds: of the znodes in the queue, its own
    first.
    """

    def __init__(
        self,
        zk: Client,
        path: str,
        *,
        name: str = "",
        acl: Iterable[Acl] = OPEN_ACL,
        kinds: tuple[str, ...] = _LOCK_KINDS,
    ) -> None:
        checked(zk, path)
        self.path = path
        self._zk = zk
        self._name = name
        self._acl = tuple(acl)
        self._kinds = kinds
        self._holdings: dict[Hashable, _Holding] = {}

    async def acquire(self, wait_s: float | None = None) -> Held:
        """Waits for it; `wait_s` None: as long as the session lives. Raises WaitOverError."""
        held = await self._acquire(wait_s, only_look=False)
        if held is None:
            raise WaitOverError(self.path, wait_s)
        return held

    async def try_acquire(self) -> Held | None:
        """Waits for nobody: None when it is not free."""
        return await self._acquire(None, only_look=True)

    async def release(self) -> None:
        """Gives up what this caller holds. It is free when this returns; while no server is there, as soon as one
        is.
        """
        holding = self._holding
        if holding is None:
            raise RuntimeError(f"{self.path} is not held by this caller")
        if self._count_down(holding):
            await holding.contender.leave()

    def _let_go(self) -> None:
        """As `release`, and waits for nothing, so that no cancellation comes in between: for other recipes."""
        holding = self._holding
        if holding is not None and self._count_down(holding):
            holding.contender.abandon()

    def _count_down(self, holding: "_Holding") -> bool:
        """Whether its caller has released each now."""
        holding.count -= 1
        if holding.count == 0:
            del self._holdings[self._zk.caller]
            holding.hold.stop()
        return holding.count == 0

    @asynccontextmanager
    async def hold(self, wait_s: float | None = None) -> AsyncIterator[Held]:
        """It is held for the length of the block."""
        held = await self.acquire(wait_s)
        try:
            yield held
        finally:
            await self.release()

    async def __aenter__(self) -> Held:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.release()

    async def contenders(self) -> list[str]:
        """The names of those who hold it or wait, in their order."""
        return await names_of_rivals(self._zk, self.path, self._kinds)

    @property
    def _holding(self) -> "_Holding | None":
        """What this caller holds."""
        return self._holdings.get(self._zk.caller)

    async def _acquire(self, wait_s: float | None, *, only_look: bool) -> Held | None:
        caller = self._zk.caller
        holding = self._holdings.get(caller)
        if holding is not None:
            holding.held.check()
            holding.count += 1
            return holding.held
        contender = Contender(self._zk, self.path, self._kinds, self._name.encode(), self._acl)
        try:
            async with self._zk.move_on_after(wait_s):
                token = await self._turn(contender, only_look=only_look)
                if token is not None:
                    holding = self._holdings[caller] = self._take(contender, token)
        finally:
            if holding is None:
                await contender.leave()
        return None if holding is None else holding.held

    async def _turn(self, contender: Contender, *, only_look: bool) -> int | None:
        """Gets the contender to its turn. Returns the token; None where it would have to wait."""
        await contender.enter()
        if only_look and await contender.ahead():
            return None
        await contender.wait_turn()
        return contender.czxid

    def _take(self, contender: Contender, token: int) -> _Holding:
        assert contender.path is not None
        hold = Hold(self._zk, contender.path, contender.czxid)
        self._zk.undertake(hold)
        return _Holding(contender, hold, Held(hold, token))


class _ReadLock(Lock):
    """Waits for the writers before it. Where its caller holds the write lock it stands at the same number, before all
    writers that wait, and has the same token."""

    def __init__(self, zk: Client, path: str, *, name: str, acl: Iterable[Acl], write: "_WriteLock") -> None:
        super().__init__(zk, path, name=name, acl=acl, kinds=_READ_KINDS + _WRITE_KINDS)
        self._write = write

    async def _turn(self, contender: Contender, *, only_look: bool) -> int | None:
        writing = self._write._holding
        if writing is not None:
            writing.held.check()
            await contender.enter_beside(writing.contender.number)
            # Where it was gone before, another writer may have had its turn already.
            if not await writing.contender.is_there():
                raise LostError(self.path, "its znode went before the read lock came")
            return writing.held.token
        await contender.enter()
        if only_look and await contender.ahead(_is_writer):
            return None
        await contender.wait_turn(_is_writer)
        return contender.czxid


class _WriteLock(Lock):
    """Waits for everybody before it."""

    def __init__(self, zk: Client, path: str, *, name: str, acl: Iterable[Acl]) -> None:
        super().__init__(zk, path, name=name, acl=acl, kinds=_WRITE_KINDS + _READ_KINDS)
        self.read: Lock | None = None

    async def _acquire(self, wait_s: float | None, *, only_look: bool) -> Held | None:
        assert self.read is not None
        if self._holding is None and self.read._holding is not None:
            raise RuntimeError(f"{self.path}: who holds the read lock cannot get the write lock; release it first")
        return await super()._acquire(wait_s, only_look=only_look)


def _is_writer(rival: Rival) -> bool:
    return rival.kind in _WRITE_KINDS


class ReadWriteLock:
    """See the module. `read` and `write` are locks, each with all that `Lock` has."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        self.path = path
        self._write = _WriteLock(zk, path, name=name, acl=acl)
        self._read = _ReadLock(zk, path, name=name, acl=acl, write=self._write)
        self._write.read = self._read

    @property
    def read(self) -> Lock:
        return self._read

    @property
    def write(self) -> Lock:
        return self._write

    async def downgrade(self) -> Held:
        """From the write lock, which this caller has by `acquire`, to the read lock; then release `read`.

        No writer comes in between. Where it raises, the write lock is held as before. In a block of the write lock,
        `read.acquire` does the same when the block is left.
        """
        if self._write._holding is None:
            raise RuntimeError(f"{self.path}: the write lock is not held by this caller")
        held = await self._read.acquire()
        self._write._let_go()
        return held


async def names_of_rivals(zk: Client, path: str, kinds: tuple[str, ...]) -> list[str]:
    """What stands in the znodes of the queue at `path`, in their order."""
    steady = zk.retrying()
    try:
        queue = rivals(await steady.get_children(path), kinds)
    except NoNodeError:
        return []
    names = []
    for rival in queue:
        try:
            data, _ = await steady.get(f"{path.rstrip('/')}/{rival.name}")
        except NoNodeError:
            # It left meanwhile.
            continue
        names.append((data or b"").decode("utf-8", "replace"))
    return names
