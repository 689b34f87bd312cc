"""A core that runs one handler (`zab.coordination.steps`), and completes with what it returns or raises."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from attrs import frozen

from zab.coordination.driver import Connected, Driver, Event, Expired, FromCoordination, Results, Submit
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.metadata.changes import ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.placement.placement import NotEnoughBookiesError
from zab.ledger.store.events import Completed


@frozen
class SessionOver:
    """The session ended before the handler did: what it had begun was done or not."""


@frozen
class Raised:
    error: Exception


class Errand:
    """`Completed(token, outcome)`: what `begin()` returns, or `Raised`, or `SessionOver`."""

    def __init__(self, token: Hashable, begin: Callable[[], Steps[Any]]) -> None:
        self._token = token
        self._begin = begin
        self._driver = Driver()
        self._out: list[Submit | Completed] = []
        self._driver.offer(Event("errand", self._run))

    @property
    def deadline_ms(self) -> int | None:
        return self._driver.deadline_ms

    def step(self, now_ms: int, inputs: Iterable[FromCoordination]) -> list[Submit | Completed]:
        for each in inputs:
            match each:
                case Connected():
                    self._driver.on_connected()
                case Results():
                    self._driver.on_results(each)
                    if self._driver.is_idle:
                        self._out.append(Completed(self._token, SessionOver()))
                case Expired():
                    self._driver.clear()
                    self._out.append(Completed(self._token, SessionOver()))
        self._out += self._driver.advance(now_ms)
        out, self._out = self._out, []
        return out

    def _run(self) -> Steps[None]:
        outcome: object
        try:
            outcome = yield from self._begin()
        except (CoordinationError, ForbiddenChangeError, InvalidMetadataError, NotEnoughBookiesError) as error:
            outcome = Raised(error)
        self._out.append(Completed(self._token, outcome))
