"""A client that owns a managed ledger: it takes it over, and appends what it is told.

Not here: when it does what (a story, a plan).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from zab.ledger.entries.envelope import header_of
from zab.ledger.managed.cursor_events import CursorOpened
from zab.ledger.managed.events import (
    LedgerRolled,
    LogAppend,
    LogAppended,
    LogAppendUnknown,
    LogEnded,
    LogNotAppended,
    LogOpened,
)
from zab.ledger.managed.log_info import LogConfig, log_path
from zab.ledger.managed.owner import LogOwner
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.sweep import CURSOR_KEY
from zab.ledger.wire.messages import AddEntry
from zab.ledger.writer.events import BookieFailed, FragmentShort
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.judge import Outcome
from zab.simulator.ledgers.log_judge import LogJudge

LOGS = "/logs"


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

    def open(self, name: str, settings: LogSettings, config: LogConfig | None = None, **given: Any) -> LogOwner:
        """Take this log over."""
        self._objects += 1
        self.owner = LogOwner(
            *(LOGS, name, self.root, self.placement),
            owner=f"{self.name}.{self.machine.starts_count}.{self._objects}",
            rng=self.plan.rng,
            config=config,
            settings=settings,
            password=b"secret",
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
            if isinstance(each, LogAppend):
                self.payloads[each.token] = each.payload
                self.judge.appends_to(each.payload)
                self.log_judge.appends(log_path(LOGS, self.owner.name), each.payload)
            self.tell(self.hosted, each)

    def effect(self, hosted: Hosted, effect: Any) -> None:
        match effect:
            case LogOpened() | LedgerRolled() | LogEnded():
                self.say(f"{effect}")
                self.judge.counts[type(effect).__name__] += 1
                if isinstance(effect, LogOpened):
                    assert self.owner is not None
                    self.log_judge.opened(log_path(LOGS, self.owner.name), effect.epoch)
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
                self.log_judge.acknowledged(log_path(LOGS, self.owner.name), payload, position)
            case LogNotAppended():
                self.judge.is_told(-1, self.payloads.pop(token), Outcome.NOT_WRITTEN)
            case LogAppendUnknown(position):
                self.judge.is_told(position.ledger, self.payloads.pop(token), Outcome.UNKNOWN)
            case CursorOpened():
                pass

    def _look_at(self, request: object) -> None:
        """What cursors write is nobody's append: its writer alone knows what is acknowledged."""
        if isinstance(request, AddEntry) and not request.is_recovery:
            known = self.judge.of(request.ledger)
            if CURSOR_KEY in known.metadata.custom:
                payload = known.digest.open(request.envelope, request.ledger, request.entry).payload
                if payload not in self.judge.appends:
                    self.judge.appends_to(payload)
                for entry in range(known.acknowledged + 1, header_of(request.envelope)[2] + 1):
                    self.judge.acknowledged(request.ledger, entry, known.payloads[entry])
        super()._look_at(request)
