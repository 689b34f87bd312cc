"""A turn of a bookie on ports of the test: what an add costs, when requests are held, who is closed."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest

from tests.bookie.wire import KEY, add
from zab.bookie.connection import BookieConnection
from zab.bookie.turn import CLEAR_MS, BookieTurn, Limits, Ports
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import AppendJournal, Input, JournalDurable, Space
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.opening import Opened
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.messages import ReadEntry, Request, StartTls
from zab.ledger.wire.tls_start import BookieStart
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.frames import FrameReader

ADDS = 500
CALLS_MAX = 4
"""Calls of Python for one add, from its bytes to those of its answer: three objects are made, and some calls a turn are
shared by all its adds."""


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.ns

    def wall_ns(self) -> int:
        return self.ns

    def processor_ns(self) -> int:
        return 0


class Sockets:
    """The sockets of clients: what comes is put there by the test, what goes is in `sent`."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.sent: dict[BookieConnection, list[list[bytes]]] = {}
        self.takes = True
        self.count = 0
        self.has_news = False

    def receive(self, inputs: list[Any], _until_ns: int) -> None:
        inputs += self.events
        self.events = []

    def flush(self, dirty: Iterable[BookieConnection], _now: int) -> None:
        for each in dirty:
            if each.out:
                size = each.out_bytes
                self.sent.setdefault(each, []).append(each.take_output())
                each.unsent_bytes = 0 if self.takes else each.unsent_bytes + size

    def accept(self, _now: int) -> None:
        pass

    def adapt_budget(self, _turn_ns: int) -> None:
        pass


class Operator:
    def __init__(self) -> None:
        self.said: list[str] = []

    def trace(self, text: str) -> None:
        self.said.append(text)

    warn = trace

    def error(self, sentence: str, **_pairs: object) -> None:
        self.said.append(sentence)

    def stop(self, reason: str) -> None:
        raise AssertionError(reason)


class Bench:
    """One bookie without threads: what it appends is durable when the test says so."""

    def __init__(self, config: BookieConfig | None = None, **limits: Any) -> None:
        self.clock, self.sockets, self.operator = Clock(), Sockets(), Operator()
        self.answers: deque[Input] = deque()
        self.appends: list[AppendJournal] = []
        self.starting: list[BookieConnection] = []
        """Connections that were given to TLS."""
        self.bookie = Bookie(config or BookieConfig(), Opened(LedgerTable(), [], (1, 0), 1, 1), 0)
        ports = Ports(
            clock=self.clock,
            clients=self.sockets,
            operator=self.operator,
            answers=self.answers,
            journal=self.appends.append,
            read=lambda _read: None,
            job=lambda _job: None,
            ask_space=lambda: None,
            submit=lambda _submit: None,
            start_tls=lambda connection, _now: self.starting.append(connection),
        )
        known: dict[str, Any] = {
            "connections_max": 100,
            "input_bytes_max": 1 << 24,
            "unsent_bytes_max": 1 << 24,
            **limits,
        }
        self.turn = BookieTurn(self.bookie, ports, Limits(**{**known, **limits}))

    def connect(
        self, unsent_bytes_max: int = 1 << 20, host: str = "::1", tls_start: BookieStart | None = None
    ) -> BookieConnection:
        connection = BookieConnection(host, 1, FrameReader(1 << 20), unsent_bytes_max, tls_start)
        self.sockets.count += 1
        self.sockets.events.append(ClientConnected(connection))
        return connection

    def send(self, connection: BookieConnection, *requests: Request, is_v2: bool = True) -> None:
        channel = ClientChannel(is_v2)
        self.sockets.events.append(ClientBytes(connection, b"".join(map(channel.encode, requests))))

    def take(self) -> None:
        while self.turn.take():
            pass

    def store(self) -> None:
        """What was appended is durable."""
        if self.appends:
            self.answers.append(JournalDurable(self.appends[-1].number, (1, self.appends[-1].number)))
            self.appends.clear()
        self.take()


def test_what_an_add_costs() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.send(connection, add(1, 0))
    bench.take()
    bench.store()
    bench.send(connection, *(add(1, entry) for entry in range(1, ADDS + 1)))
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        bench.take()
        bench.store()
    finally:
        sys.setprofile(None)
    assert sum(calls.values()) <= CALLS_MAX * ADDS, calls.most_common(12)
    [_, pieces] = bench.sockets.sent[connection]
    assert len(pieces) == ADDS


