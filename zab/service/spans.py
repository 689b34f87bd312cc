"""Tracing spans: a sample of the writes of this server's clients, each from when it was read to when it was answered.

A write that was answered is committed, and applied here. The sample is counted rather than random, so that a run of the
simulator is reproducible. A write that is not sampled costs one addition.

Not here: where spans are exported (`zab.server.tracing`).
"""

from __future__ import annotations

import attrs

SPANS_MAX = 200
"""At most this many in a turn, which is a few milliseconds of work for the exporter; further writes get none."""


@attrs.frozen
class Span:
    """One write. Times are this member's monotonic clock, in ms."""

    operation: int
    """An `datatree.opcodes.OpCode`."""
    session: int
    xid: int
    zxid: int
    error: int
    """An `datatree.errors.ErrorCode`; 0 on success."""
    began: int
    ended: int


@attrs.define
class Spans:
    """The spans of this turn."""

    ratio: float
    """The share of writes to sample, from 0 to 1."""
    taken: list[Span] = attrs.Factory(list)
    _due: float = 0.0

    @classmethod
    def of(cls, ratio: float) -> Spans | None:
        """None if nothing is traced."""
        return cls(ratio) if ratio else None

    def answered(self, operation: int, session: int, xid: int, zxid: int, error: int, began: int, ended: int) -> None:
        """Note that a write was answered."""
        self._due += self.ratio
        if self._due < 1:
            return
        self._due -= 1
        if len(self.taken) < SPANS_MAX:
            self.taken.append(Span(operation, session, xid, zxid, error, began, ended))

    def take(self) -> list[Span]:
        """Return the spans since the last call."""
        taken, self.taken = self.taken, []
        return taken
