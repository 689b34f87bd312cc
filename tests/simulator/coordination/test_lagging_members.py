"""Members of the simulated coordination service that lag: what a session reads, and when its watches fire."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs
import pytest

from zab.coordination.operations import Children, Create, Delete, Exists, Get, Operation, Result, Set, Sync
from zab.simulator.coordination.service import Answered, Ask, Connection, CoordinationService, Fired, Hello
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

LAG = 5


@attrs.define(eq=False)
class Caller:
    service: CoordinationService
    schedule: Schedule
    number: int
    heard: list[object] = attrs.Factory(list)
    connection: Connection | None = None

    def receive(self, connection: Connection, message: object) -> None:
        self.heard.append(message)

    def begin(self) -> Caller:
        self.connection = self.service.connect(self)
        self.send(Hello(0, 10_000 * MS, 0))
        return self

    def send(self, message: object) -> None:
        assert self.connection is not None
        self.connection.to_service.send(message, 100)
        self.schedule.run_until(self.schedule.now + 100 * MS)

    def ask(self, operation: Operation) -> Result:
        self.send(Ask(1, (operation,)))
        return next(each for each in reversed(self.heard) if isinstance(each, Answered)).results[0]

    @property
    def fired(self) -> list[str]:
        return [each.path for each in self.heard if isinstance(each, Fired)]


class Lagging(Random):
    """As far behind as possible."""

    def randint(self, a: int, b: int) -> int:
        return b


@pytest.fixture
def two() -> tuple[Caller, Caller]:
    schedule = Schedule()
    network = Network(schedule, Random(1), 1000, 0)
    counts = Counter[str]()
    service = CoordinationService(
        *(schedule, network, Trace(schedule), Lagging(1)),
        operation_us=100,
        count=lambda what: counts.update([what]),
        lag=LAG,
    )
    return Caller(service, schedule, 1).begin(), Caller(service, schedule, 2).begin()


def test_a_read_is_old_until_the_session_syncs(two: tuple[Caller, Caller]) -> None:
    writer, reader = two
    writer.ask(Create("/a", b"0"))
    reader.ask(Sync("/a"))
    for number in range(1, 4):
        writer.ask(Set("/a", b"%d" % number))
    assert reader.ask(Get("/a")).data == b"0"
    assert writer.ask(Get("/a")).data == b"3"
    reader.ask(Sync("/a"))
    assert reader.ask(Get("/a")).data == b"3"


def test_a_read_is_at_most_so_many_writes_old(two: tuple[Caller, Caller]) -> None:
    writer, reader = two
    writer.ask(Create("/a", b"0"))
    for number in range(1, 10):
        writer.ask(Set("/a", b"%d" % number))
    assert reader.ask(Get("/a")).data == b"%d" % (9 - LAG)


def test_a_znode_that_is_new_or_gone_is_not_seen_so(two: tuple[Caller, Caller]) -> None:
    writer, reader = two
    writer.ask(Create("/a"))
    reader.ask(Sync("/"))
    writer.ask(Create("/a/b"))
    assert reader.ask(Children("/a")).children == ()
    assert reader.ask(Exists("/a/b")).is_missing
    reader.ask(Sync("/"))
    writer.ask(Delete("/a/b"))
    assert reader.ask(Children("/a")).children == ("b",)
    assert reader.ask(Get("/a/b")).ok


def test_what_a_session_wrote_it_reads(two: tuple[Caller, Caller]) -> None:
    writer, reader = two
    writer.ask(Create("/a", b"0"))
    writer.ask(Set("/a", b"1"))
    reader.ask(Create("/b"))
    assert reader.ask(Get("/a")).data == b"1"


@pytest.mark.parametrize("read", [Get("/a", watch=True), Exists("/a", watch=True), Children("/a", watch=True)])
def test_a_watch_on_an_old_state_fires_at_once_and_brings_the_new_one(
    two: tuple[Caller, Caller], read: Get | Exists | Children
) -> None:
    writer, reader = two
    writer.ask(Create("/a"))
    reader.ask(Sync("/a"))
    writer.ask(Create("/a/b") if isinstance(read, Children) else Set("/a", b"1"))
    old = reader.ask(read)
    assert reader.fired == ["/a"]
    assert reader.ask(attrs.evolve(read, watch=False)) != old
    writer.ask(Create("/a/c") if isinstance(read, Children) else Set("/a", b"2"))
    assert reader.fired == ["/a"]
