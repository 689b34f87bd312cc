"""The marker of a transaction in one partition, and who wants to know what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from zab.kafka.errors import ErrorCode

MarkerDone: TypeAlias = Callable[[ErrorCode], None]
"""Gets NONE once the marker is committed, or the error of the partition's leader. Called once."""


@frozen(kw_only=True)
class Marker:
    """The end of a producer's transaction in one partition."""

    topic: str
    index: int
    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int
