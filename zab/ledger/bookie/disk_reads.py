"""Searches that wait for bytes of segments: which is asked for next, and how much at a time.

    start(search, then)     run a search; `then` gets what it returns, or the UnreadableError that it raised
    begin_long()            begin some of those that are long, in each step
    done(token, data)       bytes have come
    take()                  what is to be read now

Urgent searches, of fences and recoveries, go first, and half of the places are theirs alone. Long ones, of which a few
bytes may ask for much, wait until few others are under way: so what they gather and what a step does have limits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import ReadSegment
from zab.ledger.bookie.segments import Search, UnreadableError, Wanted


@attrs.define(eq=False)
class _Running:
    search: Search[Any]
    then: Callable[[Any], None]
    is_urgent: bool
    is_long: bool
    wanted: Wanted | None = None


class DiskReads:
    """All searches of a bookie that wait."""

    def __init__(self, config: BookieConfig) -> None:
        self._config = config
        self._urgent: deque[_Running] = deque()
        self._ordinary: deque[_Running] = deque()
        self._long_urgent: deque[_Running] = deque()
        self._long_ordinary: deque[_Running] = deque()
        self._long_under_way = 0
        self._under_way: dict[int, _Running] = {}
        self._bytes = 0
        self._token = 0

    def __len__(self) -> int:
        waiting = (self._urgent, self._ordinary, self._long_urgent, self._long_ordinary, self._under_way)
        return sum(map(len, waiting))

    @property
    def deadline_ms(self) -> int | None:
        """When `begin_long` has something to do."""
        waiting = self._long_urgent or self._long_ordinary
        return 0 if waiting and self._long_under_way < self._config.long_reads_max else None

    def has_room(self, *, is_urgent: bool) -> bool:
        """Whether another search may begin."""
        return len(self) < (self._config.reads_max if is_urgent else self._config.reads_max // 2)

    def start(
        self, search: Search[Any], then: Callable[[Any], None], *, is_urgent: bool, is_long: bool = False
    ) -> None:
        """Run a search until it waits, or to its end; if it is long, in `begin_long`."""
        running = _Running(search, then, is_urgent, is_long)
        if is_long:
            (self._long_urgent if is_urgent else self._long_ordinary).append(running)
        else:
            self._go_on(running, None)

    def begin_long(self) -> None:
        """Begin as many long searches as a step may, urgent ones first."""
        for _ in range(self._config.long_reads_per_step):
            if self.deadline_ms is None:
                return
            self._long_under_way += 1
            self._go_on((self._long_urgent or self._long_ordinary).popleft(), None)

    def _go_on(self, running: _Running, data: bytes | None) -> None:
        try:
            running.wanted = running.search.send(data)
        except StopIteration as end:
            found = end.value
        except UnreadableError as error:
            found = error
        else:
            (self._urgent if running.is_urgent else self._ordinary).append(running)
            return
        self._long_under_way -= running.is_long
        running.then(found)

    def done(self, token: int, data: bytes | None) -> None:
        """The answer to a read."""
        running = self._under_way.pop(token)
        assert running.wanted is not None
        self._bytes -= running.wanted.size
        self._go_on(running, data)

    def take(self) -> list[ReadSegment]:
        """What may be read now: urgent reads first, and not more bytes at a time than allowed, but one in any case."""
        reads = []
        while waiting := self._urgent or self._ordinary:
            wanted = waiting[0].wanted
            assert wanted is not None
            if self._under_way and self._bytes + wanted.size > self._config.read_bytes_under_way:
                break
            self._token += 1
            self._under_way[self._token] = waiting.popleft()
            self._bytes += wanted.size
            reads.append(ReadSegment(self._token, wanted.number, wanted.offset, wanted.size))
        return reads
