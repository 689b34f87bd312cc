"""Large requests of many clients at the same time, on whole members: they wait for each other."""

from __future__ import annotations

import itertools

import attrs
import pytest

from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.wire.frames import LENGTH
from zab.wire.large_frames import LARGE_FRAME_BYTES, PATIENCE_MS, SLOW_BYTES_A_MS

SIZE = 400_000
BEGUN_BYTES = 100_000
TICK_MS = 2_000
"""The limit of these ensembles, unless they are told otherwise."""


def ensemble_of_one(largest: int = 1 << 20, **settings: object) -> Ensemble:
    """Its large requests have room for one of the largest: by default two of these at a time."""
    return Ensemble(1, jute__maxbuffer=largest, totalInputLimitBytes=2 * largest, tickTime=TICK_MS, **settings)


@attrs.define
class Writer:
    """A client, and what it has not said yet of its request."""

    client: Client
    rest: bytes = b""

    def begin(self, data_bytes: int = SIZE) -> None:
        whole = self.client.set(b"/a", bytes(data_bytes))
        self.client.say(whole[:BEGUN_BYTES])
        self.rest = whole[BEGUN_BYTES:]

    def end(self) -> None:
        self.client.say(self.rest)

    @property
    def waits(self) -> bool:
        return self.client.connection.paused


def writers(ensemble: Ensemble, count: int) -> list[Writer]:
    """Each has begun a request, one after the other. The sessions of two last."""
    first = ensemble.session(timeout_ms=40_000)
    ensemble.do(first, first.create(b"/a"))
    first.replies()
    found = [Writer(first), *(Writer(ensemble.session(timeout_ms=40_000 if n < 2 else 4_000)) for n in range(1, count))]
    for writer in found:
        writer.begin()
        ensemble.settle()
    return found


