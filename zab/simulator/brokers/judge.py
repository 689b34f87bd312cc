"""What clients sent and were told, and whether it is right. Rules have the names of the TLA+ model of KIP-966 where it
has one.

    ConsistentReadProperty      one record at one offset, for everybody and for ever
    no duplicates               a record of an idempotent producer has one offset
    producer order              records of one producer for one partition are in the order in which it sent them
    no strange records          every record was sent by somebody, for that partition
    LeaderCompletenessProperty  everything that was promised is there: acknowledged with acks=all, or with acks=1 where
                                there is one replica
    idempotence                 no producer is told of a gap in its sequence that it has not made

What is acknowledged as a promise is below the true high watermark (`observer`).

A promise holds until a loss that the settings allow (`lost`): a topic that is not synced before it is acknowledged may
lose what was not synced when so many machines lose their power at once as have to be in sync.

Not here: what is true inside of the brokers (`observer`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import attrs

from zab.simulator.world.verdict import SafetyError

Key: TypeAlias = tuple[bytes, int]
"""A partition: the id of its topic, and its index. A topic that is created again has another id."""


@attrs.frozen
class Sent:
    """One record that a producer sent, or will have sent."""

    topic: str
    index: int
    line: str
    """Which sequence of records it belongs to, in order; of one producer for one partition."""
    number: int
    """Its place in that sequence."""
    is_idempotent: bool


@attrs.define
class Partition:
    """What is known of one partition."""

    name: str
    records: dict[int, bytes] = attrs.Factory(dict)
    """The value at each offset that anybody was told of."""
    offsets: dict[bytes, int] = attrs.Factory(dict)
    """Where records of idempotent producers are."""
    lines: dict[str, list[tuple[int, int]]] = attrs.Factory(dict)
    """The number and the offset of the known records of each line."""
    promised: dict[int, bytes] = attrs.Factory(dict)
    losses: int = 0
    """How often it has lost records, as its settings allow."""
    is_excused: bool = False
    """Whether several replicas may know different pasts of it, so that nothing is promised of it any longer."""


class Judge:
    """See the docstring of the module."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sent: dict[bytes, Sent] = {}
        self.partitions: dict[Key, Partition] = {}
        self.true_mark: Callable[[Key], int] = lambda _key: 1 << 62
        """Up to where a partition is committed (`Observer`)."""

    def of(self, key: Key) -> Partition:
        """What is known of a partition."""
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = Partition(f"{key[0].hex()[:6]}-{key[1]}")
        return found

    def sends(self, value: bytes, sent: Sent) -> None:
        """A producer begins to send a record."""
        assert value not in self.sent
        self.sent[value] = sent

    def acknowledged(self, key: Key, base_offset: int, values: list[bytes], *, is_promise: bool) -> None:
        """A batch was acknowledged: it begins at this offset. Without `is_promise`, by its leader alone: the next one
        may have other records there."""
        partition = self.of(key)
        self.counts["records acknowledged"] += len(values)
        if partition.is_excused:
            return
        mark = self.true_mark(key)
        if is_promise and not partition.losses and base_offset + len(values) > mark:
            text = f"{_short(values[-1])} at {base_offset} of {partition.name} is acknowledged, {mark} are committed"
            raise SafetyError("LeaderCompletenessProperty", text)
        for offset, value in enumerate(values, base_offset):
            if is_promise:
                self._note(partition, offset, value, "is acknowledged")
                partition.promised[offset] = value

    def consumed(self, key: Key, offset: int, value: bytes) -> None:
        """A consumer was given a record."""
        self.counts["records consumed"] += 1
        partition = self.of(key)
        if not partition.is_excused:
            self._note(partition, offset, value, "is read")

    def _note(self, partition: Partition, offset: int, value: bytes, how: str) -> None:
        known = partition.records.get(offset)
        if known is not None:
            if known != value:
                text = f"{_short(value)} {how} at {offset} of {partition.name}, where {_short(known)} was"
                raise SafetyError("ConsistentReadProperty", text)
            return
        sent = self.sent.get(value)
        if sent is None:
            raise SafetyError("no strange records", f"{_short(value)} {how} at {offset} of {partition.name}")
        partition.records[offset] = value
        if sent.is_idempotent:
            self._note_idempotent(partition, offset, value, sent)

    def _note_idempotent(self, partition: Partition, offset: int, value: bytes, sent: Sent) -> None:
        before = partition.offsets.setdefault(value, offset)
        if before != offset:
            text = f"{_short(value)} is at {before} and at {offset} of {partition.name}"
            raise SafetyError("no duplicates", text)
        line = partition.lines.setdefault(sent.line, [])
        at = bisect_left(line, (sent.number, offset))
        if (at and line[at - 1][1] > offset) or (at < len(line) and line[at][1] < offset):
            raise SafetyError("producer order", f"{_short(value)} is at {offset} of {partition.name}: {line}")
        insort(line, (sent.number, offset))

    def gap(self, key: Key, value: bytes, error: str) -> None:
        """A producer was told that records before this one are missing, all of which were acknowledged to it."""
        partition = self.of(key)
        if not partition.losses:
            raise SafetyError("idempotence", f"{_short(value)} for {partition.name} is answered with {error}")
        self.counts["gaps after losses"] += 1

    def lost(self, key: Key, end: int, *, is_shared: bool = False) -> None:
        """The partition has lost what was at this offset and above, as its settings allow. `is_shared`: it has several
        replicas, some of which may still have that."""
        partition = self.of(key)
        partition.losses += 1
        partition.is_excused = partition.is_excused or is_shared
        if is_shared:
            self.counts["partitions that lost what was committed, as the settings allow"] += 1
        lost = [offset for offset in partition.records if offset >= end]
        self.counts["records lost, as the settings allow"] += len(lost)
        for offset in lost:
            value = partition.records.pop(offset)
            partition.promised.pop(offset, None)
            partition.offsets.pop(value, None)
        for line in partition.lines.values():
            line[:] = [each for each in line if each[1] < end]

    def whole(self, key: Key, found: dict[int, bytes], end: int) -> None:
        """At the end the whole partition was read, up to `end`: it has these records, by their offsets. Others may have
        read further since."""
        partition = self.of(key)
        self.counts["partitions read whole"] += 1
        if partition.is_excused:
            return
        missing = [offset for offset in partition.promised if offset not in found]
        if missing:
            text = f"{_short(partition.promised[missing[0]])} at {missing[0]} of {partition.name} is gone"
            raise SafetyError("LeaderCompletenessProperty", text)
        unseen = [offset for offset in partition.records if offset < end and offset not in found]
        if unseen:
            text = f"{_short(partition.records[unseen[0]])} was at {unseen[0]} of {partition.name}, and is gone"
            raise SafetyError("ConsistentReadProperty", text)


def _short(value: bytes) -> str:
    """The name of a record, which is what its value begins with."""
    return value.split(b" ", 1)[0].decode()
