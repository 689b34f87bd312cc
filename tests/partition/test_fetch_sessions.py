"""Fetch sessions (KIP-227) of one broker without a host: what is asked once, and told only where it is news."""

from collections import Counter

import pytest

from tests.bench.call_counts import check, counted
from tests.partition.fetch_session import WITH_IDS, WITH_NAMES, Session
from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.frames import request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.fetch import FetchRequest, FetchTopic
from zab.kafka.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from zab.kafka.messages.topics import DeleteTopicsRequest
from zab.partition.figures import Surroundings, figures


@pytest.fixture
def rig():
    found = OneBroker()
    found.create("a", 2)
    found.create("b", 2)
    return found


def write(rig, topic, index, *values):
    [answer] = rig.client().ask(produce(topic, a_batch(*values), index=index), 9).responses
    assert not answer.partition_responses[0].error_code


@pytest.mark.parametrize("version", [7, 11, WITH_NAMES, WITH_IDS, 16])
def test_an_answer_has_what_is_news_alone(rig, version):
    session = Session(rig, version)
    assert set(session.ask(("a", 0, 0), ("a", 1, 0), ("b", 0, 0))) == {("a", 0), ("a", 1), ("b", 0)}
    assert session.id > 0
    assert session.ask() == {}
    write(rig, "a", 1, b"one")
    write(rig, "b", 1, b"nobody asks")
    told = session.ask()
    assert set(told) == {("a", 1)}
    assert told["a", 1].records
    assert set(session.ask()) == {("a", 1)}, "until it asks for what comes after it"
    assert session.ask(("a", 1, 1)) == {}
    assert set(session.ask(("b", 1, 0))) == {("b", 1)}


def test_each_request_of_a_session_has_the_next_epoch(rig):
    session = Session(rig)
    session.ask(("a", 0, 0))
    session.ask()
    for epoch in (1, 3):
        session.epoch = epoch
        assert session.error() == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 2
    assert session.ask() == {}
    session.id += 1
    assert session.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_keeps_to_names_or_to_ids(rig):
    session = Session(rig)
    session.ask(("a", 0, 0))
    session.version = WITH_IDS
    assert session.error() == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_whole_request_ends_the_session_that_it_names(rig, epoch):
    session = Session(rig)
    session.ask(("a", 0, 0))
    former = session.id
    session.epoch = epoch
    assert set(session.ask(("a", 1, 0))) == {("a", 1)}
    assert (session.id == 0) is (epoch == -1)
    session.id, session.epoch = former, 1
    assert session.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [WITH_NAMES, WITH_IDS])
def test_what_is_forgotten_is_fetched_no_longer(rig, version):
    session = Session(rig, version)
    session.ask(("a", 0, 0), ("a", 1, 0))
    write(rig, "a", 0, b"one")
    write(rig, "a", 1, b"one")
    assert set(session.ask(forgotten=[("a", 0), ("b", 1)])) == {("a", 1)}
    former = session.id
    assert session.ask(forgotten=[("a", 1)]) == {}
    assert session.id == 0, "nothing is left of it"
    session.id = former
    assert session.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_marks_that_moved_are_news(rig):
    session = Session(rig)
    write(rig, "a", 0, b"one")
    session.ask(("a", 0, 1), ("a", 1, 0))
    write(rig, "a", 0, b"two")
    assert session.ask(("a", 0, 2))["a", 0].high_watermark == 2
    partition = DeleteRecordsPartition(partition_index=0, offset=2)
    topic = DeleteRecordsTopic(name="a", partitions=(partition,))
    rig.client().ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=1000), 2)
    assert session.ask()["a", 0].log_start_offset == 2
    assert session.ask() == {}


