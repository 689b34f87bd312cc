"""Batches, and how many of them are under way."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BYTES, COUNT, INT_MAX, integer, setting

_MIB: Final = 1024 * 1024
COUNTER_MAX: Final = 2**32 - 1


@frozen(kw_only=True)
class BatchSettings:
    """The size of a batch, and the limits on batches that are not done."""

    max_batch_bytes: int = setting(
        "maxBatchBytes",
        _MIB,
        BYTES,
        "bytes",
        "Ours. A batch ends there, so that others are not kept waiting; a larger transaction goes alone.",
    )
    max_batch_count: int = setting(
        "maxBatchCount",
        1_000,
        integer(1, INT_MAX),
        "transactions",
        "Ours. A batch is applied in one turn: some 5 ms of sets, 20 ms of creates.",
    )
    max_batches_in_flight: int = setting(
        "maxBatchesInFlight",
        64,
        COUNT,
        "batches",
        "Ours. Proposed and not yet committed; at the limit clients are not read from.",
    )
    max_unsynced_bytes: int = setting(
        "maxUnsyncedBytes",
        32 * _MIB,
        BYTES,
        "bytes",
        "Ours. Written by the leader and not yet durable; at the limit it stops proposing.",
    )
    max_recent_bytes: int = setting(
        "maxRecentBytes",
        8 * _MIB,
        BYTES,
        "bytes",
        "Ours. Batches kept in memory for learners that lack little; older ones come from files.",
    )
    counter_limit: int = setting(
        "counterLimit",
        0xFFF00000,
        integer(2, COUNTER_MAX),
        "transactions",
        "Ours. Of one epoch; then leadership is renewed without an outage.",
        shown="0xfff00000",
    )
