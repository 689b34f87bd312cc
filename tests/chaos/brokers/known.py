"""What a history says of each partition, each value and each transaction: the ground on which the rules stand."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from math import inf

from attrs import define, evolve, field, frozen

from tests.chaos.brokers.history import Commit, History, Outcome, Partition, Send, Transaction


@define(slots=False)
class Log:
    """One partition, as far as anybody was told of it."""

    values: dict[int, set[str]] = field(factory=lambda: defaultdict(set))
    offsets: dict[str, set[int]] = field(factory=lambda: defaultdict(set))
    seen: set[str] = field(factory=set)
    """What consumers with read_committed were given."""
    highest_seen: int = -1
    visible: set[str] = field(factory=set)

    def note(self, offset: int, value: str) -> None:
        self.values[offset].add(value)
        self.offsets[value].add(offset)

    @cached_property
    def in_order(self) -> list[tuple[int, str]]:
        """Everything with an offset."""
        return sorted((offset, value) for offset, values in self.values.items() for value in values)

    @cached_property
    def _visible_offsets(self) -> list[tuple[int, str]]:
        return [each for each in self.in_order if each[1] in self.visible]

    def visible_between(self, begin: int, end: int) -> list[str]:
        """What every consumer has to be given from `begin` on and before `end`."""
        found = self._visible_offsets
        return [value for _, value in found[bisect_left(found, (begin, "")) : bisect_left(found, (end, ""))]]


@frozen
class Known:
    """See the docstring of the module. Everything has been gathered before a rule asks."""

    history: History
    sends: dict[str, Send]
    transactions: dict[str, Transaction]
    logs: dict[Partition, Log]
    seen_transactions: set[str]
    """Some value of theirs was seen with read_committed."""

    @classmethod
    def of(cls, history: History) -> Known:
        sends: dict[str, Send] = {}
        for send in history.sends:
            assert send.value not in sends, f"sent twice: {send}"
            sends[send.value] = send
        transactions = {each.name: each for each in history.transactions}
        known = cls(history, sends, transactions, defaultdict(Log), set())
        for send in history.sends:
            if send.offset is not None:
                known.logs[send.partition].note(send.offset, send.value)
        read = [(record, poll.is_committed) for poll in history.polls for record in poll.records]
        read += [(record, True) for records in history.ends.values() for record in records]
        for record, is_committed in read:
            log = known.logs[record.partition]
            log.note(record.offset, record.value)
            if is_committed:
                log.seen.add(record.value)
                log.highest_seen = max(log.highest_seen, record.offset)
                found = sends.get(record.value)
                if found is not None and found.transaction is not None:
                    known.seen_transactions.add(found.transaction)
        for log in known.logs.values():
            log.visible.update(value for value in log.offsets if known.is_visible(value))
        return known

    def outcome(self, send: Send) -> Outcome:
        """What became of it, with its transaction."""
        if send.transaction is None or send.outcome is Outcome.FAIL:
            return send.outcome
        if self._outcome_of(send.transaction) is Outcome.FAIL:
            return Outcome.FAIL
        is_committed = self._outcome_of(send.transaction) is Outcome.OK
        return send.outcome if is_committed else Outcome.INFO

    def _outcome_of(self, transaction: str) -> Outcome:
        found = self.transactions.get(transaction)
        outcome = Outcome.INFO if found is None else found.outcome
        return Outcome.OK if outcome is Outcome.INFO and transaction in self.seen_transactions else outcome

    def is_visible(self, value: str) -> bool:
        """Whether every consumer has to see it: it was promised, or one has seen it."""
        send = self.sends.get(value)
        if send is None:
            return False
        outcome = self.outcome(send)
        return outcome is Outcome.OK or (outcome is Outcome.INFO and value in self.logs[send.partition].seen)

    def place(self, send: Send) -> int | None:
        """Its offset; None if nobody was told of it."""
        log = self.logs.get(send.partition)
        offsets = None if log is None else log.offsets.get(send.value)
        return min(offsets) if offsets else None

    def settled(self, commit: Commit) -> Commit:
        """With the outcome and the end of its transaction."""
        if commit.transaction is None or commit.outcome is Outcome.FAIL:
            return commit
        found = self.transactions.get(commit.transaction)
        end = inf if found is None else found.end
        return evolve(commit, outcome=self._outcome_of(commit.transaction), end=end)