def pass_time(ensemble: Ensemble, ms: int) -> None:
    for _ in range(-(-ms // TICK_MS)):
        ensemble.advance(TICK_MS)


def closed_for_input(ensemble: Ensemble) -> int:
    return ensemble.servers[1].member.metrics.connections_closed_for_input


def test_they_go_on_in_the_order_in_which_they_began_as_room_is_given_back() -> None:
    """All of them were read from, and those with most were closed."""
    ensemble = ensemble_of_one()
    found = writers(ensemble, 8)
    assert [writer.waits for writer in found] == [False, False] + [True] * 6
    for number, writer in enumerate(found):
        assert not writer.waits
        writer.end()
        ensemble.settle()
        assert [each.waits for each in found[number + 1 :]] == [False] * min(2, 7 - number) + [True] * (5 - number)
    assert [writer.client.replies()[-1][1] for writer in found] == [0] * 8
    assert closed_for_input(ensemble) == 0
    assert ensemble.servers[1].member.limits.large.bytes == 0


def test_small_requests_are_read_meanwhile_and_those_that_waited_are_whole() -> None:
    ensemble = ensemble_of_one()
    found = writers(ensemble, 4)
    other = ensemble.session()
    assert ensemble.do(other, other.set(b"/a", bytes(LARGE_FRAME_BYTES - 100)))
    half = other.set(b"/a", bytes(LARGE_FRAME_BYTES - 100))
    other.say(half[:-1])
    ensemble.settle()
    assert not other.connection.paused
    assert ensemble.do(other, half[-1:])
    for writer in found:
        writer.end()
        ensemble.settle()
    assert [writer.client.replies()[-1][1] for writer in found] == [0] * 4


def test_a_smaller_one_does_not_overtake_those_that_wait() -> None:
    ensemble = ensemble_of_one()
    found = writers(ensemble, 3)
    smaller = Writer(ensemble.session())
    smaller.begin(2 * BEGUN_BYTES)
    ensemble.settle()
    assert smaller.waits
    found[0].end()
    ensemble.settle()
    assert (found[2].waits, smaller.waits) == (False, False)


def test_a_request_behind_a_large_one_asks_for_room_anew() -> None:
    ensemble = ensemble_of_one()
    first, second, third = writers(ensemble, 3)
    again = first.client.set(b"/a", bytes(SIZE))
    first.client.say(first.rest + again[:BEGUN_BYTES])
    first.client.say(again[BEGUN_BYTES : 2 * BEGUN_BYTES])
    ensemble.settle()
    assert (first.waits, second.waits, third.waits) == (True, False, False)
    for writer in (second, third):
        writer.end()
    ensemble.settle()
    first.client.say(again[2 * BEGUN_BYTES :])
    ensemble.settle()
    assert [error for _, error, _ in first.client.replies()] == [0, 0]


@pytest.mark.parametrize("who", [0, 2], ids=["who is going", "who waits"])
def test_who_is_gone_gives_its_room_back(who: int) -> None:
    ensemble = ensemble_of_one()
    found = writers(ensemble, 4)
    gone = found.pop(who)
    gone.client.close()
    ensemble.settle()
    for writer in found:
        writer.end()
        ensemble.settle()
    assert [writer.client.replies()[-1][1] for writer in found] == [0] * 3
    large = ensemble.servers[1].member.limits.large
    assert (large.bytes, large.going, large.waiting) == (0, {}, {})


def test_who_does_not_end_its_request_loses_its_connection_while_others_wait() -> None:
    """Half requests that stop keep nobody waiting for long; anyone who waits keeps its session."""
    ensemble = ensemble_of_one()
    found = writers(ensemble, 4)
    pass_time(ensemble, PATIENCE_MS - TICK_MS)
    assert [writer.client.is_closed for writer in found] == [False] * 4
    assert [writer.waits for writer in found] == [False, False, True, True]
    pass_time(ensemble, 3 * TICK_MS)
    assert [writer.client.is_closed for writer in found] == [True, True, False, False]
    assert closed_for_input(ensemble) == 2
    for writer in found[2:]:
        assert not writer.waits
        writer.end()
    ensemble.settle()
    assert [writer.client.replies()[-1][1] for writer in found[2:]] == [0, 0]


ENOUGH = SLOW_BYTES_A_MS * TICK_MS


@pytest.mark.parametrize(
    ("bytes_of_ticks", "is_closed"),
    [
        ([ENOUGH], False),
        ([1], True),
        ([0, 0, 0, 4 * ENOUGH], False),
        ([0, 0, 0, 0, 4 * ENOUGH, 0, 0, 0, 0], True),
        ([7 * ENOUGH, 0, 0, 0, 0, 0, 0, 0], True),
    ],
    ids=["in each tick", "too little", "late, and all", "late, and some", "ahead"],
)
def test_who_is_far_behind_is_closed(bytes_of_ticks: list[int], is_closed: bool) -> None:
    """A program that its machine seldom runs sends nothing for many ticks and much in the next: each such tick counted
    for good, and clients that sent more than enough were closed."""
    largest = 4 << 20
    ensemble = ensemble_of_one(largest)
    going, other = (Writer(ensemble.session(timeout_ms=40_000)) for _ in range(2))
    ensemble.do(going.client, going.client.create(b"/a"))
    going.begin(largest - 100)
    other.begin()
    ensemble.settle()
    for count in itertools.islice(itertools.cycle(bytes_of_ticks), 3 * PATIENCE_MS // TICK_MS):
        if going.client.is_closed:
            break
        assert other.waits
        going.client.say(going.rest[:count])
        going.rest = going.rest[count:]
        pass_time(ensemble, TICK_MS)
    assert going.rest
    assert going.client.is_closed == is_closed


def test_time_in_which_it_is_not_read_from_does_not_count() -> None:
    """Its own writes wait for a disk."""
    ensemble = ensemble_of_one()
    held, other, _ = (writer.client.connection for writer in writers(ensemble, 3))
    limits = ensemble.servers[1].member.limits
    limits.hold_loaded(held)
    assert {over for _ in range(20) for over in limits.large.tick()} == {other}
    assert (limits.large.going[held].owed_bytes, limits.large.going[other].owed_bytes > 0) == (0, True)


def test_half_requests_that_nobody_waits_for_stay() -> None:
    ensemble = ensemble_of_one()
    found = writers(ensemble, 2)
    pass_time(ensemble, 2 * PATIENCE_MS)
    for writer in found:
        writer.end()
    ensemble.settle()
    assert [writer.client.replies()[-1][1] for writer in found] == [0, 0]


def test_the_largest_request_there_may_be_has_room_alone() -> None:
    """With its length it is above half of the least limit."""
    ensemble = ensemble_of_one()
    client, other = ensemble.session(), ensemble.session()
    for each in (client, other):
        each.say(LENGTH.pack(1 << 20) + bytes(BEGUN_BYTES))
    ensemble.settle()
    assert (client.connection.paused, other.connection.paused) == (False, True)
    client.close()
    ensemble.settle()
    assert not other.connection.paused


def test_writes_that_are_whole_and_wait_for_their_turn_take_of_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intake of a member with a limit of 256 MB had 400."""
    monkeypatch.setattr("zab.member.requests.proposing.LARGE_UNDER_WAY_BYTES_MAX", 100_000)
    ensemble = ensemble_of_one()
    found = writers(ensemble, 8)
    [server] = ensemble.servers.values()
    server.durable_held = True
    for writer in found[:3]:
        writer.end()
        ensemble.settle()
        ensemble.step(server)
    intake = server.member.processor.intake
    assert len(intake) == 2
    assert 2 * SIZE <= intake.kept_bytes <= 2 * SIZE + 1_000
    assert [writer.waits for writer in found[3:]] == [False] + [True] * 4, "one began before the last ones were counted"
    ensemble.release(server)
    ensemble.settle()
    assert intake.kept_bytes == 0
    for writer in found[3:]:
        assert not writer.waits
        writer.end()
        ensemble.settle()
    assert [writer.client.replies()[-1][1] for writer in found] == [0] * 8
