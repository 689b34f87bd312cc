"""The result of applying a transaction: what its reply needs, and the watches that it triggers.

A trigger is (kind, path, event type, acl). `kind` says which tables of watches it concerns:

    DATA     data watches of the path, and recursive ones of its ancestors
    CHILD    child watches of the path
    DELETE   as DATA, then as CHILD except for connections already notified: one event per connection

`acl` is the list that must grant READ to a connection before it is told: for a created znode the list it was created
with, for a deleted one the list it had, for a change among children the parent's. The triggers of one transaction are
in the order in which ZooKeeper fires them:

    create*          DATA path NODE_CREATED; CHILD parent NODE_CHILDREN_CHANGED
    delete*          DELETE path NODE_DELETED; CHILD parent NODE_CHILDREN_CHANGED
    setData          DATA path NODE_DATA_CHANGED (also for the same bytes)
    reconfig         DATA /zookeeper/config NODE_DATA_CHANGED
    closeSession     those of a delete for each ephemeral
    multi            those of each part in order
    others           none

They are only made if there are watches. An outcome is a plain tuple (`Applied`), since one is made for each write;
`Outcome` has the same with names.
"""

from typing import Final, NamedTuple, TypeAlias

from datatree.record import AclList

__all__ = [
    "CHILD",
    "DATA",
    "DELETE",
    "NODE_CHILDREN_CHANGED",
    "NODE_CREATED",
    "NODE_DATA_CHANGED",
    "NODE_DELETED",
    "Applied",
    "Outcome",
    "PartResult",
    "Trigger",
]

DATA, CHILD, DELETE = 0, 1, 2

# The event types in a notification.
NODE_CREATED: Final = 1
NODE_DELETED: Final = 2
NODE_DATA_CHANGED: Final = 3
NODE_CHILDREN_CHANGED: Final = 4

Trigger: TypeAlias = tuple[int, bytes, int, AclList]
# One part of a multi: type (-1 if it was refused), error code, path, stat (68 bytes) of what it created or set.
PartResult: TypeAlias = tuple[int, int, bytes, bytes | None]
# error, path, stat, results, triggers
Applied: TypeAlias = tuple[int, bytes, bytes | None, list[PartResult] | None, list[Trigger] | None]


class Outcome(NamedTuple):
    """`error` is 0 or the code to answer; `path` the path created, changed or asked for; `stat` the znode's 68 bytes
    afterwards; `results` has the parts of a multi, refused or not; `triggers` the watches to fire, in order, or
    None."""

    error: int
    path: bytes
    stat: bytes | None
    results: list[PartResult] | None
    triggers: list[Trigger] | None
