"""Quotas of clients at one broker without a host: set, listed, kept in znodes; and how clients are held to them."""

import gc
import weakref

import pytest

from tests.partition.asked_broker import fetch
from tests.partition.fetch_session import Session
from tests.partition.one_broker import OneBroker, a_batch, metadata, produce
from zab.coordination.operations import Create
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.client_quotas import (
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
    QuotaAlteration,
)
from zab.kafka.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from zab.partition.controller.znodes import decode_config, encode_config, encode_config_change
from zab.partition.figures import Surroundings, figures

PRODUCED, FETCHED, WORKED = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
ANONYMOUS = {"user": "ANONYMOUS"}
DEFAULT = None


@pytest.fixture
def rig():
    found = OneBroker()
    found.create("t")
    return found


def entity_of(parts):
    return tuple(EntityData(entity_type=type_, entity_name=name) for type_, name in parts.items())


def alter(rig, parts, *, validate_only=False, **changes):
    ops = tuple(OpData(key=key, value=float(value or 0), remove=value is None) for key, value in changes.items())
    entries = (QuotaAlteration(entity=entity_of(parts), ops=ops),)
    [entry] = rig.client().ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), 1).entries
    assert entry.entity == entity_of(parts)
    return entry.error_code


def described(rig, *components, strict=False):
    """Values by the parts of the entity. A component is a type, how it matches, and a name."""
    rows = tuple(ComponentData(entity_type=type_, match_type=how, match=name) for type_, how, name in components)
    answer = rig.client().ask(DescribeClientQuotasRequest(components=rows, strict=strict), 1)
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def config_at(rig, path):
    return decode_config(path, rig.tree.data(path))


# ------------------------------------------------------------------------------------------------------ set and listed


def test_quotas_are_kept_in_the_znodes_of_kafka(rig):
    assert alter(rig, {"user": "a b~*"}, **{PRODUCED: 1024, WORKED: 12.5}) == 0
    assert alter(rig, {"user": "u", "client-id": "c"}, **{FETCHED: 2048}) == 0
    assert alter(rig, {"user": "u", "client-id": DEFAULT}, **{FETCHED: 1}) == 0
    assert alter(rig, {"client-id": DEFAULT}, **{PRODUCED: 9}) == 0
    assert alter(rig, {"user": DEFAULT}, **{PRODUCED: 8}) == 0
    assert config_at(rig, "/config/users/a%20b%7E%2A") == {PRODUCED: "1024", WORKED: "12.5"}
    assert config_at(rig, "/config/users/u") == {}
    assert config_at(rig, "/config/users/u/clients/c") == {FETCHED: "2048"}
    assert config_at(rig, "/config/users/u/clients/<default>") == {FETCHED: "1"}
    assert config_at(rig, "/config/clients/<default>") == {PRODUCED: "9"}
    assert config_at(rig, "/config/users/<default>") == {PRODUCED: "8"}
    changes = sorted(rig.tree.children("/config/changes"))
    assert rig.tree.data(f"/config/changes/{changes[1]}") == encode_config_change("users/u/clients/c")
    before = described(rig)
    assert before[("user", "a b~*"),] == {PRODUCED: 1024, WORKED: 12.5}
    assert len(before) == 5
    rig.restart()
    assert described(rig) == before


def test_a_quota_is_changed_and_taken_away_and_leaves_a_password_alone(rig):
    rig.tree.apply(rig.session, _create("/config/users/u", {"SCRAM-SHA-256": "as it was"}))
    alter(rig, {"user": "u"}, **{PRODUCED: 1, FETCHED: 2})
    alter(rig, {"user": "u"}, **{PRODUCED: 3, FETCHED: None})
    assert config_at(rig, "/config/users/u") == {"SCRAM-SHA-256": "as it was", PRODUCED: "3"}
    assert alter(rig, {"user": "u"}, validate_only=True, **{PRODUCED: 4}) == 0
    assert described(rig) == {(("user", "u"),): {PRODUCED: 3}}
    alter(rig, {"user": "u"}, **{PRODUCED: None})
    assert described(rig) == {}


def _create(path, config):
    return Create(path, encode_config(config))


def test_what_others_write_holds_once_they_have_made_it_known(rig):
    for path, data in (
        ("/config/users/u", b""),
        ("/config/users/u/clients", b""),
        ("/config/users/u/clients/c", encode_config({PRODUCED: "7"})),
    ):
        rig.tree.apply(rig.session, Create(path, data))
    assert described(rig) == {}
    change = Create("/config/changes/config_change_", encode_config_change("users/u/clients/c"), sequential=True)
    rig.tree.apply(rig.session, change)
    rig.tell_watches()
    rig.turn()
    assert described(rig) == {(("user", "u"), ("client-id", "c")): {PRODUCED: 7}}
    rig.restart()
    assert len(described(rig)) == 1


