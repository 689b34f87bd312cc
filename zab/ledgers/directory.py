"""A core that keeps the list of bookies: reads it again whenever something changes.

    step(now_ms, inputs) -> Submit, BookiesRead

What the service refuses is tried again after a pause, and is in `failure` meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from attrs import frozen

from zab.coordination.driver import Connected, Driver, Event, Expired, FromCoordination, Results, Submit, WatchFired
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Pause, Steps
from zab.ledger.store.bookies import RegisteredBookies, read_bookies

RETRY_MS: Final = 1_000


@frozen
class BookiesRead:
    """What is registered now."""

    registered: RegisteredBookies


Effect: TypeAlias = Submit | BookiesRead


class Directory:
    """See the docstring of the module."""

    def __init__(self, root: str) -> None:
        self.failure: CoordinationError | None = None
        self._root = root
        self._driver = Driver()
        self._out: list[Effect] = []
        self._look()

    @property
    def deadline_ms(self) -> int | None:
        return self._driver.deadline_ms

    def step(self, now_ms: int, inputs: Iterable[FromCoordination]) -> list[Effect]:
        for each in inputs:
            match each:
                case Connected():
                    self._driver.on_connected()
                case Results():
                    self._driver.on_results(each)
                case WatchFired():
                    self._look()
                case Expired():
                    self._driver.clear()
                    self._driver.on_suspended()
        self._out += self._driver.advance(now_ms)
        out, self._out = self._out, []
        return out

    def _look(self) -> None:
        self._driver.offer(Event("bookies", self._read))

    def _read(self) -> Steps[None]:
        while True:
            try:
                registered = yield from read_bookies(self._root)
            except CoordinationError as error:
                self.failure = error
                yield Pause(RETRY_MS)
                continue
            self.failure = None
            self._out.append(BookiesRead(registered))
            return
