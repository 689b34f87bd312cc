"""The assignors give what Kafka's own give, for groups that change.

The lines of `tests/testdata/kafka/assignors.txt` are what the `UniformAssignor` and the `RangeAssignor` of Kafka 4.1.0
gave: `assignor is_even topic:count,… member|instance|topics|owned|target …`, members and topics in the order in which
they were served. In each run of lines a group changes, and owns what it was given before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import ASSIGNORS, MemberSpec, Target

FILE = Path(__file__).parents[2] / "testdata" / "kafka" / "assignors.txt"
LINES = FILE.read_text(encoding="utf-8").splitlines()


def topic_id(number: int) -> Uuid:
    """Some are negative for Java."""
    return Uuid((0x1000 * (number % 3 - 1)).to_bytes(8, "big", signed=True) + number.to_bytes(8, "big"))


def partitions(text: str) -> dict[Uuid, frozenset[int]]:
    """`topic:index.index;…`"""
    pairs = (each.split(":") for each in text.split(";") if each)
    return {topic_id(int(topic)): frozenset(map(int, indexes.split("."))) for topic, indexes in pairs}


def assigned(line: str) -> tuple[Target, Target]:
    """What ours gives, and what Kafka's gave."""
    name, is_even, topics, *members = line.split(" ")
    counts = {topic_id(int(topic)): int(count) for topic, count in (each.split(":") for each in topics.split(","))}
    specs: dict[str, MemberSpec] = {}
    expected: Target = {}
    for member in members:
        member_id, instance, subscribed, owned, target = member.split("|")
        wanted = frozenset(topic_id(int(each)) for each in subscribed.split(",") if each)
        specs[member_id] = MemberSpec(instance or None, wanted, partitions(owned))
        expected[member_id] = partitions(target)
    return ASSIGNORS[name](specs, counts, is_even == "1"), expected


@pytest.mark.parametrize("name", ["uniform 1", "uniform 0", "range 1", "range 0"])
def test_the_target_is_that_of_kafka(name: str) -> None:
    chosen = [line for line in LINES if line.startswith(name)]
    assert len(chosen) > 50
    for line in chosen:
        ours, theirs = assigned(line)
        assert ours == theirs, line


def test_every_partition_has_one_member_that_subscribes_to_it() -> None:
    for line in LINES:
        target, _ = assigned(line)
        counts = line.split(" ")[2].split(",")
        subscribed = {each for member in line.split(" ")[3:] for each in member.split("|")[2].split(",")}
        given = [(topic, index) for own in target.values() for topic, indexes in own.items() for index in indexes]
        assert len(given) == len(set(given))
        assert len(given) == sum(int(each.split(":")[1]) for each in counts if each.split(":")[0] in subscribed)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_and_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}, True) == {}
    nothing: Mapping[Uuid, frozenset[int]] = {}
    alone = {"a": MemberSpec(None, frozenset(), nothing)}
    assert ASSIGNORS[name](alone, {}, True) == {"a": {}}