@pytest.mark.parametrize(
    ("parts", "changes"),
    [
        ({}, {PRODUCED: 1}),
        ({"user": ""}, {PRODUCED: 1}),
        ({"user": "<default>"}, {PRODUCED: 1}),
        ({"user": "x" * 201}, {PRODUCED: 1}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 1}),
        ({"group": "g"}, {PRODUCED: 1}),
        ({"user": "u"}, {"no_such_rate": 1}),
        ({"user": "u"}, {"no_such_rate": None}),
        ({"user": "u"}, {PRODUCED: 0.0}),
        ({"user": "u"}, {PRODUCED: -1}),
        ({"user": "u"}, {PRODUCED: 1.5}),
        ({"user": "u"}, {WORKED: float("nan")}),
        ({"user": "u"}, {WORKED: float("inf")}),
    ],
)
def test_what_is_no_quota_is_refused(rig, parts, changes):
    assert alter(rig, parts, **changes) == ErrorCode.INVALID_REQUEST
    assert described(rig) == {}


def test_an_entity_is_named_once(rig):
    ops = (OpData(key=PRODUCED, value=1.0, remove=False),)
    entry = QuotaAlteration(entity=entity_of({"user": "u"}), ops=ops)
    answer = rig.client().ask(AlterClientQuotasRequest(entries=(entry, entry), validate_only=False), 0)
    assert [each.error_code for each in answer.entries] == [0, ErrorCode.DUPLICATE_RESOURCE]


def test_a_filter_says_which_entities_are_listed(rig):
    names = {
        "U": {"user": "u"},
        "D": {"user": DEFAULT},
        "C": {"client-id": "c"},
        "UC": {"user": "u", "client-id": "c"},
        "UD": {"user": "u", "client-id": DEFAULT},
        "VC": {"user": "v", "client-id": "c"},
    }
    for parts in names.values():
        assert alter(rig, parts, **{PRODUCED: 1}) == 0

    def found(*components, strict=False):
        rows = described(rig, *components, strict=strict)
        return {name for name, parts in names.items() if tuple(parts.items()) in rows}

    exact, default, specified = 0, 1, 2
    assert found() == set(names)
    assert found(strict=True) == set()
    assert found(("user", exact, "u")) == {"U", "UC", "UD"}
    assert found(("user", exact, "u"), strict=True) == {"U"}
    assert found(("user", default, None)) == {"D"}
    assert found(("user", specified, None)) == set(names) - {"C"}
    assert found(("user", specified, None), strict=True) == {"U", "D"}
    assert found(("client-id", exact, "c")) == {"C", "UC", "VC"}
    assert found(("client-id", default, None), ("user", exact, "u")) == {"UD"}
    assert found(("ip", exact, "10.0.0.1")) == set()
    assert described(rig, ("user", exact, None)) == ErrorCode.INVALID_REQUEST
    assert described(rig, ("user", 3, None)) == ErrorCode.INVALID_REQUEST
    assert described(rig, ("user", exact, "u"), ("user", exact, "v")) == ErrorCode.INVALID_REQUEST
    assert described(rig, ("group", exact, "g")) == ErrorCode.UNSUPPORTED_VERSION
    assert described(rig, ("ip", exact, "::1"), ("user", exact, "u")) == ErrorCode.INVALID_REQUEST


# ---------------------------------------------------------------------------------------------------------- held to it


def test_a_producer_above_its_quota_is_told_and_waits(rig):
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    client = rig.client()
    assert client.ask(produce("t", a_batch(b"x" * 5000)), 9).throttle_time_ms == 0
    waits = client.ask(produce("t", a_batch(b"x" * 6000)), 9).throttle_time_ms
    assert 1000 < waits < 2000
    assert client.connection.paused
    client.send(produce("t", a_batch(b"x")), 9)
    rig.pass_time(waits - 1)
    assert client.answers() == []
    rig.pass_time(1)
    [answer] = client.answers()
    assert not answer.responses[0].partition_responses[0].error_code
    assert rig.client().ask(fetch("t", 0), 12).throttle_time_ms == 0, "it has no quota as a consumer"


def test_a_connection_that_is_gone_is_not_kept_until_it_may_go_on(rig):
    """Otherwise a client that comes again and again fills the memory."""
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    client = rig.client()
    client.ask(produce("t", a_batch(b"x" * 20_000)), 9)
    gone = weakref.ref(client.connection)
    client.leave()
    del client
    gc.collect()
    assert gone() is None
    rig.pass_time(60_000)


