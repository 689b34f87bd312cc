"""A client that reads ledgers: it follows one that is written, from its beginning, to its end or until it has had
enough; at the end it reads all of them whole.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import attrs

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
from zab.simulator.world.schedule import MS


@attrs.define(eq=False)
class Following:
    """A ledger that is followed."""

    hosted: Hosted
    ledger: int
    is_whole: bool
    """Whether it goes on until everything is read."""
    found: list[int] = attrs.Factory(list)


class ReaderProcess(LedgerClient):
    """See the docstring of the module."""

    def begin(self) -> None:
        self.following: dict[int, Following] = {}
        self._tokens = 0
        self.later(self.plan.after(1_000 * MS), self._look)

    def _look(self) -> None:
        self.later(self.plan.after(1_000 * MS), self._look)
        if self.plan.is_stopped:
            return
        wishes = self.plan.wishes()
        ledgers = self.judge.not_closed or list(self.judge.ledgers)
        patience_us = self.plan.after(5_000 * MS)
        if wishes and ledgers:
            token = self.follow(self.plan.rng.choice(ledgers[-3:]))
            self.later(patience_us, self._leave, token)

    def follow(self, ledger: int, *, is_whole: bool = False) -> int:
        """Read a ledger from its beginning to its end."""
        timeout_ms = self.profile.request_timeout_ms
        settings = ReaderSettings(
            window_entries=self.plan.rng.choice((2, 16, 256)),
            request_timeout_ms=timeout_ms,
            retry_max_ms=timeout_ms,
            poll_ms=2 * timeout_ms,
            hedges_share=self.plan.rng.choice((0.05, 1.0)),
        )
        hosted = self.host(Reader(self.root, ledger, settings=settings), self._over)
        self._tokens += 1
        self.following[self._tokens] = Following(hosted, ledger, is_whole)
        self.tell(hosted, Tail(self._tokens, 0))
        return self._tokens

    def effect(self, hosted: Hosted, effect: Any) -> None:
        assert isinstance(effect, Delivered)
        assert isinstance(effect.token, int)
        following = self.following[effect.token]
        for entry in effect.entries:
            self.judge.reads(following.ledger, entry.entry, entry.payload)
            following.found.append(entry.entry)
        self.tell(hosted, Consumed(effect.token, effect.entries[-1].entry))

    def _leave(self, token: int) -> None:
        """It has had enough of this one."""
        following = self.following.pop(token, None)
        if following is not None:
            self.dismiss(following.hosted)

    def _over(self, token: Hashable, outcome: object) -> None:
        assert isinstance(token, int)
        following = self.following.pop(token)
        self.dismiss(following.hosted)
        self.judge.counts[f"tails: {type(outcome).__name__}"] += 1
        match outcome:
            case ReadDone(last):
                self.plan.done_count += 1
                self.judge.hears_end(following.ledger, last)
                self.judge.is_whole(following.ledger, following.found)
            case ReadUnavailable() | MetadataUnreadable() | LedgerMissing():
                if following.is_whole and not self.judge.of(following.ledger).is_deleted:
                    self.follow(following.ledger, is_whole=True)
            case _:
                self.judge.cannot_read(following.ledger, outcome)
