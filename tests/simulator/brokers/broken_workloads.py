"""Variants of coordinators, transactions and compaction that break a promise."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.coordinator_log import CoordinatorLog, _Appended, _Loading
from zab.partition.groups import commits
from zab.partition.groups.group import Group
from zab.partition.log.cleaned_batches import CleanedBatches
from zab.partition.log.log import Log
from zab.partition.log.offset_map import OffsetMap
from zab.partition.log.producers import Producers
from zab.partition.requests.asking_coordinators import AskingCoordinators
from zab.partition.transactions import coordinator as transaction_coordinator
from zab.partition.transactions.context import Context
from zab.partition.transactions.ending import end
from zab.partition.transactions.requests import End
from zab.partition.transactions.results import Done

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


def believe_what_is_not_committed(patch: Patch) -> None:
    """What a coordinator appends counts before the high watermark has passed it."""

    def decide(_log: Any, _number: int, waiting: deque[_Appended]) -> None:
        while waiting:
            done = waiting.popleft()
            done.decided(done.last_offset)

    patch.setattr(CoordinatorLog, "_decide", decide)


def load_to_the_high_watermark(patch: Patch) -> None:
    """A coordinator that takes over reads up to its mark, which lags."""
    load_on = CoordinatorLog._load_on

    def short(log: Any, number: int) -> None:
        loading: _Loading = log._loading[number]
        if loading.part is None and loading.offset == loading.replica.log.log_start:
            loading.end = loading.replica.log.high_watermark
        load_on(log, number)

    patch.setattr(CoordinatorLog, "_load_on", short)


def answer_before_the_decision(patch: Patch) -> None:
    """The end of a transaction is answered, and then appended."""

    def hasty(context: Context, token: Token, request: End) -> None:
        context.answer(token, Done(ErrorCode.NONE))
        answer = context.answer
        context.answer = lambda asked, result: None if asked == token else answer(asked, result)  # type: ignore[method-assign]
        end(context, token, request)

    patch.setattr(transaction_coordinator, "end", hasty)


def let_a_replaced_static_member_go_on(patch: Patch) -> None:
    """A commit is believed whatever process of the instance id it comes from."""
    committer_error = commits.committer_error

    def believing(group: Group, generation: int, member_id: str, instance: str | None, **rest: Any) -> ErrorCode:
        present = group.static.get(instance or "", member_id)
        return committer_error(group, group.generation if instance else generation, present, instance, **rest)

    patch.setattr(commits, "committer_error", believing)


def end_transactions_above_the_mark(patch: Patch) -> None:
    """The last stable offset passes a transaction whose marker is appended, and not committed."""
    patch.setattr(Producers, "first_unstable_offset", lambda known, mark: min(known._open.values(), default=None))


def drop_the_last_batch_of_a_producer(patch: Patch) -> None:
    """Compaction forgets a producer whose keys all have newer values."""
    patch.setattr(CleanedBatches, "_is_last_of_producer", lambda cleaned, header: False)
