"""Batches, and how many of them are under way."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BYTES, COUNT, INT_MAX, integer, setting

_MIB: Final = 1024 * 1024
COUNTER_MAX: Final = 2**32 - 1


@frozen(kw_only=True)
class BatchSettings:
    """The size of a batch, and the limits on unfinished batches."""

    max_batch_bytes: int = setting(
        "maxBatchBytes",
        _MIB,
        BYTES,
        "bytes",
        "zab only. The size of a batch. A larger transaction is a batch of its own.",
    )
    max_batch_count: int = setting(
        "maxBatchCount",
        1_000,
        integer(1, INT_MAX),
        "transactions",
        "zab only. How many transactions a batch has. It is applied in one turn: some 5 ms for sets, 20 ms "
        "for creates.",
    )
    max_batches_in_flight: int = setting(
        "maxBatchesInFlight",
        64,
        COUNT,
        "batches",
        "zab only. How many batches may be proposed and not yet committed. At the limit, clients are not read from.",
    )
    max_unsynced_bytes: int = setting(
        "maxUnsyncedBytes",
        32 * _MIB,
        BYTES,
        "bytes",
        "zab only. How much the leader may have written that is not yet durable. At the limit, it proposes nothing.",
    )
    max_recent_bytes: int = setting(
        "maxRecentBytes",
        8 * _MIB,
        BYTES,
        "bytes",
        "zab only. How much of the log is kept in memory for learners that lack little. Older batches are "
        "read from files.",
    )
    counter_limit: int = setting(
        "counterLimit",
        0xFFF00000,
        integer(2, COUNTER_MAX),
        "transactions",
        "zab only. How many transactions an epoch has. Then leadership is renewed without an outage.",
        shown="0xfff00000",
    )
