"""What this broker copies from one other: all replicas that follow there, with one request on its way at a time.

    add, remove         which replicas follow there
    request(now)        the next request, if one is due
    answered(…)         its answer
    lost()              it will not be answered

What a request asks for is ready: stored up to its end, and not in a pause. While a replica is being stored, which takes
a moment, the request waits for it up to `STORING_MS`; otherwise its records would be acknowledged only after the next
answer, which a leader without news holds back. If it takes longer, the others are fetched without it.

A partition that gave data goes to the end of the order, in which the leader spends the bytes of an answer.

Limits: `PARTITIONS_MAX` partitions a request, `replica.fetch.max.bytes` of each and `replica.fetch.response.max.bytes`
of all; each is at least one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.frames import decode_response, request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from zab.kafka.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from zab.kafka.primitives import ProtocolError, Uuid
from zab.partition.replica.follower import Follower, Next, Question
from zab.partition.replica.replica import Replica
from zab.partition.settings.broker_settings import ReplicationSettings

STORING_MS: Final = 20
PARTITIONS_MAX: Final = 10_000
NEVER: Final = 1 << 62
FETCH_VERSION: Final = 16
LIST_OFFSETS_VERSION: Final = 8
LATEST: Final = -1
EARLIEST: Final = -2
_SIZE_BYTES: Final = 4
Key: TypeAlias = tuple[str, int]


@attrs.define(eq=False)
class _Copied:
    """One replica, and when it is fetched."""

    follower: Follower
    again_at: int = 0
    waits_for_state: bool = False
    wants_offsets: bool = False
    lag: int = 0
    """By how many records its end was below the leader's high watermark, after the last answer."""


