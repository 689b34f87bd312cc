"""A client that reads a log without having it: from its beginning, or on from where it was, across takeovers."""

from __future__ import annotations

from typing import Any

from zab.ledger.managed.log_info import Position
from zab.ledger.reader.events import Delivered
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.logs.cursor_judge import CursorJudge, Stream
from zab.simulator.ledgers.logs.owner import NAME, PATH
from zab.simulator.ledgers.logs.walk import LogWalk
from zab.simulator.world.schedule import MS


class LogReaderProcess(LedgerClient):
    """See the docstring of the module. `cursor_judge` is set before it begins."""

    cursor_judge: CursorJudge

    def begin(self) -> None:
        self._stream: Stream | None = None
        self.walk = LogWalk(self, NAME, None, self._deliver)
        self.later(self.plan.after(3_000 * MS), self._move)

    def _move(self) -> None:
        """Begin again: at the beginning, or where it is."""
        self.later(self.plan.after(3_000 * MS), self._move)
        if self.plan.is_stopped or not self.plan.wishes():
            return
        after = self.walk.after if self.plan.rng.random() < 0.5 else None
        self.walk.stop()
        self._stream = None if after is None else Stream(PATH, after)
        self.walk = LogWalk(self, NAME, after, self._deliver)

    def _deliver(self, position: Position, payload: bytes) -> None:
        if self._stream is None:
            self._stream = Stream(PATH, position)
        else:
            self.cursor_judge.delivers(self._stream, position)
        self.judge.counts["entries of logs read"] += 1

    def effect(self, hosted: Hosted, effect: Any) -> None:
        assert isinstance(effect, Delivered)
        assert isinstance(effect.token, LogWalk)
        effect.token.delivered(hosted, effect)

    def is_connected(self) -> None:
        super().is_connected()
        if self.has_begun:
            self.walk.connected()
