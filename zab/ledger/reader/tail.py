"""The tail of a ledger that is still written: when to ask for news, whom, and how news are proved.

    polling   a long poll to the member that leads the write set of the next entry. It ends when the bookie knows of a
              higher LAC, or after `poll_ms`
    proving   the bookie named a higher LAC, which proves nothing: its explicit LAC or its highest record may
    resting   neither brought anything: a pause, then the next member. One that the writer has replaced never hears news

A bookie that answers at once whatever it is asked, since its version of the protocol has no long polls, is asked as
rarely as the pause allows.
"""

from __future__ import annotations

import enum

from attrs import define

from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.reader.events import ReaderSettings
from zab.ledger.reader.range_read import RangeRead
from zab.ledger.store.events import Send
from zab.ledger.wire.messages import ReadEntry, ReadLac


class _Phase(enum.Enum):
    RESTING = 1
    POLLING = 2
    PROVING = 3


@define(eq=False)
class TailRead:
    """`range.end` is the last confirmed entry as the reader knows it."""

    range: RangeRead
    _ledger: int
    _settings: ReaderSettings
    _phase: _Phase = _Phase.RESTING
    _due_ms: int = 0
    """Resting: until when; else when the answer is too late."""
    _sent_ms: int = 0
    _pause_ms: int = 0
    _turn: int = 0
    """Which member of the write set is asked."""
    bookie: BookieId | None = None
    request: ReadEntry | ReadLac | None = None
    """What is under way."""

    @property
    def deadline_ms(self) -> int | None:
        return self._due_ms if self.range.is_over else None

    def tick(self, metadata: LedgerMetadata, lac: int, now_ms: int) -> Send | None:
        """Ask, if everything that is confirmed was delivered and it is time."""
        if not self.range.is_over or now_ms < self._due_ms:
            return None
        if self._phase is not _Phase.RESTING:
            self.rest(now_ms)
            if now_ms < self._due_ms:
                return None
        members = self._members(metadata, lac)
        bookie = members[self._turn % len(members)]
        self._phase, self._sent_ms = _Phase.POLLING, now_ms
        self._due_ms = now_ms + self._settings.poll_ms + self._settings.request_timeout_ms
        return self._send(
            bookie,
            ReadEntry(self._ledger, NONE, previous_lac=lac, wait_ms=self._settings.poll_ms, wants_piggyback=True),
        )

    def prove(self, bookie: BookieId, now_ms: int) -> Send:
        """This bookie has named a higher LAC: ask for the proof."""
        self._phase = _Phase.PROVING
        self._due_ms = now_ms + self._settings.request_timeout_ms
        return self._send(bookie, ReadLac(self._ledger))

    def on_news(self) -> None:
        """A higher LAC was proved."""
        self._phase, self._due_ms, self._pause_ms, self.request = _Phase.RESTING, 0, 0, None

    def rest(self, now_ms: int) -> None:
        """What was asked brought nothing: the next member, but not too often."""
        self._turn += 1
        if self._phase is _Phase.POLLING and now_ms - self._sent_ms >= self._settings.poll_ms:
            self._pause_ms = 0
        else:
            settings = self._settings
            self._pause_ms = min(max(settings.retry_ms, 2 * self._pause_ms), settings.retry_max_ms)
        self._phase, self._due_ms, self.request = _Phase.RESTING, now_ms + self._pause_ms, None

    def _members(self, metadata: LedgerMetadata, lac: int) -> list[BookieId]:
        ensemble = metadata.last_fragment.ensemble
        return [ensemble[at] for at in write_set(lac + 1, metadata.ensemble_size, metadata.write_quorum)]

    def _send(self, bookie: BookieId, request: ReadEntry | ReadLac) -> Send:
        self.bookie, self.request = bookie, request
        return Send(bookie, request)