@attrs.define
class _OnItsWay:
    """A request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    asked: dict[tuple[Any, int], tuple[_Copied, Question]]
    """By the topic's id or name, and the partition's index."""


class Fetcher:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(
        self,
        settings: ReplicationSettings,
        who: Callable[[], tuple[int, int]],
        touched: Callable[[Replica], None],
        notes: list[str],
    ) -> None:
        """`who`: the id and the epoch of this broker. `touched` is given replicas that have changed. Sentences for the
        journal are added to `notes`."""
        self._settings = settings
        self._who = who
        self._touched = touched
        self._notes = notes
        self._copied: dict[Key, _Copied] = {}
        self._on_its_way: _OnItsWay | None = None
        self._count = 0
        self._goes_at = 0
        """When it no longer waits for a replica that is being stored; 0: none is."""
        self._deadline = NEVER
        self.copied_bytes = 0
        """Bytes of records that answers had."""

    @property
    def max_lag(self) -> int:
        """The largest lag of a replica behind its leader's high watermark, as the last answers say."""
        return max((each.lag for each in self._copied.values()), default=0)

    def __len__(self) -> int:
        return len(self._copied)

    def add(self, replica: Replica, epoch: int) -> None:
        """This replica follows here from now on, in this leader epoch, or in this newer state of it."""
        known = self._copied.get(replica.key)
        if known is not None and known.follower.replica is replica and known.follower.epoch == epoch:
            known.waits_for_state = False
            return
        self._copied[replica.key] = _Copied(Follower(replica, epoch, self._notes))

    def remove(self, replica: Replica) -> None:
        """It does so no longer."""
        self._copied.pop(replica.key, None)

    # ------------------------------------------------------------------------------------------------------- requests

    def next_deadline(self) -> int:
        """When `request` has something to say although nothing happens."""
        return self._deadline

    def request(self, now: int) -> bytes | None:
        """The next request, as Kafka frames it but without its length; None: none is due now."""
        self._deadline = NEVER
        if self._on_its_way is not None:
            return None
        ready, storing, out_of_range = [], 0, []
        for copied in self._copied.values():
            if copied.waits_for_state or copied.follower.replica.log.failure is not None:
                continue
            if copied.again_at > now:
                self._deadline = min(self._deadline, copied.again_at)
            elif not copied.follower.is_stored:
                storing += 1
            elif copied.wants_offsets:
                out_of_range.append(copied)
            else:
                ready.append(copied)
        if out_of_range:
            return self._list_offsets(out_of_range)
        if not ready or self._waits_for_storage(now, storing):
            return None
        return self._fetch(ready, has_all=not storing)

    def _waits_for_storage(self, now: int, storing: int) -> bool:
        if not storing:
            self._goes_at = 0
        elif not self._goes_at:
            self._goes_at = now + STORING_MS
        if now >= self._goes_at:
            self._goes_at = 0
            return False
        self._deadline = min(self._deadline, self._goes_at)
        return True

    def _fetch(self, ready: list[_Copied], *, has_all: bool) -> bytes:
        settings = self._settings
        asked: dict[tuple[Any, int], tuple[_Copied, Question]] = {}
        topics: dict[Uuid, list[FetchPartition]] = {}
        for copied in islice(ready, PARTITIONS_MAX):
            follower = copied.follower
            replica, question = follower.replica, follower.asks
            asked[replica.topic_id, replica.index] = copied, question
            topics.setdefault(replica.topic_id, []).append(
                FetchPartition(
                    partition=replica.index,
                    current_leader_epoch=follower.epoch,
                    fetch_offset=question.offset,
                    last_fetched_epoch=question.last_epoch,
                    log_start_offset=question.log_start,
                    partition_max_bytes=settings.fetch_bytes,
                )
            )
        broker_id, broker_epoch = self._who()
        body = FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.fetch_wait_ms if has_all else min(settings.fetch_wait_ms, STORING_MS),
            min_bytes=1,
            max_bytes=settings.fetch_response_bytes,
            topics=tuple(FetchTopic(topic_id=each, partitions=tuple(of)) for each, of in topics.items()),
        )
        return self._sent(ApiKey.FETCH, FETCH_VERSION, body, asked)

    def _list_offsets(self, out_of_range: list[_Copied]) -> bytes:
        asked: dict[tuple[Any, int], tuple[_Copied, Question]] = {}
        topics = []
        for copied in islice(out_of_range, PARTITIONS_MAX):
            follower = copied.follower
            replica = follower.replica
            asked[replica.topic, replica.index] = copied, follower.asks
            both = tuple(
                ListOffsetsPartition(
                    partition_index=replica.index, current_leader_epoch=follower.epoch, timestamp=timestamp
                )
                for timestamp in (LATEST, EARLIEST)
            )
            topics.append(ListOffsetsTopic(name=replica.topic, partitions=both))
        body = ListOffsetsRequest(replica_id=self._who()[0], topics=tuple(topics))
        return self._sent(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, asked)

    def _sent(
        self, key: ApiKey, version: int, body: object, asked: dict[tuple[Any, int], tuple[_Copied, Question]]
    ) -> bytes:
        self._count = (self._count + 1) & 0x7FFFFFFF
        self._on_its_way = _OnItsWay(key, version, self._count, asked)
        return request_frame(RequestHeader(key, version, self._count, "follower"), body)[_SIZE_BYTES:]

    # -------------------------------------------------------------------------------------------------------- answers

    def lost(self) -> None:
        """What is on its way is not answered: its link is gone."""
        self._on_its_way = None

    def answered(self, frame: bytes, now: int, wall_ms: int) -> None:
        """Take an answer, as Kafka frames it. Raises ProtocolError: it is none to the request that is on its way."""
        sent = self._on_its_way
        if sent is None:
            raise ProtocolError("an answer to no request")
        payload = memoryview(frame)[_SIZE_BYTES:].tobytes()
        correlation_id, body = decode_response(sent.api_key, sent.api_version, payload)
        if correlation_id != sent.correlation_id:
            raise ProtocolError(f"an answer to request {correlation_id}, and {sent.correlation_id} is on its way")
        self._on_its_way = None
        if sent.api_key is ApiKey.FETCH:
            self._fetched(sent, body, now, wall_ms)
        else:
            self._listed(sent, body, now, wall_ms)

    def _fetched(self, sent: _OnItsWay, body: FetchResponse, now: int, wall_ms: int) -> None:
        if body.error_code:
            for copied, _ in sent.asked.values():
                self._go_on(copied, Next.LATER, now)
            return
        for topic in body.responses:
            for data in topic.partitions:
                found = sent.asked.pop((topic.topic_id, data.partition_index), None)
                if found is not None and self._is_here(found[0]):
                    copied, question = found
                    self._go_on(copied, copied.follower.take(question, data, wall_ms), now)
                    if not data.error_code:
                        copied.lag = max(0, data.high_watermark - copied.follower.replica.log.log_end)
                    if data.records:
                        self.copied_bytes += len(data.records)
                        key = copied.follower.replica.key
                        self._copied[key] = self._copied.pop(key)
                    self._touched(copied.follower.replica)

    def _listed(self, sent: _OnItsWay, body: ListOffsetsResponse, now: int, wall_ms: int) -> None:
        offsets: dict[tuple[str, int], list[int]] = {}
        for topic in body.topics:
            for data in topic.partitions:
                if not data.error_code:
                    offsets.setdefault((topic.name, data.partition_index), []).append(data.offset)
        for key, (copied, question) in sent.asked.items():
            if not self._is_here(copied):
                continue
            found = offsets.get(key, [])
            goes_on = Next.LATER
            if len(found) == 2 and copied.follower.asks == question:
                goes_on = copied.follower.take_offsets(found[0], found[1], wall_ms)
                self._touched(copied.follower.replica)
            copied.wants_offsets = False
            self._go_on(copied, goes_on, now)

    def _is_here(self, copied: _Copied) -> bool:
        return self._copied.get(copied.follower.replica.key) is copied

    def _go_on(self, copied: _Copied, goes_on: Next, now: int) -> None:
        match goes_on:
            case Next.LATER:
                copied.again_at = now + self._settings.fetch_backoff_ms
            case Next.ON_NEW_STATE:
                copied.waits_for_state = True
            case Next.AFTER_OFFSETS:
                copied.wants_offsets = True
            case Next.AT_ONCE:
                pass


