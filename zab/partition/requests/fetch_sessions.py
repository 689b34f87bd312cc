"""Fetch sessions (KIP-227): what a consumer fetches is remembered, so that a request names only what has changed, and
an answer only what is news.

A request says by its session id and epoch which it is:

    (0, -1)         whole; it has no session
    (s, 0)          whole; session s ends if there is one, and the request would like to begin another
    (s, -1)         whole; session s ends
    (s, e >= 1)     incremental: `topics` are the partitions that are new or are asked for otherwise than before,
                    `forgotten_topics_data` those that are fetched no longer

Each incremental request has the next epoch; after the largest comes 1. An answer to one has the partitions that have
records, an error, another high watermark or another log start than was told last, or whose history parted from the
reader's. A partition that gave records goes to the end of the line, so that `max_bytes` is spent fairly.

`max.incremental.fetch.session.cache.slots` sessions are kept. A request that would like another one gets it in place of
one that was not used for `EVICTION_MS`, or else of the smallest of those that are older than that, if it is larger.
Otherwise it has none (session id 0), and its client sends whole requests. A session belongs to no connection, as in
Kafka. Followers have none here, so all are alike.

Limits: `PARTITIONS_MAX` partitions in a session, `CACHED_MAX` in all of them.

Not here: what is read (`fetch`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final, Protocol, TypeAlias

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest
from zab.kafka.primitives import Uuid
from zab.partition.replica.replica import Replica, ReplicaError
from zab.wire.file_slice import FileSlice

NO_SESSION: Final = 0
BEGINS: Final = 0
"""The session epoch of a whole request that would like to have a session."""
ENDS: Final = -1
"""The session epoch of a whole request that has none."""
FIRST_EPOCH: Final = 1
EPOCH_MAX: Final = (1 << 31) - 1
ID_MAX: Final = (1 << 31) - 1
EVICTION_MS: Final = 120_000
PARTITIONS_MAX: Final = 10_000
"""How many partitions are fetched at a time: they are looked at whenever something happens to one of them."""
CACHED_MAX: Final = 200_000
"""How many partitions all sessions have; each takes about a kilobyte."""
_UNKNOWN: Final = -1

Key: TypeAlias = tuple[str | Uuid, int]
"""A partition: its topic, by name or by id, and its index."""


class FetchSessionError(Exception):
    """The whole request is refused."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


@attrs.define(eq=False)
class Idle:
    """A look at a partition that found nothing to read."""

    state: tuple[object, ...]
    """How it was asked for, and how it was."""
    data: FetchPartitionData


@attrs.define(eq=False)
class Wanted:
    """One partition that a reader wants: how it asks for it, and what it was told last."""

    topic: str
    """Its name; empty where the reader has its id."""
    topic_id: Uuid
    asked: FetchPartition
    told_mark: int = _UNKNOWN
    """The high watermark."""
    told_start: int = _UNKNOWN
    """The log start."""
    idle: Idle | None = None

    def has_news(self, data: FetchPartitionData, size_bytes: int) -> bool:
        """Whether the reader has to be told this."""
        return (
            size_bytes > 0
            or data.high_watermark != self.told_mark
            or data.log_start_offset != self.told_start
            or data.error_code != ErrorCode.NONE
            or data.diverging_epoch.epoch != _UNKNOWN
        )

    def told(self, data: FetchPartitionData) -> None:
        """The reader is told this. An error has no marks, so that after it they are news."""
        self.told_mark = data.high_watermark
        self.told_start = data.log_start_offset


@attrs.define(eq=False)
class Asked:
    """One partition of a request, found or not."""

    wanted: Wanted
    replica: Replica | None
    error: ReplicaError | None


Found: TypeAlias = tuple[Asked, FetchPartitionData, FileSlice | None]
"""What a look at a partition found."""


@attrs.frozen
class Selected:
    """What an answer has."""

    session_id: int
    found: list[Found]
    error: ErrorCode = ErrorCode.NONE


class FetchContext(Protocol):
    """What a request fetches, and which of it its answer has."""

    def partitions(self) -> Iterable[Wanted]: ...
    def select(self, found: list[Found]) -> Selected: ...
    def select_nothing(self) -> Selected: ...


def _named_in(body: FetchRequest) -> Iterator[Wanted]:
    """The partitions that a request names, in its order."""
    for topic in body.topics:
        for each in topic.partitions:
            yield Wanted(topic.topic, topic.topic_id, each)


@attrs.define(eq=False)
class FetchSession:
    """One session. Times are monotonic ms."""

    id: int
    uses_ids: bool
    """Whether topics are named by their ids."""
    partitions: dict[Key, Wanted]
    """In the order in which they are fetched."""
    created_at: int
    used_at: int
    epoch: int = FIRST_EPOCH
    """The next request has it."""
    size: int = 0
    """Partitions, when the cache counted them last."""
    is_evictable: bool = False

    def key_of(self, topic: str, topic_id: Uuid, index: int) -> Key:
        return (topic_id if self.uses_ids else topic), index

    def new_keys(self, body: FetchRequest) -> set[Key]:
        """Partitions that a request adds."""
        keys = {
            self.key_of(topic.topic, topic.topic_id, each.partition)
            for topic in body.topics
            for each in topic.partitions
        }
        return keys - self.partitions.keys()

    def update(self, body: FetchRequest) -> None:
        """Take what an incremental request says."""
        for wanted in _named_in(body):
            key = self.key_of(wanted.topic, wanted.topic_id, wanted.asked.partition)
            known = self.partitions.setdefault(key, wanted)
            known.asked = wanted.asked
        for topic in body.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop(self.key_of(topic.topic, topic.topic_id, index), None)


