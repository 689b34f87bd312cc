"""Cores that work inside of another one: each writes, recovers or reads one ledger.

    parts.add(core, ledger, completed)      it works from now on, and is told first what it would have been told before
    parts.step(now_ms)                      those that have inputs or are due take a turn; effects go to `out`

Answers of bookies go to the core of their ledger that asks such questions: the adds of a writer are not those of a
recovery. Everything else goes to all. Batches for the coordination service get other numbers, since each core counts
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from attrs import define, field

from zab.coordination.driver import (
    Connected,
    Driver,
    Event,
    Expired,
    FromCoordination,
    Results,
    Submit,
    Suspended,
)
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.managed.log_info import InvalidLogError
from zab.ledger.metadata.changes import ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.store.events import Answered, BookieLost, BookiesKnown, Completed
from zab.ledger.wire.messages import AddEntry, WriteLac
from zab.ledger.writer.writer import LedgerWriter


class Core(Protocol):
    """A pure core of a client."""

    @property
    def deadline_ms(self) -> int | None: ...

    def step(self, now_ms: int, inputs: Iterable[Any]) -> Iterable[Any]: ...


@define(eq=False)
class Part:
    """One core, and what it is told next."""

    core: Core
    ledger: int | None
    """None: it asks no bookies."""
    completed: Callable[[Hashable, object], None]
    is_writer: bool
    effect: Callable[[Any], None]
    inputs: list[Any] = field(factory=list)


@define(eq=False)
class Writing:
    """The part that writes the open ledger."""

    writer: LedgerWriter
    part: Part
    since_ms: int
    rolled_ms: int
    """When its age alone rolls it."""


class Parts:
    """`out` gets what they ask for: `Send` as it is, `Submit` with new numbers."""

    def __init__(self, out: list[Any]) -> None:
        self._out = out
        self._parts: list[Part] = []
        self._batches = 0
        self._batch_of: dict[int, tuple[Part, int]] = {}
        self._connected: Connected | None = None
        self._bookies: BookiesKnown | None = None

    def add(
        self,
        core: Core,
        ledger: int | None,
        completed: Callable[[Hashable, object], None],
        *,
        is_writer: bool = False,
        effect: Callable[[Any], None] | None = None,
    ) -> Part:
        """`effect`: what only some cores ask for; without it, the host is asked."""
        part = Part(core, ledger, completed, is_writer, effect or self._out.append)
        part.inputs += [each for each in (self._connected, self._bookies) if each is not None]
        self._parts.append(part)
        return part

    def remove(self, part: Part) -> None:
        """It stops; what is answered to it is dropped."""
        if part in self._parts:
            self._parts.remove(part)

    def has(self, part: Part) -> bool:
        return part in self._parts

    def clear(self) -> None:
        """None of them works from now on."""
        self._parts.clear()

    def tell(self, each: Any) -> None:
        """What the host says."""
        match each:
            case Answered(_, request, _):
                is_write = isinstance(request, WriteLac) or (isinstance(request, AddEntry) and not request.is_recovery)
                ledger = getattr(request, "ledger", None)
                for part in self._parts:
                    if ledger is not None and part.ledger == ledger and part.is_writer == is_write:
                        part.inputs.append(each)
            case Results(batch, results):
                found = self._batch_of.pop(batch, None)
                if found is not None and found[0] in self._parts:
                    found[0].inputs.append(Results(found[1], results))
            case _:
                self._remember(each)
                for part in self._parts:
                    part.inputs.append(each)

    def _remember(self, each: Any) -> None:
        match each:
            case Connected():
                self._connected = each
            case Suspended():
                self._connected = None
            case Expired():
                self._connected = None
                self._batch_of.clear()
            case BookiesKnown():
                self._bookies = each
            case BookieLost():
                pass

    def step(self, now_ms: int) -> bool:
        """Whether any of them took a turn."""
        worked = False
        for part in list(self._parts):
            due = part.core.deadline_ms
            if part in self._parts and (part.inputs or (due is not None and due <= now_ms)):
                worked = True
                self.turn(part, now_ms)
        return worked

    def turn(self, part: Part, now_ms: int) -> None:
        """This one takes a turn."""
        inputs, part.inputs = part.inputs, []
        for effect in part.core.step(now_ms, inputs):
            match effect:
                case Submit(batch, operations):
                    self._batches += 1
                    self._batch_of[self._batches] = part, batch
                    self._out.append(Submit(self._batches, operations))
                case Completed(token, outcome):
                    part.completed(token, outcome)
                case _:
                    part.effect(effect)

    @property
    def deadline_ms(self) -> int | None:
        times = (part.core.deadline_ms for part in self._parts)
        return min((each for each in times if each is not None), default=None)


class Handlers:
    """A core that runs handlers of the coordination service, one after the other. `failed`: told what the service
    refuses for good, and what cannot be read; `expired`: the handlers are gone with the session."""

    def __init__(self, failed: Callable[[str], None], expired: Callable[[], None]) -> None:
        self._driver = Driver()
        self._failed = failed
        self._expired = expired
        self._is_offered = False

    @property
    def deadline_ms(self) -> int | None:
        """At once, if something was offered."""
        return 0 if self._is_offered else self._driver.deadline_ms

    @property
    def is_idle(self) -> bool:
        return self._driver.is_idle

    def offer(self, name: str, begin: Callable[[], Steps[None]]) -> None:
        """Run this after the others; one of the name that waits already is enough."""
        self._is_offered = True
        self._driver.offer(Event(name, begin))

    def step(self, now_ms: int, inputs: Iterable[FromCoordination]) -> list[Submit]:
        self._is_offered = False
        for each in inputs:
            match each:
                case Connected():
                    self._driver.on_connected()
                case Suspended():
                    self._driver.on_suspended()
                case Expired():
                    self._driver.on_suspended()
                    self._driver.clear()
                    self._expired()
                case Results():
                    self._driver.on_results(each)
        try:
            return list(self._driver.advance(now_ms))
        except (CoordinationError, InvalidMetadataError, InvalidLogError, ForbiddenChangeError) as error:
            self._failed(str(error))
            return []
