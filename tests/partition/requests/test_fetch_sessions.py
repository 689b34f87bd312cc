"""The cache of fetch sessions: which there are, and who gives way to whom."""

from random import Random

import pytest

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchTopic,
)
from zab.kafka.primitives import ZERO_UUID
from zab.partition.requests import fetch_sessions
from zab.partition.requests.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_MS,
    Asked,
    FetchSessionError,
    FetchSessions,
    Wanted,
)


class Cache:
    """Sessions, and the time."""

    def __init__(self, slots):
        self.now = 0
        self.sessions = FetchSessions(slots, Random(1), lambda: self.now)

    def context(self, *partitions, session_id=0, epoch=0, is_follower=False):
        named = tuple(FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1) for each in partitions)
        topics = (FetchTopic(topic="t", partitions=named),)
        body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, session_id=session_id, session_epoch=epoch)
        return self.sessions.context_of(body, uses_ids=False, is_follower=is_follower)

    def ask(self, *partitions, **others):
        """The answer's session id."""
        context = self.context(*partitions, **others)
        found = [(Asked(wanted, None, None), a_look(0), None) for wanted in context.partitions()]
        return context.select(found).session_id

    def refused(self, *partitions, **others):
        with pytest.raises(FetchSessionError) as caught:
            self.context(*partitions, **others)
        return caught.value.error


def a_look(high_watermark, **others):
    return FetchPartitionData(
        **{
            "partition_index": 0,
            "error_code": 0,
            "high_watermark": high_watermark,
            "log_start_offset": 0,
            "aborted_transactions": None,
            **others,
        }
    )


def test_a_newcomer_takes_the_place_of_one_that_is_not_used():
    cache = Cache(2)
    idle, busy = cache.ask(1), cache.ask(2)
    cache.now = 1
    cache.ask(session_id=busy, epoch=1)
    cache.now = EVICTION_MS
    assert cache.ask(3) == 0, "one that was used two minutes ago stays"
    cache.now += 1
    third = cache.ask(3)
    assert third != 0
    assert cache.refused(session_id=idle, epoch=1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.ask(session_id=busy, epoch=2) == busy
    assert cache.ask(session_id=third, epoch=1) == third
    assert (len(cache.sessions), cache.sessions.partition_count, cache.sessions.evicted_count) == (2, 2, 1)
    cache.now += EVICTION_MS
    assert cache.ask(4) == 0, "use keeps it"


def test_a_larger_one_takes_the_place_of_the_smallest_that_is_old():
    cache = Cache(3)
    first, second, young = cache.ask(1, 2), cache.ask(1, 2, 3), 0
    cache.now = EVICTION_MS
    young = cache.ask(1)
    for session_id in (first, second):
        cache.now = EVICTION_MS + 1
        cache.ask(session_id=session_id, epoch=1)
    assert cache.ask(8) == 0
    assert cache.ask(8, 9) == 0, "it is not larger"
    larger = cache.ask(7, 8, 9)
    assert larger != 0
    assert cache.refused(session_id=first, epoch=2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.ask(session_id=second, epoch=2) == second
    assert cache.ask(session_id=young, epoch=1) == young
    assert cache.sessions.partition_count == 3 + 1 + 3


def test_without_slots_there_are_no_sessions():
    cache = Cache(0)
    assert cache.ask(1) == 0
    assert len(cache.sessions) == 0


def test_a_follower_has_no_session():
    cache = Cache(10)
    assert cache.ask(1, is_follower=True) == 0
    assert len(cache.sessions) == 0


def test_after_the_largest_epoch_comes_1():
    cache = Cache(1)
    session_id = cache.ask(1)
    cache.sessions._sessions[session_id].epoch = EPOCH_MAX
    assert cache.ask(session_id=session_id, epoch=EPOCH_MAX) == session_id
    assert cache.ask(session_id=session_id, epoch=1) == session_id


def test_a_session_has_so_many_partitions(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 3)
    cache = Cache(1)
    session_id = cache.ask(1, 2)
    assert cache.ask(2, 3, session_id=session_id, epoch=1) == session_id
    assert cache.refused(4, session_id=session_id, epoch=2) == ErrorCode.INVALID_REQUEST
    assert cache.sessions.partition_count == 3
    assert cache.ask(session_id=session_id, epoch=2) == session_id, "nothing has changed"


def test_all_sessions_have_so_many_partitions(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "CACHED_MAX", 3)
    cache = Cache(10)
    session_id = cache.ask(1)
    assert cache.ask(1, 2, 3) == 0, "there is no room for it"
    other = cache.ask(1, 2)
    assert cache.refused(2, session_id=session_id, epoch=1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.sessions.partition_count == 2, "it begins again"
    assert cache.ask(3, session_id=other, epoch=1) == other


def test_news_are_records_marks_errors_and_a_history_that_parted():
    wanted = Wanted("t", ZERO_UUID, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1))
    wanted.told(a_look(5))
    assert not wanted.has_news(a_look(5), 0)
    assert wanted.has_news(a_look(5), 1)
    assert wanted.has_news(a_look(6), 0)
    assert wanted.has_news(a_look(5, log_start_offset=1), 0)
    assert wanted.has_news(a_look(5, error_code=1), 0)
    assert wanted.has_news(a_look(5, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)), 0)
