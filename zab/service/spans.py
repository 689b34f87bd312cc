"""Spans of tracing: for one in so many writes of this server's clients, from when it was read to when it was answered.

What is answered is committed, and applied here. Which writes are chosen is counted and not drawn, so that a run of the
simulator repeats itself. A write that is not chosen costs one addition.

Not here: who is told of them (`zab.server.tracing`).
"""

from __future__ import annotations

import attrs

SPANS_MAX = 200
"""Of one turn, a few milliseconds of work for whoever tells of them; there are none of more writes."""


@attrs.frozen
class Span:
    """One write. Times are monotonic ms of this member."""

    operation: int
    """A `datatree.opcodes.OpCode`."""
    session: int
    xid: int
    zxid: int
    error: int
    """An `datatree.errors.ErrorCode`; 0: it is done."""
    began: int
    ended: int


@attrs.define
class Spans:
    """What was chosen in this turn."""

    ratio: float
    """Of the writes, from 0 to 1."""
    taken: list[Span] = attrs.Factory(list)
    _due: float = 0.0

    @classmethod
    def of(cls, ratio: float) -> Spans | None:
        """None: nothing is traced."""
        return cls(ratio) if ratio else None

    def answered(self, operation: int, session: int, xid: int, zxid: int, error: int, began: int, ended: int) -> None:
        """A write is answered."""
        self._due += self.ratio
        if self._due < 1:
            return
        self._due -= 1
        if len(self.taken) < SPANS_MAX:
            self.taken.append(Span(operation, session, xid, zxid, error, began, ended))

    def take(self) -> list[Span]:
        """Those since this was asked last."""
        taken, self.taken = self.taken, []
        return taken
