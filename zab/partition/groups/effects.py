"""What a group coordinator wants done, in order. `GroupCoordinator.take_effects` hands it out."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from zab.partition.groups.records import Record
from zab.partition.groups.requests import NO_PRODUCER, Token
from zab.partition.groups.results import Result


@frozen
class Answer:
    """Answer the request with this token. Each token is answered once; if its connection is gone, drop this."""

    token: Token
    result: Result


@frozen(kw_only=True)
class Append:
    """Append these records to a partition of `__consumer_offsets` as one batch, and wait for all replicas in sync, as
    acks -1 does, up to offsets.commit.timeout.ms. Report to `GroupCoordinator.on_appended` what became of it."""

    append_id: int
    partition: int
    leader_epoch: int
    """The epoch in which the partition was loaded: append only as the leader of this one."""
    records: tuple[Record, ...]
    producer_id: int = NO_PRODUCER
    """Set: the batch is part of this producer's transaction."""
    producer_epoch: int = -1


Effect: TypeAlias = Answer | Append
