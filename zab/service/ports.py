"""The ports that the turns of every service have: clocks, the operator, the audit log, the collector of spans.

None of them waits. Not here: ports of one service (`zab.member.ports` are those of a member).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from zab.service.audit import Record
from zab.service.spans import Span


class Clock(Protocol):
    """The two clocks, and what turns cost."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment; never falls."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def processor_ns(self) -> int:
        """Nanoseconds of processor time that the thread of the turns has had; where nobody counts it, 0."""
        ...


class Operator(Protocol):
    """The journal, which the operator reads, and the end of the process."""

    def trace(self, text: str) -> None:
        """Say what happened and why."""
        ...

    def warn(self, text: str) -> None:
        """Say something that needs the operator's attention."""
        ...

    def error(self, sentence: str, **pairs: object) -> None:
        """Say something that the operator has to know; `pairs` are its details."""
        ...

    def stop(self, reason: str) -> None:
        """End the process: the service must not go on."""
        ...


class Audit(Protocol):
    """The audit log."""

    def write(self, records: Iterable[Record]) -> None:
        """Write the records in their order. Records that cannot be written are counted, and the count is reported."""
        ...


class Tracing(Protocol):
    """The collector of spans."""

    def export(self, spans: Sequence[Span]) -> None:
        """Hand the spans over, without waiting."""
        ...
