"""The throttles: how many sessions may be asked for in a time, and how many requests may be in process."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, Create
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.clients.connection import Hold
from zab.member.clients.connection_throttle import ConnectionThrottle
from zab.member.settings.config import Config
from zab.member.settings.throttles import ConnectionThrottleSettings
from zab.member.settings.zoo_cfg import parse


def config_of(**lines: object) -> Config:
    text = "".join(f"connection_throttle_{key}={value}\n" for key, value in lines.items())
    return parse(f"dataDir=/d\nclientPort=1\n{text}", "zoo.cfg")


def settings(**lines: object) -> ConnectionThrottleSettings:
    return config_of(**lines).connection_throttle


class Chance(Random):
    """Always the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def asked(throttle: ConnectionThrottle, now: int, count: int, **kind: bool) -> int:
    """How many of so many get in at once."""
    return sum(throttle.admits(now, **{"is_renewal": False, **kind}) for _ in range(count))


# --------------------------------------------------------------------------------------------------------- the bucket


def test_burst_passes_and_then_as_many_as_tokens_come_back() -> None:
    throttle = ConnectionThrottle(settings(tokens=5, fill_time=100, fill_count=2), Random(1), 1000)
    assert asked(throttle, 1000, 10) == 5
    assert asked(throttle, 1100, 10) == 0, "not before more than fill_time has passed"
    assert asked(throttle, 1150, 10) == 3
    assert asked(throttle, 100_000, 10) == 5, "never more than the bucket holds"
    assert throttle.deficit == 5


def test_weights_say_what_a_session_costs_and_tokens_count_new_ones() -> None:
    lines = {"tokens": 2, "weight_enabled": "true", "global_session_weight": 6, "renew_session_weight": 4}
    throttle = ConnectionThrottle(settings(**lines), Random(1), 0)
    assert asked(throttle, 0, 9, is_renewal=True) == 3
    assert throttle.deficit == 12
    throttle = ConnectionThrottle(settings(**lines), Random(1), 0)
    assert asked(throttle, 0, 9) == 2
    assert asked(throttle, 2, 9) == 2, "two milliseconds bring back two sessions"


def test_a_new_session_that_one_server_alone_knows_has_a_weight_of_its_own() -> None:
    lines = {"tokens": 2, "weight_enabled": "true", "global_session_weight": 6, "local_session_weight": 3}
    throttle = ConnectionThrottle(settings(**lines), Random(1), 0)
    assert asked(throttle, 0, 9, is_renewal=False, is_local=True) == 4
    throttle = ConnectionThrottle(settings(tokens=2, local_session_weight=2), Random(1), 0)
    assert asked(throttle, 0, 9, is_renewal=False, is_local=True) == 2, "without weights it is one token"


@pytest.mark.parametrize(("lines", "count"), [({"localSessionsEnabled": "true"}, 3), ({}, 1)])
def test_a_member_charges_for_the_kind_of_session_that_it_gives_out(lines: dict[str, str], count: int) -> None:
    key = "connection_throttle_"
    weights = {f"{key}tokens": 1, f"{key}weight_enabled": "true", f"{key}fill_time": 100_000}
    ensemble = Ensemble(3, **lines, **weights)
    clients = [ensemble.client(ensemble.follower) for _ in range(5)]
    for client in clients:
        client.say(client.connect_request())
    ensemble.settle()
    assert sum(client.response is not None for client in clients) == count


def test_without_weights_everybody_costs_one_token() -> None:
    throttle = ConnectionThrottle(settings(tokens=3, renew_session_weight=3), Random(1), 0)
    assert asked(throttle, 0, 9, is_renewal=True) == 3


def test_chance_to_be_turned_away_grows_while_the_bucket_is_empty_and_shrinks_when_few_are_missing() -> None:
    lines = {"tokens": 10, "fill_time": 1000, "fill_count": 10, "freeze_time": 10}
    steps = {"drop_increase": "0.4", "drop_decrease": ".25", "decrease_ratio": "0.5"}
    throttle = ConnectionThrottle(settings(**lines, **steps), Chance(0.99), 0)
    assert asked(throttle, 0, 20) == 10
    seen = []
    for now in (5, 11, 12, 22, 33, 44):
        throttle.admits(now, is_renewal=False)
        seen.append(throttle.drop_probability)
    assert seen == [0, 0.4, 0.4, 0.8, 1.0, 1.0], "once in freeze_time, up to 1"
    throttle.admits(2000, is_renewal=False)
    assert throttle.drop_probability == 0.75
    assert asked(throttle, 2001, 20) == 9, "this chance is not met"
    assert throttle.drop_probability == 0.75


