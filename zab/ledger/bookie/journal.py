"""What is on its way into the journal, and the answers that wait until it is durable.

    envelopes, records      what this turn appends; `take` makes one append of it
    wait(…)                 an answer for when everything that was appended so far, this turn's included, is durable
    durable(number)         the answers that may go now

Everything of one turn is one append, and the log thread makes one frame of all that wait: groups grow with the load.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from zab.ledger.bookie.events import AppendJournal, Connection, Mark, Number
from zab.ledger.bookie.records import entries_head
from zab.ledger.wire.messages import Answer

Waiting: TypeAlias = tuple[Connection, Number, Answer]
"""An answer, its connection and the number of its request."""


class Journal:
    """The journal as the core knows it."""

    def __init__(self, mark: Mark) -> None:
        self.envelopes: list[bytes] = []
        """Entries of this turn. The caller adds their bytes to `turn_bytes`."""
        self.records: list[bytes] = []
        """Other records of this turn."""
        self.waiting: list[Waiting] = []
        """Answers of this turn."""
        self.turn_bytes = 0
        self.pending_bytes = 0
        """Bytes of entries that are not durable yet, without those of this turn."""
        self.mark = mark
        """Where its durable part ends."""
        self.durable_number = 0
        self._number = 0
        self._appends: deque[tuple[int, int, list[Waiting]]] = deque()
        """Number, bytes and answers of each append that is on its way."""

    @property
    def next_number(self) -> int:
        """The number of the append that this turn makes."""
        return self._number + 1

    def wait(self, connection: Connection, number: Number, answer: Answer) -> None:
        """Answer when everything that was appended so far is durable."""
        self.waiting.append((connection, number, answer))

    def take(self) -> tuple[AppendJournal | None, list[Waiting]]:
        """The append of this turn, and the answers that need not wait."""
        waiting, self.waiting = self.waiting, []
        if not (self.envelopes or self.records):
            if not self._appends:
                return None, waiting
            self._appends[-1][2].extend(waiting)
            return None, []
        self._number += 1
        parts = self.records
        if self.envelopes:
            parts.append(entries_head(self.envelopes))
            parts += self.envelopes
            self.envelopes = []
        self.records = []
        self._appends.append((self._number, self.turn_bytes, waiting))
        self.pending_bytes += self.turn_bytes
        self.turn_bytes = 0
        return AppendJournal(self._number, parts), []

    def durable(self, number: int, mark: Mark) -> list[Waiting]:
        """Everything up to this append is durable, and the journal ends at `mark`."""
        assert number <= self._number
        assert mark >= self.mark, f"the journal went back from {self.mark} to {mark}"
        self.durable_number, self.mark = number, mark
        found: list[Waiting] = []
        while self._appends and self._appends[0][0] <= number:
            _, size, waiting = self._appends.popleft()
            self.pending_bytes -= size
            if found:
                found += waiting
            else:
                found = waiting
        return found
