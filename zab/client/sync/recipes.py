"""The recipes of `zab.client.recipes` for threads that block: nothing is awaited.

    with Lock(zk, "/locks/a") as held: ...

Each recipe's module there says what it promises.
"""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Generic, Self, TypeVar

import zab.client.recipes as awaited
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
from zab.client.sync.blocking import Blocking, Entered, Iterated, Runner, blocking, context, immediate, iterator
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
H = TypeVar("H", bound="Held")

Following = Iterated


class _Recipe(Blocking[W], Generic[W]):
    def __init__(self, zk: Client, make: Callable[[], W]) -> None:
        _check(zk)
        with zk.alone():
            super().__init__(zk, make())


def _check(zk: Client) -> None:
    if not isinstance(zk, Client):
        theirs = type(zk).__module__
        raise TypeError(f"a recipe of zab.client.sync.recipes takes a client of zab.client.sync, not of {theirs}")


# What is held.


class Held(Blocking[awaited.Held]):
    """See `zab.client.recipes.holding`."""

    @property
    def path(self) -> str:
        return self.waiting.path

    @property
    def token(self) -> int:
        return self.waiting.token

    @property
    def is_held(self) -> bool:
        with self._runner.alone():
            return self.waiting.is_held

    @property
    def is_released(self) -> bool:
        return self.waiting.is_released

    lost = blocking(awaited.Held.lost)
    check = immediate(awaited.Held.check)
    release = blocking(awaited.Held.release)
    __repr__ = immediate(awaited.Held.__repr__)


def _held_or_none(runner: Runner, held: awaited.Held | None) -> Held | None:
    return None if held is None else Held(runner, held)


class _Owned(_Recipe[W], Generic[W, H]):
    """See `zab.client.recipes.owning`."""

    @property
    def path(self) -> str:
        return self._owned.path

    release = blocking(Owned.release)

    def __enter__(self) -> H:
        return self._give(self._runner, self._runner.run(self._owned.__aenter__()))

    __exit__ = blocking(Owned.__aexit__)

    @property
    def _owned(self) -> Owned[Any]:
        assert isinstance(self.waiting, Owned)
        return self.waiting

    _give: Callable[[Runner, Any], H]


class Lock(_Owned[awaited.Lock, Held]):
    """See `zab.client.recipes.lock`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Lock(zk.waiting, path, name=name, acl=acl))

    @classmethod
    def _of(cls, zk: Client, lock: awaited.Lock) -> Self:
        made = cls.__new__(cls)
        _Recipe.__init__(made, zk, lambda: lock)
        return made

    _give = Held
    acquire = blocking(awaited.Lock.acquire, Held)
    hold = context(awaited.Lock.hold, Held)
    try_acquire = blocking(awaited.Lock.try_acquire, _held_or_none)
    contenders = blocking(awaited.Lock.contenders)


class ReadWriteLock(_Recipe[awaited.ReadWriteLock]):
    """See `zab.client.recipes.lock`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.ReadWriteLock(zk.waiting, path, name=name, acl=acl))
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
        """Exchanges the write lock, as `write` gave it, for the read lock, which is returned. No writer comes in
        between."""
        return Held(self._runner, self._runner.run(self.waiting.downgrade(writing.waiting)))


class Leased(Held):
    """See `zab.client.recipes.lease`."""

    waiting: awaited.Leased

    @property
    def ends_at(self) -> float:
        return self.waiting.ends_at

    renew = blocking(awaited.Leased.renew)


class Lease(_Owned[awaited.Lease, Leased]):
    """See `zab.client.recipes.lease`."""

    def __init__(self, zk: Client, path: str, *, seconds: float, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Lease(zk.waiting, path, seconds=seconds, name=name, acl=acl))

    _give = Leased
    acquire = blocking(awaited.Lease.acquire, Leased)
    hold = context(awaited.Lease.hold, Leased)


class Semaphore(_Owned[awaited.Semaphore, Held]):
    """See `zab.client.recipes.semaphore`."""

    def __init__(self, zk: Client, path: str, *, permits: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Semaphore(zk.waiting, path, permits=permits, name=name, acl=acl))

    _give = Held
    acquire = blocking(awaited.Semaphore.acquire, Held)
    hold = context(awaited.Semaphore.hold, Held)
    holders = blocking(awaited.Semaphore.holders)


class Election(_Recipe[awaited.Election]):
    """See `zab.client.recipes.election`."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Election(zk.waiting, path, name, acl=acl))

    lead = context(awaited.Election.lead, Held)
    candidates = blocking(awaited.Election.candidates)
    leader = blocking(awaited.Election.leader)
    leaders = iterator(awaited.Election.leaders)


# Barriers, queues, counters.


class Barrier(_Recipe[awaited.Barrier]):
    """See `zab.client.recipes.barrier`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Barrier(zk.waiting, path, acl=acl))

    create = blocking(awaited.Barrier.create)
    remove = blocking(awaited.Barrier.remove)
    wait = blocking(awaited.Barrier.wait)


class DoubleBarrier(_Recipe[awaited.DoubleBarrier], Entered[awaited.DoubleBarrier]):
    """See `zab.client.recipes.barrier`."""

    def __init__(self, zk: Client, path: str, *, count: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.DoubleBarrier(zk.waiting, path, count=count, name=name, acl=acl))

    enter = blocking(awaited.DoubleBarrier.enter)
    leave = blocking(awaited.DoubleBarrier.leave)
    members = blocking(awaited.DoubleBarrier.members)


