"""Reading a log from a position on, across its ledgers: what `zab.ledgers.log_reading` does in production, on the same
cores. A walk waits for what is not there yet, until the log is terminated.

    walk = LogWalk(process, name, after, deliver)
    walk.is_at_end          nothing more will come
    walk.stop()

What was trimmed is left out. Not here: what is done with the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

from zab.coordination.steps import Steps
from zab.ledger.managed.log_info import LogState, Position
from zab.ledger.managed.store import read_log
from zab.ledger.reader.events import (
    Consumed,
    Delivered,
    LedgerMissing,
    MetadataUnreadable,
    ReadDone,
    ReaderSettings,
    ReadUnavailable,
    Tail,
)
from zab.ledger.reader.reader import Reader
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.log_owner import LOGS, PASSWORD
from zab.simulator.world.schedule import MS

GAP_US: Final = 50 * MS
"""The time between two looks at a list that has nothing new."""
_NUMBERS: Final = count()
"""Each walk has an errand of its own."""


class LogWalk:
    """`after`: the first entry is the one after this position; None: the first that is there. `deliver` gets positions
    and payloads, in order."""

    def __init__(
        self, process: LedgerClient, name: str, after: Position | None, deliver: Callable[[Position, bytes], None]
    ) -> None:
        self.after = after
        self.is_at_end = False
        self._process = process
        self._name = name
        self._deliver = deliver
        self._is_over = False
        self._hosted: Hosted | None = None
        self._is_looking = False
        self._ended = -1
        """The ledger that was read up to its end."""
        self._errand = f"walk {next(_NUMBERS)}"
        self._look()

    def __repr__(self) -> str:
        return f"walk after {self.after}"

    def stop(self) -> None:
        """Read no more."""
        self._is_over = True
        self._leave()

    def connected(self) -> None:
        """The session may be another one: what was under way in it is lost."""
        if self._is_looking and not self._is_over:
            self._look()

    def _leave(self) -> None:
        if self._hosted is not None:
            self._process.dismiss(self._hosted)
            self._hosted = None

    # -------------------------------------------------------------------------------------------------------- the list

    def _look(self) -> None:
        if not self._is_over:
            self._is_looking = True
            self._process.errand(self._errand, self._read_list)

    def _look_later(self) -> None:
        self._process.later(GAP_US, self._look)

    def _read_list(self) -> Steps[None]:
        found = yield from read_log(LOGS, self._name)
        self._is_looking = False
        if self._is_over or self._hosted is not None:
            return
        if found is None:
            self._look_later()
            return
        info = found.info
        if self.after is None or self.after < info.first:
            self.after = info.first
        following = info.next_after(self.after)
        if following is None:
            self.is_at_end = info.state is LogState.TERMINATED
        if following is None or (following[0].id == self._ended and following[0].entries is None):
            # A ledger is closed, and the list does not say so yet, or does not name the next one.
            if not self.is_at_end:
                self._look_later()
            return
        here, first = following
        self.after = Position(here.id, first - 1)
        self._read(here.id, first)

    # ------------------------------------------------------------------------------------------------------ one ledger

    def _read(self, ledger: int, first: int) -> None:
        process = self._process
        timeout_ms, rng = process.profile.request_timeout_ms, process.plan.rng
        settings = ReaderSettings(
            window_entries=rng.choice((2, 16, 256)),
            request_timeout_ms=timeout_ms,
            retry_max_ms=timeout_ms,
            poll_ms=2 * timeout_ms,
        )
        core = Reader(process.root, ledger, password=PASSWORD, settings=settings)
        self._hosted = process.host(core, self._completed)
        process.tell(self._hosted, Tail(self, first))

    def delivered(self, hosted: Hosted, effect: Delivered) -> None:
        """Entries have come."""
        assert self.after is not None
        for entry in effect.entries:
            self._process.judge.reads(self.after.ledger, entry.entry, entry.payload)
            self.after = Position(self.after.ledger, entry.entry)
            self._deliver(self.after, entry.payload)
        self._process.tell(hosted, Consumed(effect.token, effect.entries[-1].entry))

    def _completed(self, _token: Hashable, outcome: object) -> None:
        assert self.after is not None
        ledger, judge = self.after.ledger, self._process.judge
        self._leave()
        judge.counts[f"walks: {type(outcome).__name__}"] += 1
        match outcome:
            case ReadDone(last):
                judge.hears_end(ledger, last)
                self._ended = ledger
                self._look()
                return
            case LedgerMissing() | ReadUnavailable() | MetadataUnreadable():
                pass
            case _:
                judge.cannot_read(ledger, outcome)
        self._look_later()