def test_chance_turns_away_although_tokens_are_left() -> None:
    throttle = ConnectionThrottle(settings(tokens=10, freeze_time=0, drop_increase="0.5"), Chance(0.4), 0)
    throttle.drop_probability = 0.5
    assert asked(throttle, 0, 5) == 0
    assert throttle.deficit == 0


@pytest.mark.parametrize("value", ["1.5", "-1", "x", "", "1e-3", "nan"])
def test_chance_is_a_number_from_0_to_1(value: str) -> None:
    with pytest.raises(
        Exception, match=r"zoo.cfg:3: connection_throttle_drop_increase: .* is not a number from 0 to 1"
    ):
        settings(drop_increase=value)


def test_without_tokens_there_is_no_throttle() -> None:
    assert ConnectionThrottle.of(settings(), Random(1), 0) is None


def test_client_that_finds_no_token_is_closed_without_an_answer_and_counted() -> None:
    ensemble = Ensemble(3, connection_throttle_tokens=2, connection_throttle_fill_time=60_000)
    server = ensemble.follower
    clients = [ensemble.client(server) for _ in range(4)]
    for client in clients:
        client.say(client.connect_request())
    ensemble.settle()
    assert [client.response is not None for client in clients] == [True, True, False, False]
    assert [client.is_closed for client in clients] == [False, False, True, True]
    metrics = server.member.metrics
    assert (metrics.sessions_throttled, metrics.connection_rejected, metrics.connection_request_count) == (2, 2, 2)
    assert metrics.connection_token_deficit.largest == 2
    others = ensemble.others(server)
    assert all(other.member.sessions.throttle is not None for other in others), "each member has its own bucket"
    assert ensemble.session(others[0]).response is not None


# --------------------------------------------------------------------------------------------------------- the requests


def throttled(size: int = 3, count: int = 2, **lines: object) -> tuple[Ensemble, list[Client]]:
    """An ensemble with two clients on a follower that hears nothing from the leader for now."""
    ensemble = Ensemble(size, request_throttle_max_requests=count, request_throttle_stall_time=70, **lines)
    clients = [ensemble.session(ensemble.follower) for _ in range(2)]
    ensemble.do(clients[0], clients[0].create(b"/a"))
    ensemble.late.add(ensemble.follower.sid)
    return ensemble, clients


def step(ensemble: Ensemble) -> None:
    ensemble.step(ensemble.follower)


def let_answers_come(ensemble: Ensemble) -> None:
    ensemble.late.clear()
    ensemble.settle()


def test_requests_beyond_the_limit_wait_their_connections_are_not_read_from_and_all_are_done_in_order() -> None:
    ensemble, (one, two) = throttled()
    for number in range(5):
        one.say(one.set(b"/a", b"%d" % number))
    two.say(two.create(b"/b") + two.get(b"/a"))
    step(ensemble)
    processor = ensemble.follower.member.processor
    assert processor.waiting.outstanding_count == 2
    assert one.connection.holds == two.connection.holds == Hold.THROTTLED
    let_answers_come(ensemble)
    assert [(xid, error) for xid, error, _ in one.replies()] == [(number, 0) for number in range(2, 7)]
    assert [(xid, error) for xid, error, _ in two.replies()] == [(1, 0), (2, 0)]
    assert one.connection.holds == two.connection.holds == Hold.NONE
    assert ensemble.follower.value(b"/a") == b"4"
    assert ensemble.follower.member.metrics.request_throttle_wait_count > 0


def test_connections_come_in_turn_whoever_has_most() -> None:
    ensemble, (one, two) = throttled(count=1)
    one.say(b"".join(one.set(b"/a", b"%d" % number) for number in range(20)))
    step(ensemble)
    two.say(two.create(b"/b"))
    step(ensemble)
    throttle = ensemble.follower.member.throttle
    assert throttle is not None
    assert [len(waiting) for waiting in throttle._waiting.values()] == [19, 1]
    one.take_received()
    two.take_received()
    let_answers_come(ensemble)
    of_one = [zxid for _, _, zxid, _, _ in one.take_received()]
    [(_, _, of_two, error, _)] = two.take_received()
    assert error == 0
    assert len(of_one) == 20
    assert sum(zxid < of_two for zxid in of_one) < 4, "most of its requests came later"


