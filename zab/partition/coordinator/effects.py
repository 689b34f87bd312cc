"""What a coordinator wants done, in order. `Coordinator.take_effects` hands it out."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from attrs import frozen

Token: TypeAlias = int
"""Names one request; its answer carries it."""
NO_PRODUCER: Final = -1


@frozen
class Answer:
    """Answer the request with this token. Each token is answered once; if its connection is gone, drop this."""

    token: Token
    result: Any


@frozen(kw_only=True)
class Append:
    """Append these records to a partition of the coordinator's topic as one batch, and wait for all replicas in sync as
    acks -1 does, up to the timeout of the topic. Report to `Coordinator.on_appended` what became of it."""

    append_id: int
    partition: int
    leader_epoch: int
    """The epoch in which the partition was loaded: append only as the leader of this one."""
    records: tuple[Any, ...]
    """Each with a `key` and a `value`; None as the value: a tombstone."""
    producer_id: int = NO_PRODUCER
    """Set: the batch is part of this producer's transaction."""
    producer_epoch: int = -1
    transactional_id: str = ""
    """The id of the transaction, whose coordinator is asked whether the partition is part of it."""


Effect: TypeAlias = Answer | Append
