"""Reads that wait until a ledger has a higher LAC: who waits, and for how long.

A watcher ends when the LAC rises, when the ledger is fenced or deleted, when its time is over, or with its connection.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import Connection, Number
from zab.ledger.bookie.ledgers import Ledger, Watcher
from zab.ledger.wire.messages import ReadEntry


class LongPolls:
    """All watchers of a bookie."""

    def __init__(self, config: BookieConfig) -> None:
        self._config = config
        self._by_connection: dict[Connection, dict[Watcher, None]] = {}
        self._heap: list[tuple[int, int, Watcher]] = []
        self._numbers = count()
        self._done = 0
        """How many watchers in the heap are done."""

    def __len__(self) -> int:
        return len(self._heap) - self._done

    def add(self, connection: Connection, number: Number, request: ReadEntry, ledger: Ledger, now_ms: int) -> bool:
        """Wait; False if the connection has too many watchers."""
        own = self._by_connection.setdefault(connection, {})
        if len(own) >= self._config.watchers_max:
            return False
        watcher = Watcher(connection, number, request, ledger)
        own[watcher] = None
        if ledger.watchers is None:
            ledger.watchers = {}
        ledger.watchers[watcher] = None
        wait_ms = min(max(request.wait_ms or 0, 0), self._config.watch_ms_max)
        heappush(self._heap, (now_ms + wait_ms, next(self._numbers), watcher))
        return True

    @property
    def deadline_ms(self) -> int | None:
        """When the next one ends, at the latest."""
        self._skim()
        return self._heap[0][0] if self._heap else None

    def _skim(self) -> None:
        while self._heap and self._heap[0][2].is_done:
            heappop(self._heap)
            self._done -= 1
        if self._done > 64 and self._done > len(self._heap) // 2:
            self._heap = [each for each in self._heap if not each[2].is_done]
            heapify(self._heap)
            self._done = 0

    def due(self, now_ms: int) -> list[Watcher]:
        """The watchers whose time is over; they are done."""
        found = []
        while (deadline := self.deadline_ms) is not None and deadline <= now_ms:
            watcher = self._heap[0][2]
            self._end(watcher)
            assert watcher.ledger.watchers is not None
            del watcher.ledger.watchers[watcher]
            found.append(watcher)
        return found

    def wake(self, ledger: Ledger) -> list[Watcher]:
        """The watchers of a ledger; they are done."""
        found, ledger.watchers = list(ledger.watchers or ()), None
        for watcher in found:
            self._end(watcher)
        return found

    def close(self, connection: Connection) -> None:
        """Forget those of a connection."""
        for watcher in list(self._by_connection.get(connection, ())):
            self._end(watcher)
            if watcher.ledger.watchers is not None:
                del watcher.ledger.watchers[watcher]

    def _end(self, watcher: Watcher) -> None:
        watcher.is_done = True
        self._done += 1
        own = self._by_connection[watcher.connection]
        del own[watcher]
        if not own:
            del self._by_connection[watcher.connection]