def test_reads_that_wait_for_nothing_take_no_place() -> None:
    ensemble, (one, _) = throttled()
    one.say(b"".join(one.get(b"/a") for _ in range(50)))
    step(ensemble)
    assert len(one.replies()) == 50


def test_request_that_waited_too_long_is_refused_in_its_order_and_not_done() -> None:
    ensemble, (one, two) = throttled(throttled_op_wait_time=500)
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2") + one.set(b"/a", b"3"))
    two.say(two.create(b"/b"))
    step(ensemble)
    ensemble.now += 501
    let_answers_come(ensemble)
    throttledop = int(ErrorCode.THROTTLEDOP)
    assert [(xid, error) for xid, error, _ in one.replies()] == [(2, 0), (3, 0), (4, throttledop)]
    assert [(xid, error) for xid, error, _ in two.replies()] == [(1, throttledop)]
    assert ensemble.follower.value(b"/a") == b"2"
    assert ensemble.follower.value(b"/b") is None
    assert ensemble.follower.member.metrics.throttled_ops == 2


def test_close_of_a_session_and_a_ping_are_done_however_long_they_waited() -> None:
    ensemble, (one, two) = throttled(throttled_op_wait_time=500)
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2"))
    two.say(two.request(OpCode.PING, xid=-2) + two.request(OpCode.CLOSE_SESSION))
    step(ensemble)
    ensemble.now += 501
    let_answers_come(ensemble)
    assert [error for _, error, _ in two.replies()] == [0, 0]
    assert two.connection.session not in ensemble.leader.member.tree.sessions


def test_what_waits_for_a_connection_that_is_gone_is_dropped() -> None:
    ensemble, (one, _) = throttled()
    one.say(b"".join(one.set(b"/a", b"%d" % number) for number in range(5)))
    step(ensemble)
    one.close()
    step(ensemble)
    let_answers_come(ensemble)
    assert ensemble.leader.value(b"/a") == b"1", "two were in process"
    assert ensemble.follower.member.metrics.stale_requests_dropped == 3


@pytest.mark.parametrize("key", ["request_throttle_drop_stale", "request_stale_connection_check"])
def test_what_waits_for_a_connection_that_is_gone_is_done_all_the_same_if_told_so(key: str) -> None:
    ensemble, (one, _) = throttled(**{key: "false"})
    one.say(b"".join(one.set(b"/a", b"%d" % number) for number in range(5)))
    step(ensemble)
    one.close()
    step(ensemble)
    let_answers_come(ensemble)
    assert ensemble.leader.value(b"/a") == b"4"
    metrics = ensemble.follower.member.metrics
    assert metrics.stale_requests_dropped == 0
    assert metrics.stale_requests == (3 if key == "request_throttle_drop_stale" else 0)


def test_request_that_waits_longer_than_its_session_ends_its_connection() -> None:
    """It is looked at again after the stall time, though nothing has happened."""
    ensemble, (one, two) = throttled(request_stale_latency_check="true")
    one.say(b"".join(one.set(b"/a", b"%d" % number) for number in range(2)))
    two.say(two.create(b"/b"))
    step(ensemble)
    assert ensemble.follower.member.next_deadline() <= ensemble.now + 70
    two.connection.timeout_ms = 60
    ensemble.now += 61
    step(ensemble)
    assert two.is_closed
    assert not one.is_closed
    assert ensemble.follower.member.metrics.stale_requests_dropped == 1


def test_nothing_that_waits_goes_to_the_next_leader() -> None:
    """G2."""
    ensemble, (one, _) = throttled(request_throttle_drop_stale="false")
    one.say(b"".join(one.set(b"/a", b"%d" % number) for number in range(5)))
    step(ensemble)
    member = ensemble.follower.member
    member.service.stop()
    assert member.throttle is not None
    assert not member.throttle._waiting
    step(ensemble)
    assert not member.processor.intake