def test_other_connections_of_the_client_wait_when_they_ask_for_more(rig):
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    first, second = rig.client(), rig.client()
    first.ask(produce("t", a_batch(b"x" * 20_000)), 9)
    assert not second.connection.paused
    assert second.ask(metadata("t"), 9).throttle_time_ms == 0
    assert second.ask(produce("t", a_batch(b"x")), 9).throttle_time_ms > 0


def test_without_an_answer_the_connection_waits_all_the_same(rig):
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    client = rig.client()
    client.send(produce("t", a_batch(b"x" * 20_000), acks=0), 9)
    assert client.connection.paused
    client.answers_without(0)
    client.send(metadata("t"), 9)
    assert client.answers() == []
    rig.pass_time(11_000)
    assert len(client.answers()) == 1
    assert not client.connection.paused


def test_a_connection_that_waits_may_end(rig):
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    client = rig.client()
    client.ask(produce("t", a_batch(b"x" * 20_000)), 9)
    client.leave()
    rig.pass_time(20_000)
    assert client.answers() == [], "it has gone"
    assert rig.client().ask(produce("t", a_batch(b"x")), 9).throttle_time_ms == 0, "its time is over for others, too"


def test_nobody_waits_for_longer_than_half_of_the_time_of_a_silent_connection():
    rig = OneBroker("connections.max.idle.ms=4000\n")
    rig.create("t")
    alter(rig, ANONYMOUS, **{PRODUCED: 1})
    client = rig.client()
    assert client.ask(produce("t", a_batch(b"x" * 20_000)), 9).throttle_time_ms == 2000


def write(rig, count, size):
    for _ in range(count):
        rig.client().ask(produce("t", a_batch(b"x" * size)), 9)


@pytest.mark.parametrize("has_session", [False, True])
def test_a_consumer_above_its_quota_gets_nothing_and_waits(rig, has_session):
    write(rig, 3, 4000)
    alter(rig, ANONYMOUS, **{FETCHED: 1000})
    session = Session(rig)
    session.epoch = 0 if has_session else -1
    session.limits["max_bytes"] = 9000
    data = session.ask(("t", 0, 0))["t", 0]
    assert 8000 < len(data.records) < 9000
    if not has_session:
        session.epoch = -1
    answer = session.client.ask(session.request(("t", 0, 2)), 12)
    assert (answer.error_code, answer.responses) == (0, ())
    assert 2000 < answer.throttle_time_ms < 3000
    assert (answer.session_id == session.id) is has_session or answer.session_id == 0
    assert session.client.connection.paused
    [meter] = rig.broker.view().quotas.meters.values()
    assert meter.rate.total(rig.now) == len(data.records), "what it does not get does not count"
    rig.pass_time(11_000)
    session.epoch += has_session
    assert session.ask()["t", 0].records if has_session else session.ask(("t", 0, 2))["t", 0].records


def test_a_fetch_gets_at_most_what_the_windows_allow(rig):
    write(rig, 5, 4000)
    alter(rig, ANONYMOUS, **{FETCHED: 1000})
    answer = rig.client().ask(fetch("t", 0), 12)
    assert answer.throttle_time_ms == 0
    assert 8000 < len(answer.responses[0].partitions[0].records) <= 10_000


def test_a_batch_that_is_larger_than_the_quota_comes_through(rig):
    write(rig, 2, 30_000)
    alter(rig, ANONYMOUS, **{FETCHED: 1000})
    client = rig.client()
    for offset in range(2):
        answer = client.ask(fetch("t", offset), 12)
        assert len(answer.responses[0].partitions[0].records) > 30_000
        assert 15_000 < answer.throttle_time_ms < 25_000
        rig.pass_time(answer.throttle_time_ms)


def test_the_time_of_the_loop_counts(rig):
    """As if each look at the clock took half a second."""
    alter(rig, ANONYMOUS, **{WORKED: 10})
    times = iter(range(0, 1 << 62, 500_000_000))
    rig.broker._clients._dispatch._throttling._clock_ns = lambda: next(times)
    client = rig.client()
    waits = [client.ask(metadata("t"), 9).throttle_time_ms for _ in range(2)]
    assert waits == [0, 0], "a second in ten"
    assert client.ask(metadata("t"), 9).throttle_time_ms == 1000, "one window at most"
    assert client.connection.paused


def test_a_new_quota_holds_at_once_and_none_holds_once_it_is_gone(rig):
    client = rig.client()
    client.ask(produce("t", a_batch(b"x" * 20_000)), 9)
    alter(rig, {"client-id": "test"}, **{PRODUCED: 1000})
    waits = client.ask(produce("t", a_batch(b"x" * 20_000)), 9).throttle_time_ms
    assert waits > 0
    rig.pass_time(waits)
    alter(rig, {"client-id": "test"}, **{PRODUCED: None})
    assert client.ask(produce("t", a_batch(b"x" * 20_000)), 9).throttle_time_ms == 0


