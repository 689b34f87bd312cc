"""Variants of a broker that break a promise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from zab.partition.image.cluster_image import Topic
from zab.partition.local_replicas import LocalReplicas
from zab.partition.log.directory import LogDirectory
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.replica.replica import Replica

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
    patch.setattr(Log, "_check_producers", lambda log, headers, *rest: None)


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
