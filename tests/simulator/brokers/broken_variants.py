"""Variants of a broker that break a promise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest

from zab.kafka.messages.fetch import FetchPartitionData
from zab.partition.image.cluster_image import Topic
from zab.partition.local_replicas import LocalReplicas
from zab.partition.log.directory import LogDirectory
from zab.partition.log.files import Files
from zab.partition.log.offset_index import OffsetIndex
from zab.partition.log.segment import RecentBatches
from zab.partition.purgatory.timing_wheel import SIZE, TimingWheel
from zab.partition.replica.replica import Replica
from zab.partition.requests.fetch_sessions import Wanted
from zab.partition.requests.request import Request
from zab.partition.waiting_requests import WaitingRequests

Patch = pytest.MonkeyPatch


def acknowledge_what_is_not_stored(patch: Patch) -> None:
    patch.setattr(Replica, "stored_end", property(lambda replica: replica.log.log_end))


def serve_above_the_high_watermark(patch: Patch) -> None:
    patch.setattr(Replica, "bound", lambda replica, _isolation: replica.log.written_end)


def truncate_to_the_high_watermark_at_the_start(patch: Patch) -> None:
    """KIP-101: the checkpointed mark lags behind what was acknowledged."""
    recover = LogDirectory.recover

    def truncating(directory: LogDirectory, *what: Any, **how: Any) -> Any:
        recovered = recover(directory, *what, **how)
        if recovered.log.high_watermark < recovered.log.log_end:
            recovered.log.truncate(recovered.log.high_watermark)
        return recovered

    patch.setattr(LogDirectory, "recover", truncating)


def take_repeats_for_new_batches(patch: Patch) -> None:
    patch.setattr("zab.partition.log.log.first_duplicate", lambda *given, **how: None)


def sync_nothing(patch: Patch) -> None:
    """The storage confirms what it has only written."""
    patch.setattr(Files, "_sync", lambda files, waiting: None)


def go_on_after_a_failed_write(patch: Patch) -> None:
    """The storage confirms what the disk has refused."""

    def attempt_it(_files: Files, _directory: str, do: Callable[[Any], None], what: Any) -> None:
        with suppress(OSError):
            do(what)

    patch.setattr(Files, "_attempt", attempt_it)


def take_the_files_of_another_topic(patch: Patch) -> None:
    """A topic that is created again under its name begins with the old one's log."""
    take = LocalReplicas._take

    def taking(replicas: LocalReplicas, topic: Topic, index: int, *rest: Any) -> None:
        replica = replicas._replicas.get(topic.name, index)
        if replica is not None and replica.topic_id != topic.id:
            replica.topic_id, replica.state = topic.id, None
        take(replicas, topic, index, *rest)

    patch.setattr(LocalReplicas, "_take", taking)
    patch.setattr(LocalReplicas, "stop", lambda replicas, stopped, now: None)


def point_past_what_was_cut(patch: Patch) -> None:
    """Entries of an index stay when the log is cut, and point into other batches later. They are looked up here for
    what is in memory as well."""
    add = OffsetIndex.add

    def adding(index: OffsetIndex, relative_last_offset: int, position: int) -> None:
        last = index.entries[-1] if len(index) else (-1, -1)
        if relative_last_offset > last[0] and position > last[1]:
            add(index, relative_last_offset, position)

    patch.setattr(RecentBatches, "knows", lambda recent, offset: False)
    patch.setattr(RecentBatches, "first_position", None)
    patch.setattr(OffsetIndex, "truncate", lambda index, position: None)
    patch.setattr(OffsetIndex, "add", adding)


def expire_at_the_end_of_a_bucket(patch: Patch) -> None:
    """An operation expires when the last one of its bucket does."""
    add = TimingWheel.add

    def adding(wheel: TimingWheel[Any], deadline_ms: int, payload: Any) -> Any:
        tick_ms = 1
        while deadline_ms - wheel.now_ms >= tick_ms * SIZE:
            tick_ms *= SIZE
        return add(wheel, (deadline_ms // tick_ms + 1) * tick_ms, payload)

    patch.setattr(TimingWheel, "add", adding)


def complete_twice(patch: Patch) -> None:
    """A request that has been answered is answered once more, and nothing asserts that it is not."""
    settle = WaitingRequests.settle

    def settling(requests: WaitingRequests, now: int) -> bool:
        before = list(requests._owners)
        found = settle(requests, now)
        for operation in before:
            if operation not in requests._owners:
                operation.complete()
        return found

    def answering(request: Request, pieces: list[Any]) -> None:
        before = request._place.pieces or []
        request._place.pieces = None
        answer_with(request, [*before, *pieces])

    answer_with = Request.answer_with
    patch.setattr(Request, "answer_with", answering)
    patch.setattr(WaitingRequests, "settle", settling)


def tell_no_mark_without_records(patch: Patch) -> None:
    """A fetch session is told nothing when only the high watermark has risen."""
    has_news = Wanted.has_news

    def forgetful(wanted: Wanted, data: FetchPartitionData, size_bytes: int) -> bool:
        is_known = wanted.told_mark >= 0
        return has_news(wanted, attrs.evolve(data, high_watermark=wanted.told_mark) if is_known else data, size_bytes)

    patch.setattr(Wanted, "has_news", forgetful)
