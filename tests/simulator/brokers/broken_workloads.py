"""Variants of coordinators, transactions and compaction that break a promise."""

from __future__ import annotations

from typing import Any

import pytest

from zab.kafka.errors import ErrorCode
from zab.partition.groups import commits
from zab.partition.log.cleaned_batches import CleanedBatches
from zab.partition.log.log import Log
from zab.partition.log.offset_map import OffsetMap
from zab.partition.requests.asking_coordinators import AskingCoordinators

Patch = pytest.MonkeyPatch


def forget_what_was_committed_before(patch: Patch) -> None:
    """A fetch of offsets says that nothing is committed."""
    patch.setattr(
        commits,
        "_fetched",
        lambda _group, partition, _stable: commits.FetchedOffset(topic=partition[0], partition=partition[1]),
    )


def serve_open_transactions(patch: Patch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Log, "last_stable_offset", property(lambda log: log.high_watermark))


def verify_nothing_on_other_brokers(patch: Patch) -> None:
    """KIP-890: a coordinator is asked only if it is on the leader's broker."""
    patch.setattr(
        AskingCoordinators,
        "ask",
        lambda _asking, _broker, asked, answered: answered([ErrorCode.NONE] * len(asked.partitions)),
    )


def list_no_aborted_transactions(patch: Patch) -> None:
    patch.setattr(Log, "aborted_in", lambda log, *what: ())


def drop_tombstones_at_once(patch: Patch) -> None:
    """The time of a tombstone is over when compaction sees it first."""
    retained = CleanedBatches._retained

    def without_tombstones(cleaned: Any, batch: bytes, header: Any) -> tuple[list[bool], bool]:
        flags, has_tombstones = retained(cleaned, batch, header)
        return ([False] * len(flags), False) if has_tombstones else (flags, False)

    patch.setattr(CleanedBatches, "_retained", without_tombstones)


def drop_the_last_value(patch: Patch) -> None:
    """Compaction takes the newest record of a key for an old one."""
    get = OffsetMap.get
    patch.setattr(OffsetMap, "get", lambda known, key: get(known, key) + 1)
