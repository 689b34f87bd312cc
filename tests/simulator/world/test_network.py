"""Wires: in order whatever the delays; what is blocked waits; what is urgent overtakes only what has not left."""

from random import Random

import pytest

from zab.simulator.world.network import Network, Wire
from zab.simulator.world.schedule import MS, Schedule


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


@pytest.fixture
def network(schedule: Schedule) -> Network:
    return Network(schedule, Random(1), 100, 5000)


def wire_of(network: Network, got: list[object]) -> Wire:
    return Wire(network, (1, 2), got.append)


def test_a_wire_keeps_its_order(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    wire = wire_of(network, got)
    for number in range(50):
        wire.send(number, 10)
        schedule.run_until(schedule.now + 300)
    schedule.run_until(schedule.now + 20 * MS)
    assert got == list(range(50))


def test_without_order_items_arrive_when_their_own_delays_are_over(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    network.keeps_order = False
    wire = wire_of(network, got)
    for number in range(50):
        wire.send(number, 10)
    schedule.run_until(schedule.now + 20 * MS)
    assert sorted(got, key=lambda item: int(str(item))) == list(range(50))
    assert got != list(range(50))


def test_what_is_blocked_arrives_after_it_is_healed(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    wire = wire_of(network, got)
    network.block(1, 2)
    wire.send("a", 1)
    wire.send("b", 1)
    schedule.run_until(1000 * MS)
    assert not got
    assert wire.queued_bytes == 2
    network.unblock(1, 2)
    schedule.run_until(2000 * MS)
    assert got == ["a", "b"]
    assert not wire.queued_bytes


def test_one_direction_may_be_blocked_alone(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    network.block(2, 1)
    wire_of(network, got).send("a", 1)
    schedule.run_until(100 * MS)
    assert got == ["a"]
    assert not network.reaches(1, 2)


def test_urgent_items_overtake_what_waits(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    wire = wire_of(network, got)
    network.slow[1, 2] = (0, 10)
    for number in range(5):
        wire.push(number, 100)
    wire.flush()
    wire.push("urgent", 1, urgent=True)
    wire.flush()
    schedule.run_until(1000 * MS)
    assert got == [0, "urgent", 1, 2, 3, 4]


def test_a_wire_that_is_cut_delivers_nothing_more(schedule: Schedule, network: Network) -> None:
    got: list[object] = []
    wire = wire_of(network, got)
    wire.send("a", 1)
    wire.cut()
    wire.send("b", 1)
    schedule.run_until(100 * MS)
    assert not got


def test_things_due_at_one_moment_happen_in_the_order_in_which_they_were_asked_for(schedule: Schedule) -> None:
    got: list[int] = []
    for number in range(10):
        schedule.at(5, got.append, number)
    schedule.after(1, got.append, -1)
    schedule.run_until(5)
    assert got == [-1, *range(10)]