def test_adds_wait_while_the_bookie_takes_none_and_fences_do_not() -> None:
    bench = Bench(BookieConfig(journal_pending_bytes=1000))
    writer, recoverer = bench.connect(), bench.connect()
    bench.send(writer, add(1, 0, b"x" * 1000))
    bench.take()
    bench.send(writer, add(1, 1), ReadEntry(1, 0))
    bench.send(recoverer, ReadEntry(1, NONE, KEY, is_fencing=True))
    bench.take()
    assert (len(writer.held), writer.paused, bench.turn.held_count) == (2, True, 1)
    assert len(bench.appends) == 2, "the fence is in the journal"
    bench.store()
    assert (len(writer.held), writer.paused, bench.turn.held_count) == (0, False, 0)
    bench.store()
    assert len(bench.sockets.sent[writer]) >= 2


def test_one_that_takes_no_answers_is_asked_for_no_more() -> None:
    bench = Bench()
    slow = bench.connect(unsent_bytes_max=10_000)
    bench.send(slow, add(1, 0, b"x" * 20_000))
    bench.take()
    bench.store()
    bench.sockets.takes = False
    bench.send(slow, ReadEntry(1, 0))
    bench.take()
    bench.send(slow, *[ReadEntry(1, 0)] * 10)
    bench.take()
    assert (slow.is_slow, slow.paused, len(slow.held)) == (True, True, 10)
    slow.unsent_bytes, bench.sockets.takes = 0, True
    bench.take()
    assert (slow.paused, len(slow.held)) == (False, 0)
    assert sum(map(len, bench.sockets.sent[slow])) == 1 + 2 * 11, "large entries are sent apart from their heads"


def test_the_one_with_most_is_closed_if_all_take_no_answers() -> None:
    bench = Bench(unsent_bytes_max=1 << 20)
    bench.sockets.takes = False
    most, other = bench.connect(1 << 30), bench.connect(1 << 30)
    bench.send(other, add(1, 0, b"x" * 100_000))
    bench.take()
    bench.store()
    bench.send(other, ReadEntry(1, 0))
    bench.send(most, *[ReadEntry(1, 0)] * 12)
    bench.take()
    assert (bool(most.closing), bool(other.closing)) == (True, False)
    assert bench.turn.meters.closed_connections == 1
    assert (bench.turn.meters.reads_under_way, bench.turn.meters.adds_under_way) == (0, 0)


def test_a_disk_that_is_nearly_full_is_told_once() -> None:
    bench = Bench(warn_share=0.9)
    for free in (11, 9, 8, 20, 10):
        bench.answers.append(Space(free, 100))
        bench.take()
    assert bench.operator.said == [f"the disk is nearly full: {free} bytes are free" for free in (9, 10)]


def test_more_connections_than_there_may_be_are_closed() -> None:
    bench = Bench(connections_max=1)
    first = bench.connect()
    bench.take()
    second = bench.connect()
    bench.take()
    assert (bool(first.closing), bool(second.closing)) == (False, True)


@pytest.mark.parametrize("is_v2", [True, False])
def test_nothing_is_answered_to_one_that_is_gone(is_v2: bool) -> None:
    bench = Bench()
    gone = bench.connect()
    wait = [] if is_v2 else [ReadEntry(1, NONE, previous_lac=5, wait_ms=1000, wants_piggyback=True)]
    bench.send(gone, add(1, 0), *wait, is_v2=is_v2)
    bench.take()
    bench.sockets.events.append(ClientClosed(gone))
    bench.take()
    bench.store()
    bench.clock.ns += 2_000_000_000
    bench.take()
    assert gone not in bench.sockets.sent
    assert (bench.turn.meters.reads_under_way, bench.turn.meters.adds_under_way) == (0, 0)


def test_tls_begins_once_the_answer_is_sent() -> None:
    bench = Bench()
    client, other = (bench.connect(tls_start=BookieStart(is_required)) for is_required in (True, False))
    for each in (client, other):
        bench.send(each, StartTls(), is_v2=False)
    bench.take()
    assert bench.starting == [client, other]
    assert len(bench.sockets.sent[client]) == 1


def test_bytes_that_come_in_the_turn_of_start_tls_end_the_connection() -> None:
    bench = Bench()
    client = bench.connect(tls_start=BookieStart(is_required=False))
    bench.send(client, StartTls(), is_v2=False)
    bench.send(client, add(1, 0))
    bench.take()
    assert (bench.starting, bool(client.closing), bench.appends) == ([], True, [])


def test_a_connection_that_has_to_begin_tls_has_so_long() -> None:
    bench = Bench()
    strangers = [bench.connect(tls_start=BookieStart(is_required)) for is_required in (True, False)]
    within = bench.connect()
    bench.take()
    bench.send(strangers[0], add(1, 0))
    bench.take()
    assert bench.turn.next_deadline() <= 1_000 + CLEAR_MS
    bench.clock.ns += (CLEAR_MS - 1) * 1_000_000
    bench.take()
    assert not any(each.closing for each in (*strangers, within)), "a request that is refused changes nothing"
    bench.clock.ns += 1_000_000
    bench.take()
    assert [bool(each.closing) for each in (*strangers, within)] == [True, False, False]
