"""Orders that cannot all hold: cycles of what depends on what.

An edge leads from what comes first:

    log         from a send to the next one in the partition (ww)
    read        from a send to a poll with read_committed that was given it (wr)
    real time   from what had ended to what began after that

In the first two graphs each send and each poll stands for itself. In the third a transaction is one with all that it
has sent and polled, so that two which have read from each other are a cycle; the order of the log says nothing there,
since Kafka lets transactions write beside each other.

Of each graph the first cycle that is found is told. Real time needs no edge for each pair: all completed operations
lead to a point of time, which leads to those that begin later, and to the next point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import inf
from typing import TypeAlias

from attrs import define, field

from tests.chaos.brokers.history import Operation, Poll, Send
from tests.chaos.brokers.known import Known
from tests.chaos.checker import Violation

Name: TypeAlias = str | int
"""An operation or a transaction; a number is a point of time."""
Naming: TypeAlias = Callable[[Send | Poll], str]


@define
class _Graph:
    before: dict[Name, set[Name]] = field(factory=lambda: defaultdict(set))

    def edge(self, first: Name, then: Name) -> None:
        if first != then:
            self.before[then].add(first)

    def log(self, known: Known, naming: Naming) -> None:
        for log in known.logs.values():
            firsts = [value for offset, value in log.in_order if offset == min(log.offsets[value])]
            placed = [known.sends[value] for value in firsts if value in known.sends]
            for first, then in pairwise(placed):
                self.edge(naming(first), naming(then))

    def reads(self, known: Known, naming: Naming) -> None:
        for poll in known.history.polls:
            for record in poll.records if poll.is_committed else ():
                send = known.sends.get(record.value)
                if send is not None:
                    self.edge(naming(send), naming(poll))

    def real_time(self, spans: dict[str, tuple[float, float]]) -> None:
        """`spans`: when each began, and when it ended."""
        events = sorted(
            [(start, 0, name) for name, (start, _) in spans.items()]
            + [(end, 1, name) for name, (_, end) in spans.items() if end != inf]
        )
        point, is_open = 0, False
        for _, is_end, name in events:
            if is_end:
                if not is_open:
                    point, is_open = point + 1, True
                    self.edge(point - 1, point)
                self.edge(name, point)
            elif point:
                is_open = False
                self.edge(point, name)

    def cycle(self) -> list[str]:
        """One; empty: there is none."""
        try:
            TopologicalSorter(self.before).prepare()
        except CycleError as error:
            return [str(name) for name in error.args[1] if not isinstance(name, int)]
        return []


def cycles(known: Known) -> Iterator[Violation]:
    """The first of each kind; none that has a simpler one in it."""
    spans = _spans(known, _single)
    sends = _Graph()
    sends.log(known, _single)
    sends.real_time({name: span for name, span in spans.items() if name in known.sends})
    if found := sends.cycle():
        yield Violation("G0-realtime", " -> ".join(found))
        return
    readings = _Graph()
    readings.reads(known, _whole)
    if found := readings.cycle():
        yield Violation("G1c", " -> ".join(found))
        return
    everything = _Graph()
    everything.log(known, _single)
    everything.reads(known, _single)
    everything.real_time(spans)
    wholes = _Graph()
    wholes.reads(known, _whole)
    wholes.real_time(_spans(known, _whole))
    if found := everything.cycle() or wholes.cycle():
        yield Violation("G1c-realtime", " -> ".join(found))


def _single(operation: Send | Poll) -> str:
    return operation.value if isinstance(operation, Send) else f"{operation.client} #{operation.number}"


def _whole(operation: Send | Poll) -> str:
    return operation.transaction or _single(operation)


def _spans(known: Known, naming: Naming) -> dict[str, tuple[float, float]]:
    """When each began and ended; a transaction when the first of it began, and when it was told its end."""
    spans: dict[str, tuple[float, float]] = {}
    operations: list[Send | Poll] = [*known.history.sends, *known.history.polls]
    for operation in operations:
        name = naming(operation)
        end = _end_of(known, operation) if name == operation.transaction else operation.end
        begun, ended = spans.get(name, (operation.start, end))
        spans[name] = min(begun, operation.start), max(ended, end)
    return spans


def _end_of(known: Known, operation: Send | Poll) -> float:
    found: Operation | None = known.transactions.get(operation.transaction or "")
    return inf if found is None else found.end
