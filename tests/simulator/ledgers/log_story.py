"""Stories of managed ledgers: owners that take a log over from each other, beside what `Story` has.

story = LogStory(5)
a = story.owner(); a.take_over()                  it opens the log, and has it when that returns
a.append("x", "y")                             in one turn; `a.outcomes["x"]`
b.take_over(wait=False)                             its takeover begins
a.owner.state                                  what it believes
story.log()                                    the list, as it is stored
story.texts()                                  what is in the log, by positions, once its ledgers are closed
story.finish()                                 all goes on; the last ledger is closed; the judges look at everything
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulator.ledgers.story import Story
from zab.ledger.managed.events import LogAppend, LogAppended, OwnerState
from zab.ledger.managed.log_info import LogConfig, LogInfo, Position, decode_log, log_path
from zab.ledger.managed.settings import LogSettings
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.writer.settings import WriterSettings
from zab.simulator.coordination.session import CoordinationSession
from zab.simulator.ledgers.cluster import ROOT
from zab.simulator.ledgers.log_judge import LogJudge
from zab.simulator.ledgers.log_owner import LOGS, LogOwnerProcess

NAME = "orders"
CONFIG = LogConfig()


class StoryOwner(LogOwnerProcess):
    """Owns a log, as it is told."""

    story: LogStory

    def take_over(self, *, wait: bool = True, config: LogConfig | None = CONFIG, **given: Any) -> None:
        settings = {**self.story.settings, **given.pop("settings", {})}
        self.open(NAME, LogSettings(**settings), config, **given)
        if wait:
            self.story.until(lambda: self.state is OwnerState.OPEN)

    @property
    def state(self) -> OwnerState:
        assert self.owner is not None
        return self.owner.state

    def append(self, *texts: str) -> None:
        """In one turn."""
        self.ask(*(LogAppend(text.encode(), text) for text in texts))

    def write(self, *texts: str) -> None:
        """Until all are acknowledged."""
        self.append(*texts)
        self.story.until(lambda: all(isinstance(self.outcomes.get(text), LogAppended) for text in texts))

    def position(self, text: str) -> Position:
        outcome = self.outcomes[text]
        assert isinstance(outcome, LogAppended), outcome
        return outcome.position

    def call(self, asked: Any) -> object:
        """Until it is answered."""
        self.ask(asked)
        self.story.until(lambda: asked.token in self.outcomes)
        return self.outcomes[asked.token]

    @property
    def ledger(self) -> int:
        """The open ledger of its list."""
        assert self.owner is not None
        assert self.owner.info is not None
        assert self.owner.info.open_ledger is not None
        return self.owner.info.open_ledger.id


class LogStory(Story):
    """See the docstring of the module."""

    def __init__(self, bookies: int = 5, *, log: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(bookies, **settings)
        timeout_ms = self.profile.request_timeout_ms
        self.settings: dict[str, Any] = {
            "writer": WriterSettings(add_timeout_ms=timeout_ms, reconnect_ms=200, coalesce_ms=0),
            "recovery": RecoverySettings(request_timeout_ms=timeout_ms),
            "retry_ms": 200,
            "cursor_ms": 100,
            **(log or {}),
        }
        self.log_judge = LogJudge(ROOT, LOGS, self.judge, self.cluster.service.tree)
        self.holds: list[CoordinationHold] = []

    def owner(self) -> StoryOwner:
        found = self._client(StoryOwner)
        found.story = self
        found.log_judge = self.log_judge
        return found

    # -------------------------------------------------------------------------------------------------- coordination

    def hold_writes(self, client: StoryOwner, matches: Callable[[Any], bool]) -> CoordinationHold:
        """Batches of this client that match do not reach the coordination service, until they are released."""
        hold = CoordinationHold(client.session, matches)
        self.holds.append(hold)
        return hold

    # -------------------------------------------------------------------------------------------------------- the log

    def log(self) -> LogInfo:
        data = self.cluster.service.tree.data(log_path(LOGS, NAME))
        assert data is not None
        return decode_log(data)

    def texts(self) -> list[str]:
        """What is in the log, in order: of closed ledgers all, of the open one what was acknowledged."""
        found = []
        for each in self.log().ledgers:
            known = self.judge.of(each.id)
            last = known.metadata.last if known.metadata.is_closed else known.acknowledged
            found += [known.payloads[entry].decode() for entry in range(last + 1)]
        return found

    def finish(self) -> None:
        for hold in self.holds:
            hold.release()
        super().finish()
        self.log_judge.finish()


class CoordinationHold:
    """What a client submits waits, from the first batch that matches on."""

    def __init__(self, session: CoordinationSession, matches: Callable[[Any], bool]) -> None:
        self._session = session
        self._submit = session.submit
        self._matches = matches
        self.waiting: list[Any] = []
        session.submit = self._submitting  # type: ignore[method-assign]

    def _submitting(self, submit: Any) -> None:
        if self.waiting or any(self._matches(each) for each in submit.operations):
            self.waiting.append(submit)
        else:
            self._submit(submit)

    def release(self) -> None:
        """What waits goes, and later ones pass."""
        self._session.submit = self._submit  # type: ignore[method-assign]
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            self._submit(each)
