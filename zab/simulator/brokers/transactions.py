"""What transactional producers were told, and what consumers see that read committed, and whether it is right.

    aborted is never seen       a record is seen only if its producer has asked to commit its transaction
    all or none                 of the acknowledged records of a transaction, in all its partitions
    commits count               what its producer was told is committed is seen
    ConsistentReadProperty      one record at one offset, for everybody and for ever; and each record once
    producer order              records of one transactional id for one partition are in the order of their sending
    ClientsHaveDifferentProducerEpochs   no epoch is given to two producers
    below the last stable offset         consumers are given nothing at it or above
    no hanging transaction      at the end nothing holds consumers back
    exactly once                each record that a transformer reads has one committed result

A transaction whose outcome its producer does not know may be either, but whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from zab.simulator.brokers.judge import Judge, Key
from zab.simulator.world.verdict import SafetyError

Source = tuple[str, int, int]
"""A record that a transformer reads: topic, partition, offset."""


@attrs.define(eq=False)
class Attempt:
    """A transaction, as its producer knows it."""

    name: str
    """Its transactional id and its number."""
    number: int
    sent: dict[bytes, Source | None] = attrs.Factory(dict)
    """Values, and what they are made of."""
    indexes: set[int] = attrs.Factory(set)
    """The partitions of its topic that it has."""
    known: set[bytes] = attrs.Factory(set)
    """The acknowledged values."""
    has_asked: bool = False
    """Whether a request to commit may have been sent."""
    may_commit: bool = True
    """Unless it is known that nobody has asked for that with success."""
    has_committed: bool = False
    """Its producer was told so."""

    def value(self, source: Source | None, size_bytes: int) -> bytes:
        """A new value."""
        value = f"{self.name}.{len(self.sent)} ".encode() + bytes(size_bytes)
        self.sent[value] = source
        return value


class TransactionJudge:
    """See the docstring of the module."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.attempts: list[Attempt] = []
        self._owners: dict[bytes, Attempt] = {}
        self._given: dict[tuple[int, int], str] = {}
        self._seen: dict[Key, dict[int, bytes]] = {}
        self._offsets: dict[bytes, tuple[Key, int]] = {}
        self._results: dict[tuple[str, Source], bytes] = {}
        """The committed results of each transformer that anybody saw."""

    def begins(self, transactional_id: str) -> Attempt:
        """A producer begins a transaction."""
        number = len(self.attempts)
        self.attempts.append(Attempt(f"{transactional_id}/{number}", number))
        return self.attempts[-1]

    def sends(self, attempt: Attempt, source: Source | None, size_bytes: int) -> bytes:
        """A producer makes a new record."""
        value = attempt.value(source, size_bytes)
        self._owners[value] = attempt
        return value

    def given(self, process: str, producer_id: int, epoch: int) -> None:
        """A process has this producer id and epoch: no other one may."""
        before = self._given.setdefault((producer_id, epoch), process)
        if before != process:
            text = f"{producer_id}, epoch {epoch} is given to {before} and to {process}"
            raise SafetyError("ClientsHaveDifferentProducerEpochs", text)

    def committed(self, attempt: Attempt) -> None:
        """Its producer was told that it is committed."""
        attempt.has_committed = True
        self.judge.counts["transactions committed"] += 1

    # --------------------------------------------------------------------------------------------------------- reading

    def seen(self, key: Key, offset: int, value: bytes) -> None:
        """A consumer that reads committed was given this record."""
        self.judge.counts["committed records read"] += 1
        attempt = self._owners.get(value)
        if attempt is None:
            raise SafetyError("no strange records", f"{_short(value)} is at {offset}")
        if not attempt.has_asked or not attempt.may_commit:
            raise SafetyError("aborted is never seen", f"{_short(value)} is seen at {offset}")
        before = self._seen.setdefault(key, {}).setdefault(offset, value)
        if before != value:
            raise SafetyError("ConsistentReadProperty", f"{_short(value)} is at {offset}, where {_short(before)} was")
        place = self._offsets.setdefault(value, (key, offset))
        if place != (key, offset):
            raise SafetyError("no duplicates", f"{_short(value)} is at {place[1]} and at {offset}")
        source = attempt.sent[value]
        if source is not None:
            result = self._results.setdefault((attempt.name.split("/")[0].split(".")[0], source), value)
            if result != value:
                raise SafetyError("exactly once", f"{source} has the results {_short(result)} and {_short(value)}")

    def whole(self, key: Key, found: Mapping[int, bytes]) -> None:
        """At the end the whole partition was read."""
        lost = [offset for offset in self._seen.get(key, {}) if offset not in found]
        if lost:
            value = self._seen[key][lost[0]]
            raise SafetyError("ConsistentReadProperty", f"{_short(value)} was at {lost[0]}, and is gone")
        last: dict[str, tuple[int, int]] = {}
        for offset in sorted(found):
            attempt = self._owners[found[offset]]
            order = (attempt.number, list(attempt.sent).index(found[offset]))
            name = attempt.name.rpartition("/")[0]
            if last.get(name, (-1, -1)) >= order:
                raise SafetyError("producer order", f"{_short(found[offset])} is at {offset}, after {last[name]}")
            last[name] = order
        self.judge.counts["partitions of transactions read whole"] += 1

    def at_the_end(self) -> None:
        """Every partition was read whole."""
        for attempt in self.attempts:
            found = {value for value in attempt.sent if value in self._offsets}
            if (found or attempt.has_committed) and not attempt.known <= found:
                missing = ", ".join(sorted(map(_short, attempt.known - found)))
                rule = "all or none" if found else "commits count"
                raise SafetyError(rule, f"of transaction {attempt.name} {missing} are missing")

    def unread(self, transformer: str, sources: set[Source]) -> int:
        """How many of these records a transformer has no committed result for that anybody saw."""
        return sum((transformer, source) not in self._results for source in sources)


def _short(value: bytes) -> str:
    """The name of a record, which is what its value begins with."""
    return value.split(b" ", 1)[0].decode()
