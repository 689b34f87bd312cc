"""A client that wants to have a log: now and then it takes the log over; while it has it, it appends, rolls,
trims and closes it, and its consumers read it at two cursors.

One that has lost the log goes on until it notices, its consumers, too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import attrs

from zab.ledger.managed.cursor_events import CursorAcknowledge, CursorFlush, CursorMark, CursorOpen, CursorProperties
from zab.ledger.managed.events import (
    LogAppend,
    LogAppended,
    LogClose,
    LogEnded,
    LogOpened,
    LogRoll,
    LogTerminate,
    LogTrim,
    OwnerState,
)
from zab.ledger.managed.log_info import LogConfig, Position, log_path
from zab.ledger.managed.settings import LogSettings
from zab.ledger.reader.events import Delivered
from zab.ledger.recovery.events import RecoverySettings
from zab.simulator.ledgers.client_process import Hosted
from zab.simulator.ledgers.log_owner import LOGS, LogOwnerProcess
from zab.simulator.ledgers.logs.cursor_judge import Stream
from zab.simulator.ledgers.logs.profile import LogProfile
from zab.simulator.ledgers.logs.walk import LogWalk
from zab.simulator.ledgers.writer import writer_settings
from zab.simulator.world.schedule import MS

NAME: Final = "orders"
PATH: Final = log_path(LOGS, NAME)
CURSORS: Final = {"all": True, "new": False}
"""Each with whether it begins before the first entry."""
ASK_US: Final = 700 * MS


@attrs.define(eq=False)
class Consumer:
    """Reads the log at one cursor of an owner's object."""

    name: str
    stream: Stream
    hosted: Hosted
    walk: LogWalk | None = None


