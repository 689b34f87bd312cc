"""Locks: `Lock`, and `ReadWriteLock`, whose readers share and whose writers do not.

    lock = Lock(zk, "/locks/a")
    async with lock as held:
        write(data, token=held.token)

    async with lock.hold(wait_s=5) as held: ...         # WaitOverError if that takes longer
    held = await lock.try_acquire()                     # None if it is not free
    await held.release()

The contender with the lowest number holds the lock; every other one waits for the one before it to leave (`contender`).
`holding` has what the holder must know: the token, and that it may lose the lock. `owning` has all ways to take it and
to give it back: callers of the same object are rivals, like those of other processes, and nothing is re-entrant.

- *A lock that may be lost is not acquired again* within the block that lost it: LostError, until the block is left.
- *Read and write*: a reader waits for the writers before it, a writer for all before it. So no writer starves. The
  holder of the write lock may `downgrade` it to the read lock. The other way is refused within a block: two readers
  that both want to write would wait for each other.

The znodes are named like Curator's, and kazoo's are rivals as well: with `extra_lock_patterns=["-lock-"]` kazoo's
`Lock` counts ours.

Raises, besides the errors of requests: WaitOverError, LostError; RuntimeError as `owning` says.
"""

from collections.abc import Iterable

from zab.client.client import Client
from zab.client.core.exceptions import NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.recipes.contender import Contender, Rival, rivals
from zab.client.recipes.errors import LostError
from zab.client.recipes.holding import Held, Hold
from zab.client.recipes.owning import Owned
from zab.client.recipes.paths import checked

__all__ = ["Lock", "ReadWriteLock"]

_LOCK_KINDS = ("lock-", "__lock__")
_READ_KINDS = ("__READ__", "__rlock__")
_WRITE_KINDS = ("__WRIT__", "__lock__")


class Lock(Owned[Held]):
    """name: shown by `contenders`. acl: the ACL of the znodes. kinds: those of the znodes in the queue, its own
    first."""

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
        super().__init__(zk, path)
        self._name = name
        self._acl = tuple(acl)
        self._kinds = kinds

    async def try_acquire(self) -> Held | None:
        """Does not wait: None if it is not free."""
        held = await self._take(None, only_look=True)
        return None if held is None else self._given(held)

    async def contenders(self) -> list[str]:
        """The names of those that hold it or wait, in order."""
        return await names_of_rivals(self._zk, self.path, self._kinds)

    async def _take(self, wait_s: float | None, *, only_look: bool = False) -> Held | None:
        contender = self._contender()
        held = None
        try:
            async with self._zk.move_on_after(wait_s):
                await contender.enter()
                if not (only_look and await contender.ahead(self._matters)):
                    await contender.wait_turn(self._matters)
                    held = self._held(contender)
        finally:
            if held is None:
                await contender.leave()
        return held

    def _contender(self) -> Contender:
        return Contender(self._zk, self.path, self._kinds, self._name.encode(), self._acl)

    def _held(self, contender: Contender, token: int | None = None) -> Held:
        assert contender.path is not None
        hold = Hold(self._zk, contender.path, contender.czxid)
        self._zk.undertake(hold)
        return Held(hold, contender, token)

    def _matters(self, _rival: Rival) -> bool:
        """Whether the lock waits for a rival that precedes it."""
        return True


class _ReadLock(Lock):
    """Waits for the writers before it."""

    def __init__(self, zk: Client, path: str, *, name: str, acl: Iterable[Acl], write: "_WriteLock") -> None:
        super().__init__(zk, path, name=name, acl=acl, kinds=_READ_KINDS + _WRITE_KINDS)
        self._write = write

    async def beside(self, writing: Held) -> Held:
        """The read lock with the number of the write lock, before all writers that wait, and with its token."""
        writing.check()
        assert isinstance(writing.removable, Contender)
        contender = self._contender()
        held = None
        try:
            await contender.enter_beside(writing.removable.number)
            # If it was gone before, another writer may have had its turn already.
            if not await writing.removable.is_there():
                raise LostError(self.path, "its znode went before the read lock came")
            held = self._held(contender, writing.token)
        finally:
            if held is None:
                await contender.leave()
        return self._given(held)

    def _matters(self, rival: Rival) -> bool:
        return rival.kind in _WRITE_KINDS

    def _refuse_nesting(self) -> None:
        super()._refuse_nesting()
        if self._write.held_by_caller is not None:
            raise RuntimeError(f"{self.path}: who is in a block of the write lock gets the read lock by downgrade")


class _WriteLock(Lock):
    """Waits for all before it."""

    def __init__(self, zk: Client, path: str, *, name: str, acl: Iterable[Acl]) -> None:
        super().__init__(zk, path, name=name, acl=acl, kinds=_WRITE_KINDS + _READ_KINDS)
        self.read: Lock | None = None

    def _refuse_nesting(self) -> None:
        super()._refuse_nesting()
        assert self.read is not None
        if self.read.held_by_caller is not None:
            raise RuntimeError(f"{self.path}: who holds the read lock cannot get the write lock; release it first")


class ReadWriteLock:
    """`read` and `write` are locks, each with everything that `Lock` has."""

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

    async def downgrade(self, writing: Held) -> Held:
        """Exchanges the write lock, as `write` gave it, for the read lock, which is returned. No writer comes in
        between.

        If it raises, the write lock is held as before. A block of the write lock that ends afterwards gives nothing
        back.
        """
        if writing.is_released:
            raise RuntimeError(f"{self.path}: the write lock is given back already")
        reading = await self._read.beside(writing)
        writing._let_go()
        return reading


async def names_of_rivals(zk: Client, path: str, kinds: tuple[str, ...]) -> list[str]:
    """The names in the znodes of the queue at `path`, in order."""
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
            # It has left meanwhile.
            continue
        names.append((data or b"").decode("utf-8", "replace"))
    return names
