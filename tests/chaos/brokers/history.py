"""What clients of brokers did, and what they were told: the input of the checker.

An operation has an outcome: OK it was done; FAIL it was not, and will never be; INFO nobody knows (its answer was lost,
or its time was over). One clock is for all clients: `start` is taken before an operation is begun, `end` after its
answer; `end` is infinite without one. `client` is one incarnation of one client, `number` the order in which it began
its operations. A value is sent once, so that a value that is read names the send that it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import field, frozen

from tests.chaos.outcome import Operation, Outcome

Partition: TypeAlias = tuple[str, int]
"""The name of a topic, and an index. A topic that is created again has another name."""

NOWHERE: Final = -1
"""The committed offset of a group that has committed none."""


@frozen(kw_only=True)
class Send(Operation):
    """One record. offset: where it was acknowledged; None unless it is OK.

    transaction: the name of the one that it is part of. source: the value that it was made from, by a client that
    promises to do so exactly once. is_idempotent: its producer's retries add nothing, and keep its order.
    """

    partition: Partition
    value: str
    outcome: Outcome
    offset: int | None = None
    transaction: str | None = None
    source: str | None = None
    is_idempotent: bool = True


@frozen
class Record:
    """What a consumer is given."""

    partition: Partition
    offset: int
    value: str


@frozen(kw_only=True)
class Poll(Operation):
    """The records that one poll returned, in their order. Without `is_committed`, the isolation is read_uncommitted.
    transaction: the one that works on these records, if any."""

    records: tuple[Record, ...]
    is_committed: bool = True
    group: str | None = None
    transaction: str | None = None


@frozen(kw_only=True)
class Assign(Operation):
    """From here on the client reads these partitions and no others, from these offsets on. None: nobody knows."""

    positions: Mapping[Partition, int | None]


@frozen(kw_only=True)
class Commit(Operation):
    """Offsets of a group. Those of a transaction hold once it is committed."""

    group: str
    offsets: Mapping[Partition, int]
    outcome: Outcome
    transaction: str | None = None


@frozen(kw_only=True)
class Committed(Operation):
    """What a group has committed, as brokers tell it; `NOWHERE` without."""

    group: str
    offsets: Mapping[Partition, int]


@frozen(kw_only=True)
class Transaction(Operation):
    """How a transaction ended: OK committed, FAIL aborted, INFO one of both, sooner or later. asked: when its producer
    asked for the commit; infinite if it never did."""

    name: str
    outcome: Outcome
    asked: float = inf


@frozen
class History:
    """A run. Each tuple is in any order."""

    sends: tuple[Send, ...] = ()
    polls: tuple[Poll, ...] = ()
    assigns: tuple[Assign, ...] = ()
    commits: tuple[Commit, ...] = ()
    committed: tuple[Committed, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    ends: Mapping[Partition, tuple[Record, ...]] = field(factory=lambda: MappingProxyType({}))
    """What a consumer with read_committed found in a partition, from its beginning to its end, after everything."""
    replicas: Mapping[Partition, Mapping[str, bytes]] = field(factory=lambda: MappingProxyType({}))
    """The digest of what each replica has at the end, by its name."""