class LogClient(LogOwnerProcess):
    """See the docstring of the module."""

    def begin(self) -> None:
        super().begin()
        self.consumers: list[Consumer] = []
        self._tokens = 0
        self._last: Hashable = None
        self.later(self.plan.after(self._log.open_gap_us), self._want)
        self.later(self.plan.after(self.profile.append_gap_us), self._append)
        self.later(self.plan.after(ASK_US), self._ask)

    @property
    def _log(self) -> LogProfile:
        assert self.profile.log is not None
        return self.profile.log

    @property
    def has_log(self) -> bool:
        """Whether it has opened the log, and knows of nobody who has it."""
        return self.owner is not None and self.owner.state in (OwnerState.OPEN, OwnerState.ROLLING)

    @property
    def is_done(self) -> bool:
        """Whether it does nothing with the log."""
        return self.owner is None or self.owner.is_over

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    # --------------------------------------------------------------------------------------------------- what it wants

    def _want(self) -> None:
        self.later(self.plan.after(self._log.open_gap_us), self._want)
        if not self.plan.is_stopped and self.plan.wishes() and self.is_done:
            self.take_over()

    def take_over(self) -> None:
        """Begin to take the log over."""
        self._leave()
        ensemble, writes, acks = self.profile.quorums[0]
        config = LogConfig(ensemble_size=ensemble, write_quorum=writes, ack_quorum=acks)
        self.open(NAME, self._settings(), config)

    def _settings(self) -> LogSettings:
        of, rng, timeout_ms = self._log, self.plan.rng, self.profile.request_timeout_ms
        return LogSettings(
            max_entries=of.max_entries,
            max_age_ms=of.max_age_ms,
            retention_ms=of.retention_ms,
            retention_bytes=of.retention_bytes,
            trim_ms=rng.choice((300, 2_000)),
            waiting_appends_max=rng.choice((5, 10_000)),
            wait_ms=rng.choice((1_000, 30_000)),
            resolve_ms=rng.choice((500, 10_000)),
            retry_ms=200,
            watches=rng.random() < of.watches,
            cursor_ms=of.cursor_ms,
            cursor_entries=of.cursor_entries,
            writer=writer_settings(self.profile, rng),
            recovery=RecoverySettings(
                request_timeout_ms=timeout_ms, retry_max_ms=timeout_ms, patience_ms=8 * timeout_ms
            ),
        )

    def _append(self) -> None:
        """Append a burst."""
        self.later(self.plan.after(self.profile.append_gap_us), self._append)
        if self.plan.is_stopped or not self.has_log:
            return
        rng = self.plan.rng
        sizes = [rng.randint(0, self.profile.payload_bytes) for _ in range(rng.randint(1, self.profile.burst))]
        if self.plan.wishes():
            self.ask(*map(self._entry, sizes))

    def _entry(self, size: int) -> LogAppend:
        token = self._token()
        return LogAppend(f"{self.name}.{self.machine.starts_count}.{token} {'x' * size}".encode(), token)

    def _ask(self) -> None:
        """Whatever else an owner is asked."""
        self.later(self.plan.after(ASK_US), self._ask)
        if self.plan.is_stopped or not self.has_log:
            return
        rng, token = self.plan.rng, self._token()
        name = rng.choice(list(CURSORS))
        kinds = (LogRoll(token), LogTrim(token), CursorFlush(token, name), LogClose(token, rng.random() < 0.5))
        (asked,) = rng.choices((*kinds, CursorProperties(name, {"token": str(token)})), (3, 3, 6, 1, 1))
        if self.plan.wishes():
            self.ask(asked)

    # ------------------------------------------------------------------------------------------------------- consumers

    def effect(self, hosted: Hosted, effect: Any) -> None:
        if isinstance(effect, Delivered):
            assert isinstance(effect.token, LogWalk)
            effect.token.delivered(hosted, effect)
            return
        super().effect(hosted, effect)
        if isinstance(effect, LogOpened) or (isinstance(effect, LogEnded) and effect.state is OwnerState.TERMINATED):
            for name, is_earliest in () if self.consumers else CURSORS.items():
                self.ask(CursorOpen(f"open {name}", name, is_earliest))
        elif isinstance(effect, LogEnded):
            self._leave()

    def cursor_is_open(self, name: str, stream: Stream) -> None:
        assert self.hosted is not None
        consumer = Consumer(name, stream, self.hosted)
        self.consumers.append(consumer)
        consumer.walk = LogWalk(self, NAME, stream.last, lambda position, _payload: self._deliver(consumer, position))

    def _deliver(self, consumer: Consumer, position: Position) -> None:
        if consumer not in self.consumers:
            return
        assert self.owner is not None
        if self.owner.cursors.state(consumer.name).covers(position):
            return
        self.log_judge.cursors.delivers(consumer.stream, position)
        self.judge.counts["entries read at cursors"] += 1
        self.later(self.plan.after(self._log.consume_us), self._consume, consumer, position)

    def _consume(self, consumer: Consumer, position: Position) -> None:
        """The consumer has done what it has to do with this entry."""
        if consumer not in self.consumers:
            return
        if self.plan.rng.random() < self._log.marks:
            self.ask(CursorMark(consumer.name, position))
        else:
            self.ask(CursorAcknowledge(consumer.name, position.ledger, position.entry, position.entry))

    def _leave(self) -> None:
        """This object has lost the log, or given it up."""
        for each in self.consumers:
            assert each.walk is not None
            each.walk.stop()
        self.consumers = []

    def is_connected(self) -> None:
        super().is_connected()
        if self.has_begun:
            for each in self.consumers:
                if each.walk is not None:
                    each.walk.connected()

    # --------------------------------------------------------------------------------------------- at the end of a run

    def go_on_to_the_end(self) -> None:
        """Have the log, and append one more entry, to be the last one."""
        if self.is_done:
            self._last = None
            self.take_over()
        elif self.has_log and (self._last is None or not isinstance(self._last_outcome, LogAppended | None)):
            append = self._entry(0)
            self._last = append.token
            self.ask(append)

    @property
    def _last_outcome(self) -> object:
        return self.outcomes.get(self._last)

    @property
    def last(self) -> Position | None:
        """Where that is, once it was acknowledged by the object that has the log."""
        outcome = self._last_outcome
        return outcome.position if self.has_log and isinstance(outcome, LogAppended) else None

    def delete(self) -> None:
        """Take the log over to delete it."""
        self._leave()
        self.open(NAME, self._settings(), deletes=True)

    def nudge(self) -> None:
        """Let it see whether it has the log."""
        if self.has_log:
            self.ask(self._entry(0))

    def has_read(self, position: Position) -> bool:
        """Whether its consumers have consumed everything up to there."""
        if self.owner is None or len(self.consumers) < len(CURSORS):
            return False
        return all(self.owner.cursors.state(each.name).mark >= position for each in self.consumers)

    def end(self) -> Hashable:
        """Close the log, or terminate it. Returns the token."""
        token = self._token()
        self.ask(LogTerminate(token) if self._log.terminates else LogClose(token))
        return token
