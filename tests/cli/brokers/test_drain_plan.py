"""What `zab broker drain` moves to where."""

from __future__ import annotations

import json

import pytest

from zab.cli.brokers.drain_plan import LINE_BYTES_MAX, Plan, Replicas, leadership_plan, replica_plan, undo_plan


def place(
    partition: int, *replicas: int, leader: int | None = None, in_sync: tuple[int, ...] | None = None
) -> Replicas:
    leads = replicas[0] if leader is None else leader
    return Replicas("t", partition, leads, replicas, frozenset(replicas if in_sync is None else in_sync))


def moved(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {move.place.partition: move.replicas for move in plan.moves}


def test_others_lead_what_a_broker_leads_or_is_preferred_for() -> None:
    places = [place(0, 1, 2, 3), place(1, 2, 1, leader=1), place(2, 1, 2, leader=2), place(3, 2, 1), place(4, 2, 3)]
    found = leadership_plan(places, 1)
    assert moved(found) == {0: (2, 3, 1), 1: (2, 1), 2: (2, 1)}
    assert not found.stuck
    assert all(move.is_of_order for move in found.moves)


def test_a_replica_in_sync_leads() -> None:
    places = [place(0, 1, 2, 3, in_sync=(1, 3)), place(1, 1, 2, in_sync=(1,)), place(2, 1)]
    found = leadership_plan(places, 1)
    assert moved(found) == {0: (3, 2, 1)}
    assert [each.partition for each in found.stuck] == [1, 2]


def test_the_broker_with_fewest_replicas_takes_one() -> None:
    places = [place(0, 1, 2), place(1, 1, 3), place(2, 2, 1), place(3, 2, 3), place(4, 1, 2, 3, 4)]
    found = replica_plan(places, 1, [1, 2, 3, 4])
    assert moved(found) == {0: (2, 4), 1: (3, 4), 2: (2, 3)}
    assert [each.partition for each in found.stuck] == [4]
    assert not any(move.is_of_order for move in found.moves)


def test_only_a_broker_that_runs_takes_a_replica() -> None:
    assert moved(replica_plan([place(0, 1)], 1, [1, 3])) == {0: (3,)}
    assert replica_plan([place(0, 1)], 1, [1]).stuck == (place(0, 1),)


def line(partition: int, *former: int, topic: str = "t") -> str:
    return json.dumps({"topic": topic, "partition": partition, "former": former, "replicas": [9]})


def test_what_was_before_the_first_move_comes_back() -> None:
    places = [place(0, 2, 3, 1), place(1, 2, 1), place(2, 2, 1)]
    lines = [line(0, 1, 2, 3), line(0, 2, 1, 3), line(1, 2, 1), line(7, 1), line(0, 1, topic="gone")]
    assert moved(undo_plan(places, lines)) == {0: (1, 2, 3)}


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "{",
        "[]",
        '{"topic": "t", "partition": 0}',
        line(0),
        line(0, 1, 1),
        line(0, -1),
        '{"topic": "t", "partition": 0, "former": [true]}',
        '{"topic": "t", "partition": 0, "former": "12"}',
        line(0, 1) + " " * LINE_BYTES_MAX,
    ],
)
def test_a_line_that_is_none_of_the_command_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2 is no line of zab broker drain --json$"):
        undo_plan([], [line(0, 1), wrong])