class Fetchers:
    """A fetcher for each broker that something is copied from."""

    def __init__(
        self, settings: ReplicationSettings, who: Callable[[], tuple[int, int]], touched: Callable[[Replica], None]
    ) -> None:
        """See `Fetcher`: `who`, `touched`."""
        self.notes: list[str] = []
        """Sentences for the journal; the caller empties it."""
        self._settings = settings
        self._who = who
        self._touched = touched
        self._fetchers: dict[int, Fetcher] = {}
        self._source_of: dict[Key, int] = {}

    @property
    def sources(self) -> Iterator[int]:
        """The brokers from which something is copied."""
        return (source for source, fetcher in self._fetchers.items() if len(fetcher))

    @property
    def max_lag(self) -> int:
        """The largest lag of a replica behind its leader's high watermark."""
        return max((each.max_lag for each in self._fetchers.values()), default=0)

    @property
    def copied_bytes(self) -> int:
        """Bytes of records that answers of leaders had."""
        return sum(each.copied_bytes for each in self._fetchers.values())

    def follow(self, replica: Replica) -> None:
        """Copy this replica from where its state says, or from nowhere."""
        before, source = self._source_of.get(replica.key), replica.source
        if before is not None and before != source:
            self._leave(replica, before)
        if source is None or replica.state is None:
            return
        fetcher = self._fetchers.get(source)
        if fetcher is None:
            fetcher = self._fetchers[source] = Fetcher(self._settings, self._who, self._touched, self.notes)
        fetcher.add(replica, replica.state.leader_epoch)
        self._source_of[replica.key] = source

    def forget(self, replica: Replica) -> None:
        """This broker has the replica no longer."""
        source = self._source_of.get(replica.key)
        if source is not None:
            self._leave(replica, source)

    def _leave(self, replica: Replica, source: int) -> None:
        # The fetcher stays: an answer to it may be on its way.
        del self._source_of[replica.key]
        self._fetchers[source].remove(replica)

    def request(self, source: int, now: int) -> bytes | None:
        """What is to be asked of this broker now."""
        return self._fetchers[source].request(now)

    def answered(self, source: int, frame: bytes, now: int, wall_ms: int) -> None:
        """This broker has answered. Raises ProtocolError."""
        fetcher = self._fetchers.get(source)
        if fetcher is not None:
            fetcher.answered(frame, now, wall_ms)

    def lost(self, source: int) -> None:
        """The link to this broker is gone."""
        fetcher = self._fetchers.get(source)
        if fetcher is not None:
            fetcher.lost()

    def next_deadline(self, sources: Iterable[int]) -> int:
        """When a request to one of these brokers is due although nothing happens."""
        return min((self._fetchers[source].next_deadline() for source in sources), default=NEVER)
