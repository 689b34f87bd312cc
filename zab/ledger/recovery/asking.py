"""One request to several bookies, repeated to those whose answer proves nothing until they say something that does.

    asking = Asking(request, bookies, settings)
    asking.due(now_ms) -> bookies        to whom it is sent now: first, again after a pause, again after a time-out
    asking.on_proof(bookie)              it has said what we want to know, whatever that is
    asking.on_nothing(bookie, status)    it has not: an error, a time-out, UNKNOWN_LEDGER_STATE, a damaged record

An answer counts whenever it comes, also after its time-out: what a fenced bookie said stays true.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from zab.ledger.entries.ids import BookieId
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.wire.messages import ReadEntry
from zab.ledger.wire.status import Status


@define
class _Asked:
    """`due_ms`: when it is sent (again). `is_waiting`: an answer is under way."""

    due_ms: int = 0
    pause_ms: int = 0
    is_waiting: bool = False
    last: Status | None = None


@define
class Asking:
    """`request` is the same for all."""

    request: ReadEntry
    _settings: RecoverySettings
    _open: dict[BookieId, _Asked] = field(factory=dict)
    answered: set[BookieId] = field(factory=set)

    @classmethod
    def of(cls, request: ReadEntry, bookies: Iterable[BookieId], settings: RecoverySettings) -> Asking:
        return cls(request, settings, {bookie: _Asked(pause_ms=settings.retry_ms) for bookie in bookies})

    @property
    def deadline_ms(self) -> int | None:
        return min((each.due_ms for each in self._open.values()), default=None)

    @property
    def unknown(self) -> dict[BookieId, Status | None]:
        """The bookies that have not proved anything, with their last answers."""
        return {bookie: each.last for bookie, each in self._open.items()}

    def is_open(self, bookie: BookieId) -> bool:
        """Whether this bookie was meant, and has not proved anything."""
        return bookie in self._open

    def due(self, now_ms: int) -> list[BookieId]:
        """To whom the request has to be sent now."""
        to_send = []
        for bookie, each in self._open.items():
            if now_ms >= each.due_ms:
                if each.is_waiting:
                    each.last = Status.TIMED_OUT
                each.is_waiting = True
                each.due_ms = now_ms + self._settings.request_timeout_ms
                to_send.append(bookie)
        return to_send

    def on_proof(self, bookie: BookieId) -> None:
        if self._open.pop(bookie, None) is not None:
            self.answered.add(bookie)

    def on_nothing(self, bookie: BookieId, status: Status, now_ms: int) -> None:
        if (asked := self._open.get(bookie)) is not None and asked.is_waiting:
            asked.is_waiting = False
            asked.last = status
            asked.due_ms = now_ms + asked.pause_ms
            asked.pause_ms = min(2 * asked.pause_ms, self._settings.retry_max_ms)
