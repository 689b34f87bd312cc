"""The recipes for threads that block: as those of `zab.client.recipes`, but that nothing is awaited.

    with Lock(zk, "/locks/a") as held: ...

What each promises, its module there says.
"""

from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import zab.client.recipes as waiting
from zab.client.core.exceptions import ZabError
from zab.client.core.records import OPEN_ACL, Acl, Stat
from zab.client.recipes import (
    BadDataError,
    Delta,
    DeltaKind,
    Depth,
    Entry,
    Instance,
    LostError,
    WaitOverError,
    from_json,
    from_toml,
)
from zab.client.recipes.configuration import NO_DEFAULT
from zab.client.recipes.owning import Owned
from zab.client.sync.client import Client

__all__ = [
    "BadDataError",
    "Barrier",
    "Cache",
    "Configuration",
    "Counter",
    "Delta",
    "DeltaKind",
    "Depth",
    "Discovery",
    "DoubleBarrier",
    "Election",
    "Entry",
    "Following",
    "Held",
    "Instance",
    "Lease",
    "Leased",
    "Lock",
    "LockingQueue",
    "LostError",
    "Party",
    "Queue",
    "ReadWriteLock",
    "Semaphore",
    "Taken",
    "WaitOverError",
    "children_of",
    "data_of",
    "from_json",
    "from_toml",
]

T = TypeVar("T")
W = TypeVar("W")
H = TypeVar("H")


class _Blocking(Generic[W]):
    """Runs what the same recipe that is awaited does."""

    def __init__(self, zk: Client, make: Callable[[], W]) -> None:
        if not isinstance(zk, Client):
            theirs = type(zk).__module__
            raise TypeError(f"a recipe of zab.client.sync.recipes takes a client of zab.client.sync, not of {theirs}")
        self._zk = zk
        with zk.alone():
            self.waiting = make()


class Following(_Blocking[AsyncIterator[T]], Generic[T]):
    """`for … in …`: waits for the next one."""

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self._zk.run(_next(self.waiting))
        except StopAsyncIteration:
            raise StopIteration from None


async def _next(iterator: AsyncIterator[T]) -> T:
    return await iterator.__anext__()


class Held(_Blocking[waiting.Held]):
    """What its holder sees of it: see `zab.client.recipes.holding`."""

    @property
    def path(self) -> str:
        return self.waiting.path

    @property
    def token(self) -> int:
        return self.waiting.token

    @property
    def is_held(self) -> bool:
        with self._zk.alone():
            return self.waiting.is_held

    def lost(self) -> None:
        """Returns when it may be lost: for a thread of its own."""
        self._zk.run(self.waiting.lost())

    @property
    def is_released(self) -> bool:
        return self.waiting.is_released

    def check(self) -> None:
        """Raises LostError when it may be lost, or is released."""
        with self._zk.alone():
            self.waiting.check()

    def release(self) -> None:
        """Gives it back, whichever thread calls this. It is free when this returns. What was given back stays so."""
        self._zk.run(self.waiting.release())

    def __repr__(self) -> str:
        with self._zk.alone():
            return repr(self.waiting)


def _held(zk: Client, held: waiting.Held) -> Held:
    return Held(zk, lambda: held)


