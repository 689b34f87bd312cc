"""Whether a partition is part of a transaction, as its coordinator says (KIP-890), in the words of producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from zab.kafka.errors import ErrorCode

Verify: TypeAlias = Callable[[str, int, int, str, int], ErrorCode]
"""(transactional id, producer id, producer epoch, topic, partition): NONE if that is part of the open transaction."""

_FOR_PRODUCERS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Old clients know few errors of a coordinator in answers to Produce, and retry this one."""


def error_for_producer(error: ErrorCode) -> ErrorCode:
    """What a producer is told for this error of the coordinator."""
    return _FOR_PRODUCERS.get(error, error)