@attrs.frozen
class Sessionless:
    """A whole request without a session."""

    body: FetchRequest

    def partitions(self) -> Iterable[Wanted]:
        return _named_in(self.body)

    def select(self, found: list[Found]) -> Selected:
        return Selected(NO_SESSION, found)

    def select_nothing(self) -> Selected:
        return Selected(NO_SESSION, [])


@attrs.frozen
class Beginning:
    """A whole request that would like to have a session: it begins with the answer."""

    body: FetchRequest
    sessions: FetchSessions
    uses_ids: bool

    def partitions(self) -> Iterable[Wanted]:
        return _named_in(self.body)

    def select(self, found: list[Found]) -> Selected:
        session = self.sessions.begin(len(found), uses_ids=self.uses_ids)
        if session is None:
            return Selected(NO_SESSION, found)
        for asked, data, _ in found:
            wanted = asked.wanted
            wanted.told(data)
            session.partitions[session.key_of(wanted.topic, wanted.topic_id, wanted.asked.partition)] = wanted
        self.sessions.touch(session)
        return Selected(session.id, found)

    def select_nothing(self) -> Selected:
        return Selected(NO_SESSION, [])


@attrs.frozen
class Incremental:
    """A request of a session, which expects `epoch` next."""

    session: FetchSession
    epoch: int

    def partitions(self) -> Iterable[Wanted]:
        return self.session.partitions.values()

    def select_nothing(self) -> Selected:
        # If the epochs differ, another connection has gone on with it meanwhile.
        is_present = self.session.epoch == self.epoch
        error = ErrorCode.NONE if is_present else ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return Selected(self.session.id, [], error)

    def select(self, found: list[Found]) -> Selected:
        session, nothing = self.session, self.select_nothing()
        if nothing.error is not ErrorCode.NONE:
            return nothing
        selected = []
        for each in found:
            (asked, data, records) = each
            wanted = asked.wanted
            if not wanted.has_news(data, 0 if records is None else records.length):
                continue
            wanted.told(data)
            selected.append(each)
            if records is not None:
                key = session.key_of(wanted.topic, wanted.topic_id, wanted.asked.partition)
                session.partitions[key] = session.partitions.pop(key)
        return Selected(session.id, selected)


class FetchSessions:
    """The sessions of a broker."""

    def __init__(self, slots: int, rng: Random, now: Callable[[], int]) -> None:
        """`slots`: how many there are at most. `now`: monotonic ms."""
        self._slots = slots
        self._rng = rng
        self._now = now
        self._sessions: dict[int, FetchSession] = {}
        """By id, the one that was not used for longest first."""
        self._evictable: list[tuple[int, int]] = []
        """Size and id of those that a larger one may take the place of, in order."""
        self.partition_count = 0
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def context_of(self, body: FetchRequest, *, uses_ids: bool, is_follower: bool) -> FetchContext:
        """What a request fetches; an incremental one changes its session. Raises FetchSessionError."""
        if body.session_epoch in (BEGINS, ENDS):
            if sum(len(topic.partitions) for topic in body.topics) > PARTITIONS_MAX:
                raise FetchSessionError(ErrorCode.INVALID_REQUEST)
            if body.session_id in self._sessions:
                self._remove(self._sessions[body.session_id])
            is_alone = body.session_epoch == ENDS or is_follower
            return Sessionless(body) if is_alone else Beginning(body, self, uses_ids)
        session = self._sessions.get(body.session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != body.session_epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        added_count = len(session.new_keys(body))
        if len(session.partitions) + added_count > PARTITIONS_MAX:
            raise FetchSessionError(ErrorCode.INVALID_REQUEST)
        if self.partition_count + added_count > CACHED_MAX:
            self._remove(session)
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.update(body)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else FIRST_EPOCH
        if not session.partitions:
            self._remove(session)
            return Sessionless(body)
        self.touch(session)
        return Incremental(session, session.epoch)

    def begin(self, size: int, *, uses_ids: bool) -> FetchSession | None:
        """A session for so many partitions; None: there is no room for one."""
        if self.partition_count + size > CACHED_MAX:
            return None
        if len(self._sessions) >= self._slots and not self._evict(size):
            return None
        session_id = self._rng.randint(1, ID_MAX)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, ID_MAX)
        now = self._now()
        session = self._sessions[session_id] = FetchSession(session_id, uses_ids, {}, now, now)
        return session

    def touch(self, session: FetchSession) -> None:
        """It is used."""
        del self._sessions[session.id]
        self._sessions[session.id] = session
        self._uncount(session)
        session.used_at, session.size = self._now(), len(session.partitions)
        self.partition_count += session.size
        session.is_evictable = session.used_at - session.created_at > EVICTION_MS
        if session.is_evictable:
            insort(self._evictable, (session.size, session.id))

    def _uncount(self, session: FetchSession) -> None:
        self.partition_count -= session.size
        if session.is_evictable:
            del self._evictable[bisect_left(self._evictable, (session.size, session.id))]

    def _remove(self, session: FetchSession) -> None:
        self._uncount(session)
        del self._sessions[session.id]

    def _evict(self, size: int) -> bool:
        """Make room for a session of so many partitions. False: none of them gives way."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim = oldest
        if self._now() - oldest.used_at <= EVICTION_MS:
            if not self._evictable or self._evictable[0][0] >= size:
                return False
            victim = self._sessions[self._evictable[0][1]]
        self._remove(victim)
        self.evicted_count += 1
        return True