class _Owned(_Blocking[W], Generic[W, H]):
    """See `zab.client.recipes.owning`."""

    @property
    def path(self) -> str:
        return self._owned.path

    def acquire(self, wait_s: float | None = None) -> H:
        """Waits for it; `wait_s` None: as long as the session lives. Raises WaitOverError. Give it back by `release`
        of what this returns."""
        return self._give(self._zk.run(self._owned.acquire(wait_s)))

    def release(self) -> None:
        """Gives back what this object gave out; RuntimeError where that is nothing, or several things. It is free when
        this returns."""
        self._zk.run(self._owned.release())

    @contextmanager
    def hold(self, wait_s: float | None = None) -> Generator[H]:
        """It is held for the length of the block."""
        holding = self._owned.hold(wait_s)
        held = self._zk.run(holding.__aenter__())
        try:
            yield self._give(held)
        finally:
            self._zk.run(holding.__aexit__(None, None, None))

    def __enter__(self) -> H:
        return self._give(self._zk.run(self._owned.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._zk.run(self._owned.__aexit__(None, None, None))

    @property
    def _owned(self) -> Owned[Any]:
        assert isinstance(self.waiting, Owned)
        return self.waiting

    def _give(self, held: Any) -> H:
        """What is given out for what is awaited."""
        raise NotImplementedError


class Lock(_Owned[waiting.Lock, Held]):
    """See `zab.client.recipes.lock`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Lock(zk.waiting, path, name=name, acl=acl))

    @classmethod
    def _of(cls, zk: Client, lock: waiting.Lock) -> Self:
        made = cls.__new__(cls)
        _Blocking.__init__(made, zk, lambda: lock)
        return made

    def _give(self, held: waiting.Held) -> Held:
        return _held(self._zk, held)

    def try_acquire(self) -> Held | None:
        """Waits for nobody: None when it is not free."""
        held = self._zk.run(self.waiting.try_acquire())
        return None if held is None else _held(self._zk, held)

    def contenders(self) -> list[str]:
        """The names of those who hold it or wait, in their order."""
        return self._zk.run(self.waiting.contenders())


class ReadWriteLock(_Blocking[waiting.ReadWriteLock]):
    """See `zab.client.recipes.lock`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.ReadWriteLock(zk.waiting, path, name=name, acl=acl))
        self._read = Lock._of(zk, self.waiting.read)
        self._write = Lock._of(zk, self.waiting.write)

    @property
    def read(self) -> Lock:
        return self._read

    @property
    def write(self) -> Lock:
        return self._write

    @property
    def path(self) -> str:
        return self.waiting.path

    def downgrade(self, writing: Held) -> Held:
        """From what `write` gave to the read lock, which this returns. No writer comes in between."""
        return _held(self._zk, self._zk.run(self.waiting.downgrade(writing.waiting)))


class Leased(Held):
    """See `zab.client.recipes.lease`."""

    def __init__(self, zk: Client, leased: waiting.Leased) -> None:
        super().__init__(zk, lambda: leased)
        self._leased = leased

    @property
    def ends_at(self) -> float:
        return self._leased.ends_at

    def renew(self) -> None:
        """It ends `seconds` after this was called. Raises LostError when it is over already."""
        self._zk.run(self._leased.renew())


class Lease(_Owned[waiting.Lease, Leased]):
    """See `zab.client.recipes.lease`."""

    def __init__(self, zk: Client, path: str, *, seconds: float, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Lease(zk.waiting, path, seconds=seconds, name=name, acl=acl))

    def _give(self, held: waiting.Leased) -> Leased:
        return Leased(self._zk, held)


class Semaphore(_Owned[waiting.Semaphore, Held]):
    """See `zab.client.recipes.semaphore`."""

    def __init__(self, zk: Client, path: str, *, permits: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Semaphore(zk.waiting, path, permits=permits, name=name, acl=acl))

    def _give(self, held: waiting.Held) -> Held:
        return _held(self._zk, held)

    def holders(self) -> list[str]:
        """The names of those who hold a permit, in the order in which they came."""
        return self._zk.run(self.waiting.holders())


class Election(_Blocking[waiting.Election]):
    """See `zab.client.recipes.election`."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Election(zk.waiting, path, name, acl=acl))

    @contextmanager
    def lead(self, wait_s: float | None = None) -> Generator[Held]:
        """Enters the block as the leader; leaving it resigns. Raises WaitOverError."""
        leading = self.waiting.lead(wait_s)
        held = self._zk.run(leading.__aenter__())
        try:
            yield Held(self._zk, lambda: held)
        finally:
            self._zk.run(leading.__aexit__(None, None, None))

    def candidates(self) -> list[str]:
        """The names of all candidates; the first one leads."""
        return self._zk.run(self.waiting.candidates())

    def leader(self) -> str | None:
        """The leader's name; None where nobody leads."""
        return self._zk.run(self.waiting.leader())

    def leaders(self) -> Following[str | None]:
        """`for leader in election.leaders()`: the leader's name, or None, and every later one."""
        return Following(self._zk, self.waiting.leaders)


class Barrier(_Blocking[waiting.Barrier]):
    """See `zab.client.recipes.barrier`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Barrier(zk.waiting, path, acl=acl))

    def create(self) -> None:
        self._zk.run(self.waiting.create())

    def remove(self) -> None:
        self._zk.run(self.waiting.remove())

    def wait(self, wait_s: float | None = None) -> None:
        """Returns when it is not there. Raises WaitOverError."""
        self._zk.run(self.waiting.wait(wait_s))


class DoubleBarrier(_Blocking[waiting.DoubleBarrier]):
    """See `zab.client.recipes.barrier`."""

    def __init__(self, zk: Client, path: str, *, count: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.DoubleBarrier(zk.waiting, path, count=count, name=name, acl=acl))

    def enter(self, wait_s: float | None = None) -> None:
        """Returns when `count` members are there. Raises WaitOverError."""
        self._zk.run(self.waiting.enter(wait_s))

    def leave(self, wait_s: float | None = None) -> None:
        """Returns when all members of the round have left. Raises WaitOverError."""
        self._zk.run(self.waiting.leave(wait_s))

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def members(self) -> list[str]:
        """The names of the members that are there."""
        return self._zk.run(self.waiting.members())


class Queue(_Blocking[waiting.Queue]):
    """See `zab.client.recipes.queue`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Queue(zk.waiting, path, acl=acl))

    def put(self, data: bytes, priority: int = 100) -> None:
        self._zk.run(self.waiting.put(data, priority))

    def put_all(self, items: Sequence[bytes], priority: int = 100) -> None:
        """Adds all of them, in their order, or none."""
        self._zk.run(self.waiting.put_all(items, priority))

    def count(self) -> int:
        return self._zk.run(self.waiting.count())

    def get(self, wait_s: float | None = None) -> bytes:
        """Takes the first item; waits for one where there is none. Raises WaitOverError."""
        return self._zk.run(self.waiting.get(wait_s))

    def try_get(self) -> bytes | None:
        """Takes the first item; None where there is none."""
        return self._zk.run(self.waiting.try_get())


