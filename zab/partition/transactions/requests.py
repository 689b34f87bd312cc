"""What is asked of a transaction coordinator, without regard to versions of messages. Times are ms."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from zab.partition.transactions.transaction import TopicPartition


@frozen(kw_only=True)
class Initialize:
    """A producer begins, or begins again: it gets an epoch that is newer than all before, and what they have open is
    aborted. `expected`: the id and epoch that it has, if it goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None


@frozen(kw_only=True)
class AddPartitions:
    """The transaction is about to write to these partitions."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]


@frozen(kw_only=True)
class End:
    """Commit or abort."""

    transactional_id: str
    producer_id: int
    epoch: int
    commits: bool


@frozen(kw_only=True)
class Describe:
    """Describe these."""

    transactional_ids: tuple[str, ...]


@frozen(kw_only=True)
class List:
    """List what this broker coordinates. An empty filter lets everything through."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()


@frozen(kw_only=True)
class Verify:
    """Whether these partitions are part of the open transaction of this producer. Leaders of partitions ask it."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]


OfOne: TypeAlias = Initialize | AddPartitions | End
Request: TypeAlias = OfOne | Describe | List
