"""Recipes: locks, elections, queues and the like, made of several operations, for several clients.

    from zab.client.recipes import Lock

Each consists of coroutines over a `Client` and uses nothing else, so all of them run on trio and asyncio;
`zab.client.sync.recipes` has the same for threads that block. A module has one recipe, and says what its znodes are,
what it promises, and what may be lost:

    lock, lease, semaphore, election    who holds something; `holding` has what a holder must know
    barrier                             who waits for whom
    queue                               items that are taken once
    counter                             a number that all add to
    party, discovery                    who is there
    following, cache, configuration     what is there, and how it changes

What they share: `contender` (a place in a queue), `presence` (an ephemeral at a given path), `receipts` (whether a
transaction was done), `copy` (what a cache keeps), `signal` (wakes waiting callers), `errors`.
"""

from zab.client.recipes.barrier import Barrier, DoubleBarrier
from zab.client.recipes.cache import Cache, Delta, DeltaKind, Deltas, Depth, Entry
from zab.client.recipes.configuration import Configuration, Values, from_json, from_toml
from zab.client.recipes.counter import Counter
from zab.client.recipes.discovery import Discovery, Instance
from zab.client.recipes.election import Election, Leaders
from zab.client.recipes.errors import BadDataError, LostError, WaitOverError
from zab.client.recipes.following import Following, children_of, data_of
from zab.client.recipes.holding import Held
from zab.client.recipes.lease import Lease, Leased
from zab.client.recipes.lock import Lock, ReadWriteLock
from zab.client.recipes.party import Members, Party
from zab.client.recipes.queue import LockingQueue, Queue, Taken
from zab.client.recipes.semaphore import Semaphore

__all__ = [
    "BadDataError",
    "Barrier",
    "Cache",
    "Configuration",
    "Counter",
    "Delta",
    "DeltaKind",
    "Deltas",
    "Depth",
    "Discovery",
    "DoubleBarrier",
    "Election",
    "Entry",
    "Following",
    "Held",
    "Instance",
    "Leaders",
    "Lease",
    "Leased",
    "Lock",
    "LockingQueue",
    "LostError",
    "Members",
    "Party",
    "Queue",
    "ReadWriteLock",
    "Semaphore",
    "Taken",
    "Values",
    "WaitOverError",
    "children_of",
    "data_of",
    "from_json",
    "from_toml",
]