class Taken(Held):
    """See `zab.client.recipes.queue`."""

    def __init__(self, zk: Client, taken: waiting.Taken) -> None:
        super().__init__(zk, lambda: taken)
        self._taken = taken

    @property
    def data(self) -> bytes:
        return self._taken.data

    def consume(self) -> None:
        """The item is done, and gone. Raises LostError where it is not held any more."""
        self._zk.run(self._taken.consume())


class LockingQueue(_Blocking[waiting.LockingQueue]):
    """See `zab.client.recipes.queue`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.LockingQueue(zk.waiting, path, name=name, acl=acl))

    def put(self, data: bytes, priority: int = 100) -> None:
        self._zk.run(self.waiting.put(data, priority))

    def put_all(self, items: Sequence[bytes], priority: int = 100) -> None:
        """Adds all of them, in their order, or none."""
        self._zk.run(self.waiting.put_all(items, priority))

    def count(self) -> int:
        return self._zk.run(self.waiting.count())

    def get(self, wait_s: float | None = None) -> Taken:
        """Holds the first item that nobody holds; waits for one. Raises WaitOverError."""
        return Taken(self._zk, self._zk.run(self.waiting.get(wait_s)))

    def try_get(self) -> Taken | None:
        """Holds the first item that nobody holds; None where there is none."""
        taken = self._zk.run(self.waiting.try_get())
        return None if taken is None else Taken(self._zk, taken)

    @contextmanager
    def take(self, wait_s: float | None = None) -> Generator[Taken]:
        """An item for the length of the block; it is given back where it was not consumed."""
        item = self.get(wait_s)
        try:
            yield item
        finally:
            item.release()


class Counter(_Blocking[waiting.Counter]):
    """See `zab.client.recipes.counter`."""

    def __init__(self, zk: Client, path: str, *, default: int = 0, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Counter(zk.waiting, path, default=default, acl=acl))

    def value(self) -> int:
        return self._zk.run(self.waiting.value())

    def add(self, amount: int = 1) -> int:
        """Returns the value after it."""
        return self._zk.run(self.waiting.add(amount))

    def compare_and_set(self, expected: int, value: int) -> bool:
        return self._zk.run(self.waiting.compare_and_set(expected, value))


class Party(_Blocking[waiting.Party]):
    """See `zab.client.recipes.party`."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Party(zk.waiting, path, name, acl=acl))

    def join(self) -> None:
        self._zk.run(self.waiting.join())

    def leave(self) -> None:
        self._zk.run(self.waiting.leave())

    def lost(self) -> ZabError | None:
        """Returns the error with which it ceased to be a member against its will; None once it has left."""
        return self._zk.run(self.waiting.lost())

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def members(self) -> list[str]:
        """The names of all members, in the order in which they came."""
        return self._zk.run(self.waiting.members())

    def following(self) -> Following[list[str]]:
        """`for members in party.following()`: the names now, and after each change."""
        return Following(self._zk, self.waiting.following)