def test_turn_takes_so_many_and_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.request_throttle.TAKEN_COUNT_MAX", 10)
    ensemble, (one, two) = throttled()
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2"))
    two.say(b"".join(two.get(b"/a") for _ in range(35)))
    step(ensemble)
    assert not two.replies()
    member = ensemble.follower.member
    counts = []
    member.processor.waiting.outstanding_count -= 2
    for _ in range(4):
        step(ensemble)
        counts.append(len(two.replies()))
        assert member.has_more == (len(counts) < 4)
    member.processor.waiting.outstanding_count += 2
    assert counts == [10, 10, 10, 5]


def test_throttle_is_not_there_when_it_is_off() -> None:
    assert Ensemble(1).leader.member.throttle is None


# ------------------------------------------------------------------------------------------------------ large requests


def large(client: Client, size: int = 5000) -> bytes:
    return client.request(OpCode.SET_DATA, client.set(b"/a", b"x" * size)[12:])


def test_large_requests_in_process_are_bounded_and_who_goes_beyond_is_closed() -> None:
    ensemble = Ensemble(3, largeRequestThreshold=1000, largeRequestMaxBytes=12_000)
    one, two = (ensemble.session(ensemble.follower) for _ in range(2))
    ensemble.do(one, one.create(b"/a"))
    ensemble.late.add(ensemble.follower.sid)
    one.say(large(one) + large(one) + one.set(b"/a", b"x" * 900))
    two.say(two.create(b"/b"))
    step(ensemble)
    assert not one.is_closed
    two.say(large(two))
    step(ensemble)
    assert two.is_closed
    assert not one.is_closed
    metrics = ensemble.follower.member.metrics
    assert metrics.large_requests_rejected == 1
    let_answers_come(ensemble)
    assert len(one.replies()) == 3
    for _ in range(5):
        [(_, error, _)] = ensemble.do(one, large(one))
        assert error == 0, "what is done takes no place"


def test_large_requests_that_wait_count_too_and_no_more_once_they_are_dropped() -> None:
    ensemble, (one, two) = throttled(largeRequestThreshold=1000, largeRequestMaxBytes=12_000)
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2") + large(one) + large(one))
    step(ensemble)
    two.say(large(two))
    step(ensemble)
    assert two.is_closed
    one.close()
    step(ensemble)
    throttle = ensemble.follower.member.throttle
    assert throttle is not None
    assert throttle._large_bytes == 0


def test_large_read_is_answered_at_once_and_takes_no_place() -> None:
    ensemble = Ensemble(1, largeRequestThreshold=100, largeRequestMaxBytes=1000)
    client = ensemble.session()
    path = b"/" + b"a" * 600
    for _ in range(5):
        assert ensemble.do(client, client.get(path))[0][1] == ErrorCode.NONODE


def test_settings_of_the_throttles_are_off_by_default_and_zookeepers() -> None:
    config = config_of()
    assert (config.connection_throttle.tokens, config.request_throttle.max_requests) == (0, 0)
    assert (
        config.request_throttle.throttled_op_wait_time_ms,
        config.request_throttle.large_request_threshold_bytes,
    ) == (0, -1)
    assert config.request_throttle.large_requests_bytes_max == 104_857_600
    assert (config.request_throttle.drop_stale, config.request_throttle.stale_connection_check) == (True, True)
    assert attrs.fields(ConnectionThrottleSettings).drop_increase.default == 0.02


def test_bad_frame_among_those_that_wait_ends_its_connection() -> None:
    ensemble, (one, two) = throttled()
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2"))
    two.say(b"\x00\x00\x00\x02ab" + two.create(b"/b"))
    step(ensemble)
    let_answers_come(ensemble)
    assert two.is_closed
    assert ensemble.leader.value(b"/b") is None


def test_created_session_is_throttled_from_its_first_request_on() -> None:
    """What came with the handshake is held, then throttled like the rest."""
    ensemble, (one, _) = throttled()
    one.say(one.set(b"/a", b"1") + one.set(b"/a", b"2"))
    late = ensemble.client(ensemble.follower)
    body = Create(b"/late", b"", OPEN_ACL, 0).encode()
    late.say(late.connect_request() + late.request(OpCode.CREATE, body) + late.request(OpCode.CREATE, body))
    let_answers_come(ensemble)
    assert [error for _, error, _ in late.replies()] == [0, ErrorCode.NODEEXISTS]