def test_a_quota_that_is_none_is_reported(rig):
    rig.tree.apply(rig.session, Create("/config/clients/c", encode_config({PRODUCED: "many"})))
    rig.restart()
    assert any("producer_byte_rate='many' does not hold" in each for each in rig.reports)
    assert described(rig) == {}


def test_a_producer_that_sends_as_fast_as_it_may_is_held_to_its_rate(rig):
    """It waits as the broker makes it wait, and no longer, for a minute of simulated time."""
    alter(rig, ANONYMOUS, **{PRODUCED: 20_000})
    client, sent, began = rig.client(), 0, rig.now
    while rig.now < began + 60_000:
        request = produce("t", a_batch(b"x" * 10_000))
        answer = client.ask(request, 9)
        sent += 10_000
        rig.pass_time(max(1, answer.throttle_time_ms))
        assert not client.connection.paused
    assert 0.95 < sent * 1000 / (rig.now - began) / 20_000 < 1.2, "the first ten windows are filled at once"


def creation(*names, count=1, validate_only=False):
    topics = tuple(
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name in names
    )
    return CreateTopicsRequest(topics=topics, validate_only=validate_only)


def errors(answer, field="topics"):
    return {each.name: each.error_code for each in getattr(answer, field)}


EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_partitions_are_created_as_fast_as_the_quota_allows(rig):
    alter(rig, ANONYMOUS, controller_mutation_rate=1)
    client = rig.client()
    answer = client.ask(creation("a", "b", "c", count=6), 7)
    assert errors(answer) == {"a": 0, "b": 0, "c": EXCEEDED}, "eleven windows hold eleven, and the last one may be more"
    assert answer.throttle_time_ms == 1000
    assert "c" not in rig.broker.image.topics
    assert client.connection.paused
    rig.pass_time(1000)
    assert errors(client.ask(creation("c", count=6), 7)) == {"c": 0}
    assert errors(rig.client().ask(creation("d", count=6, validate_only=True), 7)) == {"d": 0}, "nothing is created"


def test_an_old_client_has_its_topics_created_and_waits(rig):
    alter(rig, ANONYMOUS, controller_mutation_rate=1)
    client = rig.client()
    answer = client.ask(creation("a", "b", count=8), 5)
    assert (errors(answer), answer.throttle_time_ms) == ({"a": 0, "b": 0}, 5000)
    assert client.connection.paused


def test_partitions_that_are_added_and_deleted_count(rig):
    rig.create("a", 3)
    rig.create("b", 3)
    known = rig.broker.image.topics
    alter(rig, ANONYMOUS, controller_mutation_rate=1)
    client = rig.client()
    more = (CreatePartitionsTopic(name="a", count=15, assignments=None),)
    grow = CreatePartitionsRequest(topics=more, timeout_ms=1000, validate_only=False)
    assert errors(client.ask(grow, 3), "results") == {"a": 0}, "twelve are added"
    by_name = DeleteTopicsRequest(topic_names=("b",), timeout_ms=1000)
    answer = rig.client().ask(by_name, 5)
    assert (errors(answer, "responses"), answer.throttle_time_ms) == ({"b": EXCEEDED}, 1000)
    by_id = (DeleteTopicState(topic_id=known["b"].id),)
    [refused] = rig.client().ask(DeleteTopicsRequest(topics=by_id, timeout_ms=1000), 6).responses
    assert (refused.name, refused.topic_id, refused.error_code) == (None, known["b"].id, EXCEEDED)
    assert errors(rig.client().ask(grow, 3), "results") == {"a": EXCEEDED}
    rig.pass_time(1000)
    [deleted] = rig.client().ask(DeleteTopicsRequest(topics=by_id, timeout_ms=1000), 6).responses
    assert deleted.error_code == 0
    assert errors(rig.client().ask(by_name, 5), "responses") == {"b": EXCEEDED}, "three were deleted"


def test_use_is_in_the_figures(rig):
    alter(rig, ANONYMOUS, **{PRODUCED: 1000})
    alter(rig, {"client-id": "test"}, **{FETCHED: 1000})
    client = rig.client()
    waits = client.ask(produce("t", a_batch(b"x" * 20_000)), 9).throttle_time_ms
    rig.client().ask(fetch("t", 0), 12)
    found = {(each.name, each.labels): each.value for each in figures(rig.broker.view(), Surroundings())}
    user, client_id = ("user", "ANONYMOUS"), ("client_id", "test")
    assert 2000 < found["kafka_server_produce_byte_rate", (user,)] < 2100
    assert found["zab_throttled_ms_total", (("quota", "produce"), user)] == waits
    assert found["kafka_server_fetch_byte_rate", (client_id,)] > 2000