class Discovery(_Blocking[waiting.Discovery]):
    """See `zab.client.recipes.discovery`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: waiting.Discovery(zk.waiting, path, acl=acl))

    @contextmanager
    def register(self, name: str, instance: Instance) -> Generator[Instance]:
        """The instance is there for the length of the block, as it is given out."""
        registered = self.waiting.register(name, instance)
        given = self._zk.run(registered.__aenter__())
        try:
            yield given
        finally:
            self._zk.run(registered.__aexit__(None, None, None))

    def lost(self, name: str, instance: Instance) -> ZabError | None:
        """Returns the error with which it ceased to be registered against its will; None once its block has ended."""
        return self._zk.run(self.waiting.lost(name, instance))

    def names(self) -> list[str]:
        return self._zk.run(self.waiting.names())

    def instances(self, name: str) -> list[Instance]:
        return self._zk.run(self.waiting.instances(name))

    def following(self, name: str) -> Following[list[Instance]]:
        """`for instances in discovery.following(name)`: those that are registered now, and after each change."""
        return Following(self._zk, lambda: self.waiting.following(name))


class Cache(_Blocking[waiting.Cache], Mapping[str, Entry]):
    """See `zab.client.recipes.cache`."""

    def __init__(self, zk: Client, path: str, depth: Depth = Depth.SUBTREE) -> None:
        super().__init__(zk, lambda: waiting.Cache(zk.waiting, path, depth))

    @property
    def is_current(self) -> bool:
        with self._zk.alone():
            return self.waiting.is_current

    def start(self) -> None:
        """Returns when all of it is there."""
        self._zk.run(self.waiting.start())

    def close(self) -> None:
        with self._zk.alone():
            self.waiting.close()

    def settled(self) -> None:
        """Returns when it is current."""
        self._zk.run(self.waiting.settled())

    def deltas(self) -> Following[Delta]:
        """`for delta in cache.deltas()`: all that there is as ADDED, then what changes. Ends with the cache."""
        return Following(self._zk, self.waiting.deltas)

    def children(self, path: str) -> list[str]:
        with self._zk.alone():
            return self.waiting.children(path)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, path: str) -> Entry:
        with self._zk.alone():
            return self.waiting[path]

    def __iter__(self) -> Iterator[str]:
        with self._zk.alone():
            return iter(list(self.waiting))

    def __len__(self) -> int:
        with self._zk.alone():
            return len(self.waiting)

    def items(self) -> ItemsView[str, Entry]:
        with self._zk.alone():
            return self.waiting.items()

    def values(self) -> ValuesView[Entry]:
        with self._zk.alone():
            return self.waiting.values()


class Configuration(_Blocking[waiting.Configuration[T]], Generic[T]):
    """See `zab.client.recipes.configuration`."""

    def __init__(self, zk: Client, path: str, parse: Callable[[bytes], T], default: T = NO_DEFAULT) -> None:
        super().__init__(zk, lambda: waiting.Configuration(zk.waiting, path, parse, default))

    @classmethod
    def of_children(
        cls, zk: Client, path: str, parse: Callable[[dict[str, bytes]], T], default: T = NO_DEFAULT
    ) -> "Configuration[T]":
        made = cls.__new__(cls)
        _Blocking.__init__(made, zk, lambda: waiting.Configuration.of_children(zk.waiting, path, parse, default))
        return made

    @property
    def error(self) -> waiting.BadDataError | None:
        return self.waiting.error

    @property
    def value(self) -> T:
        """The last good value, as far as this client has heard."""
        with self._zk.alone():
            return self.waiting.value

    def start(self) -> None:
        """Returns when the value is there. Raises BadDataError, NoNodeError."""
        self._zk.run(self.waiting.start())

    def close(self) -> None:
        with self._zk.alone():
            self.waiting.close()

    def following(self) -> Following[T]:
        """`for value in config.following()`: the value now, and each that is another one."""
        return Following(self._zk, self.waiting.following)

    def __enter__(self) -> Self:
        self._zk.run(self.waiting.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def data_of(zk: Client, path: str) -> Following[tuple[bytes | None, Stat] | None]:
    """`for found in data_of(zk, path)`: (data, stat) now, and after each change; None where it is gone."""
    return Following(zk, lambda: waiting.data_of(zk.waiting, path))


def children_of(zk: Client, path: str) -> Following[list[str] | None]:
    """`for names in children_of(zk, path)`: sorted; None where the parent is gone."""
    return Following(zk, lambda: waiting.children_of(zk.waiting, path))