class Queue(_Recipe[awaited.Queue]):
    """See `zab.client.recipes.queue`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Queue(zk.waiting, path, acl=acl))

    put = blocking(awaited.Queue.put)
    put_all = blocking(awaited.Queue.put_all)
    count = blocking(awaited.Queue.count)
    get = blocking(awaited.Queue.get)
    try_get = blocking(awaited.Queue.try_get)


class Taken(Held):
    """See `zab.client.recipes.queue`."""

    waiting: awaited.Taken

    @property
    def data(self) -> bytes:
        return self.waiting.data

    consume = blocking(awaited.Taken.consume)


def _taken_or_none(runner: Runner, taken: awaited.Taken | None) -> Taken | None:
    return None if taken is None else Taken(runner, taken)


class LockingQueue(_Recipe[awaited.LockingQueue]):
    """See `zab.client.recipes.queue`."""

    def __init__(self, zk: Client, path: str, *, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.LockingQueue(zk.waiting, path, name=name, acl=acl))

    put = blocking(awaited.LockingQueue.put)
    put_all = blocking(awaited.LockingQueue.put_all)
    count = blocking(awaited.LockingQueue.count)
    get = blocking(awaited.LockingQueue.get, Taken)
    try_get = blocking(awaited.LockingQueue.try_get, _taken_or_none)
    take = context(awaited.LockingQueue.take, Taken)


class Counter(_Recipe[awaited.Counter]):
    """See `zab.client.recipes.counter`."""

    def __init__(self, zk: Client, path: str, *, default: int = 0, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Counter(zk.waiting, path, default=default, acl=acl))

    value = blocking(awaited.Counter.value)
    add = blocking(awaited.Counter.add)
    compare_and_set = blocking(awaited.Counter.compare_and_set)


# Who is there.


class Party(_Recipe[awaited.Party], Entered[awaited.Party]):
    """See `zab.client.recipes.party`."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Party(zk.waiting, path, name, acl=acl))

    join = blocking(awaited.Party.join)
    leave = blocking(awaited.Party.leave)
    lost = blocking(awaited.Party.lost)
    members = blocking(awaited.Party.members)
    following = iterator(awaited.Party.following)


class Discovery(_Recipe[awaited.Discovery]):
    """See `zab.client.recipes.discovery`."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        super().__init__(zk, lambda: awaited.Discovery(zk.waiting, path, acl=acl))

    register = context(awaited.Discovery.register, lambda _, instance: instance)
    lost = blocking(awaited.Discovery.lost)
    names = blocking(awaited.Discovery.names)
    instances = blocking(awaited.Discovery.instances)
    following = iterator(awaited.Discovery.following)


# What is read often.


class Cache(_Recipe[awaited.Cache], Entered[awaited.Cache], Mapping[str, Entry]):
    """See `zab.client.recipes.cache`."""

    def __init__(self, zk: Client, path: str, depth: Depth = Depth.SUBTREE) -> None:
        super().__init__(zk, lambda: awaited.Cache(zk.waiting, path, depth))

    @property
    def is_current(self) -> bool:
        with self._runner.alone():
            return self.waiting.is_current

    start = blocking(awaited.Cache.start)
    close = immediate(awaited.Cache.close)
    settled = blocking(awaited.Cache.settled)
    deltas = iterator(awaited.Cache.deltas)
    children = immediate(awaited.Cache.children)

    def __getitem__(self, path: str) -> Entry:
        with self._runner.alone():
            return self.waiting[path]

    def __iter__(self) -> Iterator[str]:
        with self._runner.alone():
            return iter(self.waiting)

    def __len__(self) -> int:
        with self._runner.alone():
            return len(self.waiting)

    def items(self) -> ItemsView[str, Entry]:
        with self._runner.alone():
            return self.waiting.items()

    def values(self) -> ValuesView[Entry]:
        with self._runner.alone():
            return self.waiting.values()


class Configuration(_Recipe[awaited.Configuration[T]], Entered[awaited.Configuration[T]], Generic[T]):
    """See `zab.client.recipes.configuration`."""

    def __init__(self, zk: Client, path: str, parse: Callable[[bytes], T], default: T = NO_DEFAULT) -> None:
        super().__init__(zk, lambda: awaited.Configuration(zk.waiting, path, parse, default))

    @classmethod
    def of_children(
        cls, zk: Client, path: str, parse: Callable[[dict[str, bytes]], T], default: T = NO_DEFAULT
    ) -> "Configuration[T]":
        made = cls.__new__(cls)
        _Recipe.__init__(made, zk, lambda: awaited.Configuration.of_children(zk.waiting, path, parse, default))
        return made

    @property
    def error(self) -> awaited.BadDataError | None:
        return self.waiting.error

    @property
    def value(self) -> T:
        """The last good value that this client has read."""
        with self._runner.alone():
            return self.waiting.value

    start = blocking(awaited.Configuration.start)
    close = immediate(awaited.Configuration.close)

    def following(self) -> Following[T]:
        """`for value in config.following()`: the value now, and each different one."""
        with self._runner.alone():
            return Following(self._runner, self.waiting.following())


def data_of(zk: Client, path: str) -> Following[tuple[bytes | None, Stat] | None]:
    """`for found in data_of(zk, path)`: (data, stat) now, and after each change; None if there is no znode."""
    _check(zk)
    return Following(zk, awaited.data_of(zk.waiting, path))


def children_of(zk: Client, path: str) -> Following[list[str] | None]:
    """`for names in children_of(zk, path)`: sorted; None if there is no parent."""
    _check(zk)
    return Following(zk, awaited.children_of(zk.waiting, path))
