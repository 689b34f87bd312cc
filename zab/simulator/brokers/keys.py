"""What is written and read of topics that are compacted, and whether it is right.

    the last value of each key survives     a consumer that reads from the beginning to the end is given, for each key,
                                            a record that is not older than what was acknowledged before it began
    tombstones stay for their time          also a tombstone, unless it may be gone by now
    ConsistentReadProperty                  one record at one offset, for ever; compaction only takes records away
    key order                               the records of a key are in the order of their sending

Each key has one writer, so its records have numbers. A tombstone may be gone where `delete.retention.ms` is over; a
consumer that had read an older value before may then miss it, and has to read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from zab.partition.records.record import Record
from zab.simulator.brokers.judge import Judge
from zab.simulator.world.verdict import SafetyError

NUMBER: Final = "number"
"""The header that says which write of its key a record is."""


@attrs.define(eq=False)
class KeyState:
    """One key of one partition."""

    sent: list[bool] = attrs.Factory(list)
    """Whether each write is a tombstone, by its number."""
    acknowledged: int = -1
    """The newest write that was acknowledged."""
    offset: int = -1
    """Where that is."""


@attrs.frozen
class Expectation:
    """What a consumer that begins now has to find: the newest acknowledged write of each key."""

    numbers: Mapping[bytes, int]
    end: int
    """The offset after the last of them. A new leader may say for a while that the partition ends before it."""


class KeyJudge:
    """See the docstring of the module."""

    def __init__(self, judge: Judge, *, keeps_tombstones: bool) -> None:
        """`keeps_tombstones`: no tombstone may be gone within a run."""
        self.judge = judge
        self._keeps_tombstones = keeps_tombstones
        self._keys: dict[int, dict[bytes, KeyState]] = {}
        """By partition."""
        self._records: dict[tuple[int, int], tuple[bytes, int]] = {}
        """By partition and offset: key and number."""

    def sends(self, index: int, key: bytes, *, is_tombstone: bool) -> int:
        """A producer writes a key; the number of the write."""
        state = self._keys.setdefault(index, {}).setdefault(key, KeyState())
        state.sent.append(is_tombstone)
        return len(state.sent) - 1

    def acknowledged(self, index: int, key: bytes, number: int, offset: int) -> None:
        """The write was acknowledged, and is at this offset."""
        state = self._keys[index][key]
        state.acknowledged, state.offset = number, offset
        self._note(index, offset, key, number)
        self.judge.counts["writes of keys acknowledged"] += 1

    def expectation(self, index: int) -> Expectation:
        """To be taken when a consumer begins: the newest acknowledged write of each key."""
        known = {key: state for key, state in self._keys.get(index, {}).items() if state.acknowledged >= 0}
        end = max((state.offset + 1 for state in known.values()), default=0)
        return Expectation({key: state.acknowledged for key, state in known.items()}, end)

    def seen(self, index: int, record: Record) -> tuple[bytes, int]:
        """A consumer was given this record; its key and number."""
        assert record.key is not None
        key, number = bytes(record.key), int(dict(record.headers)[NUMBER] or b"-1")
        state = self._keys.get(index, {}).get(key)
        if state is None or not 0 <= number < len(state.sent):
            raise SafetyError("no strange records", f"{key!r} {number} is at {record.offset} of {index}")
        if state.sent[number] != (record.value is None):
            raise SafetyError("ConsistentReadProperty", f"{key!r} {number} has another value")
        self._note(index, record.offset, key, number)
        self.judge.counts["records of keys read"] += 1
        return key, number

    def _note(self, index: int, offset: int, key: bytes, number: int) -> None:
        before = self._records.setdefault((index, offset), (key, number))
        if before != (key, number):
            text = f"{key!r} {number} is at {offset} of {index}, where {before} was"
            raise SafetyError("ConsistentReadProperty", text)

    def passed(self, index: int, expected: Expectation, last: Mapping[bytes, int]) -> bool:
        """A consumer has read from the beginning to `expected.end` at least: `last` is the newest write that it was
        given, by key. False: it has to read again, since it may have missed a tombstone."""
        self.judge.counts["passes over keys"] += 1
        is_good = True
        for key, number in expected.numbers.items():
            found = last.get(key, -1)
            if found >= number:
                continue
            may_be_gone = not self._keeps_tombstones and any(self._keys[index][key].sent[number:])
            if not may_be_gone:
                text = f"of {key!r} in {index} write {number} is acknowledged, and {found} is the last one read"
                raise SafetyError("the last value of each key survives", text)
            self.judge.counts["tombstones gone"] += 1
            is_good = is_good and found < 0
        return is_good