def test_an_error_is_told_each_time_and_its_end_too(rig):
    session = Session(rig)
    session.ask(("a", 0, 0), ("new", 0, 0))
    for _ in range(2):
        assert session.ask()["new", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.create("new")
    assert session.ask()["new", 0].high_watermark == 0
    assert session.ask() == {}
    rig.client().ask(DeleteTopicsRequest(topic_names=("a",), timeout_ms=1000), 5)
    assert session.ask()["a", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.create("a")
    assert session.ask()["a", 0].high_watermark == 0


def test_a_topic_that_was_created_again_is_another_one_to_who_has_its_id(rig):
    session = Session(rig, WITH_IDS)
    session.ask(("a", 0, 0), ("b", 0, 0))
    rig.client().ask(DeleteTopicsRequest(topic_names=("a",), timeout_ms=1000), 5)
    rig.create("a")
    [topic] = session.client.ask(session.request(), WITH_IDS).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_that_gave_records_goes_to_the_end_of_the_line(rig):
    for index in (0, 1):
        for topic in ("a", "b"):
            write(rig, topic, index, b"x" * 1000)
    session = Session(rig, max_bytes=1500)
    partitions = [("a", 0), ("a", 1), ("b", 0)]
    assert list(session.ask(*((*each, 0) for each in partitions))) == partitions
    given = []
    for _ in range(4):
        given.append(*(place for place, data in session.ask().items() if data.records))
    assert given == [("a", 0), ("a", 1), ("b", 0), ("a", 0)]


def test_a_request_that_was_overtaken_is_told_so(rig):
    """Two connections go on with one session."""
    session = Session(rig, max_wait_ms=1000)
    write(rig, "a", 0, b"one")
    session.ask(("a", 0, 0))
    session.client.send(session.request(("a", 0, 1)), WITH_NAMES)
    first, session.client, session.epoch = session.client, rig.client(), 2
    session.ask(("a", 0, 0))
    assert session.epoch == 3
    write(rig, "a", 0, b"two")
    [answer] = first.answers()
    assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())


def test_a_session_outlives_its_connection_and_not_its_broker(rig):
    session = Session(rig)
    session.ask(("a", 0, 0))
    session.client.leave()
    session.client = rig.client()
    assert session.ask() == {}
    rig.restart()
    session.client = rig.client()
    assert session.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_without_room_in_an_answer_is_not_idle(rig):
    write(rig, "a", 0, b"x" * 1000)
    write(rig, "a", 1, b"x" * 1000)
    session = Session(rig, max_bytes=1100)
    told = session.ask(("a", 0, 0), ("a", 1, 0))
    assert [bool(each.records) for each in told.values()] == [True, False]
    assert session.ask(("a", 0, 1))["a", 1].records


def test_a_new_leader_epoch_is_told_to_who_knows_the_old_one(rig):
    session = Session(rig)
    epoch = rig.replica("a").state.leader_epoch
    session.ask(("a", 0, 0), leader_epoch=epoch)
    assert session.ask() == {}
    rig.begin_epoch("a")
    assert session.ask()["a", 0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_sessions_are_in_the_figures():
    rig = OneBroker("max.incremental.fetch.session.cache.slots=1\n")
    rig.create("a", 2)
    session, other = Session(rig), Session(rig)
    session.ask(("a", 0, 0), ("a", 1, 0))
    other.ask(("a", 0, 0))
    assert other.id == 0
    rig.pass_time(120_001)
    other = Session(rig)
    other.ask(("a", 0, 0))
    assert other.id > 0
    found = {each.name: each.value for each in figures(rig.broker.view(), Surroundings())}
    cache = "kafka_server_fetchsessioncache"
    assert found[f"{cache}_numincrementalfetchsessions"] == 1
    assert found[f"{cache}_numincrementalfetchpartitionscached"] == 1
    assert found[f"{cache}_incrementalfetchsessionevictions_total"] == 1


def test_a_consumer_of_a_thousand_idle_partitions_costs_little():
    """What one fetch costs that waits and finds nothing: 33 KB out and 37 KB back become 69 bytes, and two thirds of
    the calls are gone."""
    rig = OneBroker()
    partitions = [(name, index, 0) for name in map("t{}".format, range(10)) for index in range(100)]
    for name in dict.fromkeys(name for name, _, _ in partitions):
        rig.create(name, 100)
    session = Session(rig, WITH_IDS, max_wait_ms=500)
    session.epoch = -1
    client = session.client

    def cost(*named):
        """Bytes of a request, bytes of its answer, calls."""
        body, counts = session.request(*named), Counter()
        if session.epoch <= 0:
            topics = {}
            for topic in body.topics:
                topics.setdefault(topic.topic_id, []).extend(topic.partitions)
            body = FetchRequest(
                **session.limits,
                session_id=session.id,
                session_epoch=session.epoch,
                topics=tuple(FetchTopic(topic_id=key, partitions=tuple(found)) for key, found in topics.items()),
            )
        with counted(counts):
            client.send(body, WITH_IDS)
            rig.pass_time(500)
        size = len(client.taken)
        [answer] = client.answers()
        session.id = answer.session_id
        return len(request_frame(RequestHeader(1, WITH_IDS, 1, "test"), body)), size, counts

    asked, answered, counts = cost(*partitions)
    assert (asked, answered) == (33_228, 37_201)
    check(counts, 31_000)
    session.epoch = 0
    cost(*partitions)
    for session.epoch in (1, 2):
        asked, answered, counts = cost()
        assert (asked, answered) == (48, 21)
        check(counts, 10_000)
