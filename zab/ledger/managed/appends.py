"""The appends of one owner that are not answered yet, in their order.

    sent        the open ledger's writer has them
    waiting     for the next ledger; those that a ledger has not taken come back here, in their order
    held        they may be in a ledger that somebody else ends: its end decides

What comes back is definitely in no ledger: its own writer said so after it had closed the ledger, or the ledger is
closed and ends before it. Nothing else is ever sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from attrs import define

from zab.ledger.managed.events import LogAppend, LogAppended, LogAppendUnknown, LogNotAppended, LogReason
from zab.ledger.managed.log_info import Position
from zab.ledger.managed.settings import LogSettings
from zab.ledger.store.events import Completed
from zab.ledger.writer.events import Append, Appended, AppendUnknown, NotAppended, Reason

_TO_CALLER = {Reason.ENTRY_TOO_LARGE: LogReason.ENTRY_TOO_LARGE, Reason.NO_ROOM: LogReason.NO_ROOM}
"""Why a writer refuses an append that no other ledger would take either."""


@define(eq=False)
class _Op:
    number: int
    append: LogAppend
    since_ms: int


class Appends:
    def __init__(self, settings: LogSettings, out: list[Any]) -> None:
        self._settings = settings
        self._out = out
        self._count = 0
        self._sent: dict[Hashable, _Op] = {}
        self._waiting: deque[_Op] = deque()
        self._waiting_bytes = 0
        self._back: list[_Op] = []
        self._held: list[tuple[Position, _Op]] = []

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    @property
    def is_idle(self) -> bool:
        """Whether everything is answered."""
        return not (self._sent or self._waiting or self._back or self._held)

    @property
    def due_ms(self) -> int | None:
        """When the first one has waited long enough."""
        oldest = self._waiting[0].since_ms if self._waiting else None
        return None if oldest is None else oldest + self._settings.wait_ms

    # ---------------------------------------------------------------------------------------------------- their way in

    def send(self, run: list[LogAppend], now_ms: int) -> list[Append]:
        """These go to the open ledger."""
        for each in run:
            self._count += 1
            self._sent[each.token] = _Op(self._count, each, now_ms)
        return [Append(each.payload, each.token, each.may_wait) for each in run]

    def wait(self, run: list[LogAppend], now_ms: int) -> None:
        """These wait for the next ledger, as far as there is room."""
        of = self._settings
        for each in run:
            size = len(each.payload)
            if len(self._waiting) >= of.waiting_appends_max or self._waiting_bytes + size > of.waiting_bytes_max:
                self._refuse(each.token, LogReason.NO_ROOM)
                continue
            self._count += 1
            self._waiting.append(_Op(self._count, each, now_ms))
            self._waiting_bytes += size

    def send_waiting(self) -> list[Append]:
        """Everything that waits goes to the open ledger, in order."""
        self._take_back()
        ready, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        self._sent.update((each.append.token, each) for each in ready)
        return [Append(each.append.payload, each.append.token) for each in ready]

    def cancel(self, token: Hashable) -> None:
        """Forget one that waits here."""
        for at, each in enumerate(self._waiting):
            if each.append.token == token:
                del self._waiting[at]
                self._waiting_bytes -= len(each.append.payload)
                return

    def cancelled(self, token: Hashable) -> None:
        """The writer forgets one that waits there."""
        self._sent.pop(token, None)

    # --------------------------------------------------------------------------------------------------- their way out

    def answered(self, ledger: int, token: Hashable, outcome: object) -> None:
        """What the writer of this ledger says."""
        op = self._sent.pop(token)
        match outcome:
            case Appended(entry):
                self._out.append(Completed(token, LogAppended(Position(ledger, entry))))
            case NotAppended(reason) if reason in _TO_CALLER:
                self._refuse(token, _TO_CALLER[reason])
            case NotAppended():
                self._back.append(op)
            case AppendUnknown(entry):
                self._held.append((Position(ledger, entry), op))

    def decide(self, ledger: int, last: int) -> None:
        """This ledger is closed: what is after its end is in no ledger."""
        held, self._held = self._held, []
        for position, op in held:
            assert position.ledger == ledger, (position, ledger)
            if position.entry <= last:
                self._out.append(Completed(op.append.token, LogAppended(position)))
            else:
                self._back.append(op)

    def give_up(self, reason: LogReason) -> tuple[Position, ...]:
        """The outcome of what is held stays unknown: these positions."""
        held, self._held = self._held, []
        self._out.extend(Completed(op.append.token, LogAppendUnknown(position, reason)) for position, op in held)
        return tuple(position for position, _ in held)

    def refuse_all(self, reason: LogReason) -> None:
        """What waits is in no ledger, and never will be."""
        self._take_back()
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for each in waiting:
            self._refuse(each.append.token, reason)

    def refuse_old(self, now_ms: int, reason: LogReason) -> None:
        """What has waited for too long."""
        self._take_back()
        while self._waiting and self._waiting[0].since_ms + self._settings.wait_ms <= now_ms:
            op = self._waiting.popleft()
            self._waiting_bytes -= len(op.append.payload)
            self._refuse(op.append.token, reason)

    def _take_back(self) -> None:
        if self._back:
            self._back.sort(key=lambda each: each.number)
            self._waiting.extendleft(reversed(self._back))
            self._waiting_bytes += sum(len(each.append.payload) for each in self._back)
            self._back = []

    def _refuse(self, token: Hashable, reason: LogReason) -> None:
        self._out.append(Completed(token, LogNotAppended(reason)))
