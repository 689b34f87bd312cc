"""A client that owns a managed ledger: it takes it over, and appends what it is told.

Not here: when it does what (a story, a plan).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from zab.ledger.entries.envelope import header_of
from zab.ledger.managed.cursor_events import (
    CursorAcknowledge,
    CursorFlush,
    CursorMark,
    CursorOpen,
    CursorOpened,
)
from zab.ledger.managed.events import (
    Done,
    LedgerRolled,
    LogAppend,
    LogAppended,
    LogAppendUnknown,
    LogEnded,
    LogNotAppended,
    LogOpened,
)
from zab.ledger.managed.log_info import LogConfig, Position, cursor_path, log_path
from zab.ledger.managed.owner import LogOwner
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.sweep import CURSOR_KEY
from zab.ledger.wire.messages import AddEntry, WriteLac
from zab.ledger.writer.events import BookieFailed, FragmentShort
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.judge import Ledger, Outcome
from zab.simulator.ledgers.log_judge import LogJudge
from zab.simulator.ledgers.logs.cursor_judge import Stream

LOGS = "/logs"
PASSWORD = b"secret"


class LogOwnerProcess(LedgerClient):
    """See the docstring of the module. `log_judge` is set before it begins."""

    log_judge: LogJudge

    def begin(self) -> None:
        self.owner: LogOwner | None = None
        self.hosted: Hosted | None = None
        self.outcomes: dict[Hashable, object] = {}
        self.events: list[object] = []
        self.payloads: dict[Hashable, bytes] = {}
        self._objects = 0
        self._opening: dict[Hashable, str] = {}
        self._consumed: dict[str, set[Position]] = {}
        """For each cursor that this owner has opened, what it was told is consumed."""
        self._flushing: dict[Hashable, tuple[str, frozenset[Position]]] = {}

    def open(self, name: str, settings: LogSettings, config: LogConfig | None = None, **given: Any) -> LogOwner:
        """Take this log over."""
        self._objects += 1
        self.log_judge.cursors.limits(settings.retention_ms, settings.retention_bytes)
        if self.hosted is not None:
            self.dismiss(self.hosted)
        self._opening, self._consumed, self._flushing = {}, {}, {}
        self.owner = LogOwner(
            *(LOGS, name, self.root, self.placement),
            owner=f"{self.name}.{self.machine.starts_count}.{self._objects}",
            rng=self.plan.rng,
            config=config,
            settings=settings,
            password=PASSWORD,
            wall_offset_ms=self.machine.wall_ms() - self.machine.now_ms,
            **given,
        )
        self.hosted = self.host(self.owner, self._over)
        return self.owner

    def ask(self, *asked: Any) -> None:
        """In one turn."""
        assert self.hosted is not None
        assert self.owner is not None
        for each in asked:
            self._judge_asked(each)
            self.tell(self.hosted, each)

    def _judge_asked(self, each: Any) -> None:
        assert self.owner is not None
        cursors = self.log_judge.cursors
        match each:
            case LogAppend():
                self.payloads[each.token] = each.payload
                self.judge.appends_to(each.payload)
                self.log_judge.appends(self.path, each.payload, self.owner.epoch)
            case CursorOpen(token, name):
                self._opening[token] = name
            case CursorAcknowledge(name, ledger, first, last):
                found = {Position(ledger, entry) for entry in range(first, last + 1)}
                cursors.consumes(self._cursor(name), found)
                self._consumed.get(name, set()).update(found)
            case CursorMark(name, position):
                marked = cursors.marks(self.path, self._cursor(name), position)
                self._consumed.get(name, set()).update(marked)
            case CursorFlush(token, name):
                self._flushing[token] = name, frozenset(self._consumed.get(name, ()))

    @property
    def path(self) -> str:
        """The path of its log."""
        assert self.owner is not None
        return log_path(LOGS, self.owner.name)

    def _cursor(self, name: str) -> str:
        assert self.owner is not None
        return cursor_path(LOGS, self.owner.name, name)

    def effect(self, hosted: Hosted, effect: Any) -> None:
        match effect:
            case LogOpened() | LedgerRolled() | LogEnded():
                self.say(f"{effect}")
                self.judge.counts[type(effect).__name__] += 1
                if isinstance(effect, LogOpened):
                    self.log_judge.opened(self.path, effect.epoch)
                if hosted is self.hosted:
                    self.events.append(effect)
            case FragmentShort() | BookieFailed():
                self.judge.counts[type(effect).__name__] += 1
            case _:
                super().effect(hosted, effect)

    def _over(self, token: Hashable, outcome: object) -> None:
        assert self.owner is not None
        self.outcomes[token] = outcome
        self.judge.counts[f"logs: {type(outcome).__name__}"] += 1
        match outcome:
            case LogAppended(position):
                payload = self.payloads.pop(token)
                self.judge.acknowledged(position.ledger, position.entry, payload)
                self.log_judge.acknowledged(self.path, payload, position)
            case LogNotAppended():
                self.judge.is_told(-1, self.payloads.pop(token), Outcome.NOT_WRITTEN)
            case LogAppendUnknown(position):
                self.judge.is_told(position.ledger, self.payloads.pop(token), Outcome.UNKNOWN)
            case CursorOpened() if token in self._opening:
                name = self._opening.pop(token)
                state = self.owner.cursors.state(name)
                stream = self.log_judge.cursors.opens(self.path, self._cursor(name), self.owner.epoch, state)
                self._consumed.setdefault(name, set())
                self.cursor_is_open(name, stream)
            case Done() if token in self._flushing:
                name, consumed = self._flushing.pop(token)
                self.log_judge.cursors.flushed(self.path, self._cursor(name), self.owner.epoch, consumed)

    def cursor_is_open(self, name: str, stream: Stream) -> None:
        """Called when a cursor was opened."""

    def _look_at(self, request: object) -> None:
        """Entries of cursors are nobody's append: they are known from what their writer sends."""
        if isinstance(request, AddEntry | WriteLac) and not getattr(request, "is_recovery", False):
            known = self.judge.of(request.ledger)
            if CURSOR_KEY in known.metadata.custom:
                self._look_at_cursor(known, request)
        super()._look_at(request)

    def _look_at_cursor(self, known: Ledger, request: AddEntry | WriteLac) -> None:
        if isinstance(request, WriteLac):
            lac = request.lac
        else:
            lac = header_of(request.envelope)[2]
            payload = known.digest.open(request.envelope, request.ledger, request.entry).payload
            if payload not in self.judge.appends:
                self.judge.appends_to(payload)
                self.log_judge.cursors.stores_entry(known, payload)
        self.judge.learns(known, lac)
