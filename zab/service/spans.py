"""Tracing spans: a sample of the operations of this server's clients, each from when it was read to its answer.

The sample is counted rather than random, so that a run of the simulator is reproducible. An operation that is not
sampled costs one addition.

Not here: where spans are exported (`zab.host.journal.tracing`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

SPANS_MAX = 200
"""At most this many in a turn, which is a few milliseconds of work for the exporter; further writes get none."""


@attrs.frozen
class Span:
    """One operation. Times are this server's monotonic clock, in ms."""

    operation: str
    attributes: Mapping[str, str | int]
    error: str
    """The name of the error that was answered; empty on success."""
    began: int
    ended: int


@attrs.define
class Spans:
    """The spans of this turn."""

    ratio: float
    """The share of operations to sample, from 0 to 1."""
    taken: list[Span] = attrs.Factory(list)
    _due: float = 0.0

    @classmethod
    def of(cls, ratio: float) -> Spans | None:
        """None if nothing is traced."""
        return cls(ratio) if ratio else None

    def samples_next(self) -> bool:
        """Count one operation, and say whether to `add` its span."""
        self._due += self.ratio
        if self._due < 1:
            return False
        self._due -= 1
        return len(self.taken) < SPANS_MAX

    def add(self, span: Span) -> None:
        self.taken.append(span)

    def take(self) -> list[Span]:
        """Return the spans since the last call."""
        taken, self.taken = self.taken, []
        return taken
