"""The records of `__consumer_offsets` that a coordinator appends and loads. Their fields and bytes are in
`zab/kafka/coordinator_records.py`.

    OffsetKey -> OffsetValue    a committed offset
    GroupKey  -> GroupValue     a generation of a group: its members and their assignments; without members: Empty

The records of KIP-848's groups are in `zab/kafka/consumer_group_records.py`. A value of None is a tombstone. The last
record of a key wins. A key that is None is skipped: other kinds of groups (share groups) keep records in the same
partitions.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from zab.kafka.coordinator_records import OffsetsKey, OffsetsValue
from zab.partition.coordinator.effects import NO_PRODUCER

TEXT_BYTES_MAX: Final = 2**15 - 1
"""The records' strings have an int16 as their length. In newer requests they may be longer."""
_CHARACTER_BYTES_MAX: Final = 4


def can_be_stored(text: str) -> bool:
    """Whether records have room for this text."""
    return len(text) * _CHARACTER_BYTES_MAX <= TEXT_BYTES_MAX or len(text.encode()) <= TEXT_BYTES_MAX


Key: TypeAlias = OffsetsKey
Value: TypeAlias = OffsetsValue


@frozen
class Record:
    """A key with its new value; None: a tombstone."""

    key: Key
    value: Value | None


@frozen(kw_only=True)
class LoadedRecord:
    """A record from the log."""

    position: int
    """Its offset in the log, or that of its batch: any number that grows with the log."""
    key: Key | None
    value: Value | None
    producer_id: int = NO_PRODUCER
    """Set if the record belongs to a transaction: it counts once a marker of this producer commits it."""


@frozen(kw_only=True)
class LoadedMarker:
    """The end of a producer's transaction in this partition."""

    position: int
    producer_id: int
    commits: bool


Loaded: TypeAlias = LoadedRecord | LoadedMarker
