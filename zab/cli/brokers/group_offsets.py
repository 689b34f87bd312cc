"""What a group has committed, and how far it lags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from zab.cli.brokers.clients import Brokers
from zab.cli.brokers.refusals import RefusedError
from zab.cli.brokers.topic_describe import offsets_of
from zab.cli.brokers.topic_partitions import is_offline
from zab.kafka.errors import ErrorCode

__all__ = ["Committed", "committed_of", "described", "ends_of"]


@frozen
class Committed:
    """offset: None if nothing is committed. end: None if nobody tells it."""

    offset: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)


def described(brokers: Brokers, admin: Any, group: str) -> dict[str, Any] | None:
    """A group of JoinGroup's protocol; None: there is none of this name. Raises RefusedError."""
    found: dict[str, Any] = brokers.patiently(lambda: admin.describe_groups([group]))[group]
    if found["group_state"] == "Dead":
        # From version 6 of the request on, it has an error, too.
        return None
    if found["error"]:
        raise RefusedError(group, ErrorCode.GROUP_AUTHORIZATION_FAILED, str(found["error"]))
    return found


def committed_of(brokers: Brokers, admin: Any, group: str) -> dict[tuple[str, int], Committed]:
    """By topic and partition."""
    answer = brokers.patiently(lambda: admin.list_group_offsets(group))[group]
    offsets = {(place.topic, place.partition): found.offset for place, found in answer.items()}
    ends = ends_of(admin, offsets)
    return {place: Committed(offset, ends.get(place)) for place, offset in offsets.items() if offset >= 0}


def ends_of(admin: Any, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The next offsets of those that exist and have a leader."""
    wanted = set(places)
    topics = sorted({topic for topic, _ in wanted})
    led = {
        (each["name"], one["partition_index"])
        for each in (admin.describe_topics(topics) if topics else ())
        for one in each["partitions"]
        if not is_offline(one)
    }
    return offsets_of(admin, wanted & led, "LATEST")
