"""What a broker counts of the requests of clients and followers, and of the records that they carry.

    requests        by the request's name: how many of each version, their bytes, and the time until they are answered
    topics          what was written to and read from each topic; `all_topics` has all of them together

A fetch is `FetchConsumer` or `FetchFollower`, as in Kafka. A time is that between two turns: what is answered in the
turn that reads it took 0 ms.

Limits: `TOPICS_MAX` topics are counted one by one, the first that are used; `all_topics` has the others, too. Only a
topic that has a replica here has a meter, so nobody makes one by asking for topics that do not exist.

Not here: what parts count of themselves (`zab.partition.figures`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.service.summary import Summary

TOPICS_MAX: Final = 1000


@attrs.define
class RequestMeter:
    """The requests of one name."""

    versions: Counter[int] = attrs.Factory(Counter)
    """How often each version was used."""
    size_bytes: Summary = attrs.Factory(Summary)
    total_ms: Summary = attrs.Factory(Summary)
    """From the turn that read it to the turn that answered it."""


@attrs.define
class TopicMeter:
    """What clients wrote and read; a request counts once for each partition."""

    bytes_in: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0


class Meters:
    """See the docstring of the module. `now` is the time of this turn (monotonic ms)."""

    def __init__(self) -> None:
        self.now = 0
        self.requests: dict[str, RequestMeter] = {}
        self.all_topics = TopicMeter()
        self.topics: dict[str, TopicMeter] = {}
        self.replication_bytes_out = 0

    def came(self, key: ApiKey, version: int, size_bytes: int, *, is_of_broker: bool) -> RequestMeter:
        """A request was read; the meter that its answer is told to."""
        name = _FETCHES[is_of_broker] if key is ApiKey.FETCH else _NAMES[key]
        meter = self.requests.get(name)
        if meter is None:
            meter = self.requests[name] = RequestMeter()
        meter.versions[version] += 1
        meter.size_bytes.add(size_bytes)
        return meter

    def produced(self, topic: str, size_bytes: int, count: int) -> None:
        """So many records were appended for a client."""
        for meter in self._of(topic):
            meter.produce_requests += 1
            meter.bytes_in += size_bytes
            meter.messages_in += count

    def produce_failed(self, topic: str, *, is_here: bool) -> None:
        """A partition of a produce was refused. `is_here`: this broker has a replica of it."""
        for meter in self._of(topic) if is_here else (self.all_topics,):
            meter.produce_requests += 1
            meter.failed_produce_requests += 1

    def fetched(self, topic: str, size_bytes: int) -> None:
        """A consumer was answered."""
        for meter in self._of(topic):
            meter.fetch_requests += 1
            meter.bytes_out += size_bytes

    def fetch_failed(self, topic: str, *, is_here: bool) -> None:
        """A partition of a consumer's fetch was refused. `is_here`: this broker has a replica of it."""
        for meter in self._of(topic) if is_here else (self.all_topics,):
            meter.fetch_requests += 1
            meter.failed_fetch_requests += 1

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Their meters end."""
        for name in names:
            self.topics.pop(name, None)

    def _of(self, topic: str) -> tuple[TopicMeter, ...]:
        meter = self.topics.get(topic)
        if meter is None:
            if len(self.topics) >= TOPICS_MAX:
                return (self.all_topics,)
            meter = self.topics[topic] = TopicMeter()
        return self.all_topics, meter


_FETCHES: Final = {False: "FetchConsumer", True: "FetchFollower"}
_NAMES: Final = {key: key.name.title().replace("_", "") for key in ApiKey}
