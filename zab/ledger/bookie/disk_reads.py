"""Searches that wait for bytes of segments: which is asked for next, and how much at a time.

    start(search, then)     run a search; `then` gets what it returns, or the UnreadableError that it raised
    done(token, data)       bytes have come
    take()                  what is to be read now

Urgent searches, of fences and recoveries, go first, and half of the places are theirs alone.
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
    wanted: Wanted


class DiskReads:
    """All searches of a bookie that wait."""

    def __init__(self, config: BookieConfig) -> None:
        self._config = config
        self._urgent: deque[_Running] = deque()
        self._ordinary: deque[_Running] = deque()
        self._under_way: dict[int, _Running] = {}
        self._bytes = 0
        self._token = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary) + len(self._under_way)

    def has_room(self, *, is_urgent: bool) -> bool:
        """Whether another search may begin."""
        return len(self) < (self._config.reads_max if is_urgent else self._config.reads_max // 2)

    def start(self, search: Search[Any], then: Callable[[Any], None], *, is_urgent: bool) -> None:
        """Run a search until it waits, or to its end."""
        self._go_on(search, then, is_urgent, None)

    def _go_on(self, search: Search[Any], then: Callable[[Any], None], is_urgent: bool, data: bytes | None) -> None:
        try:
            wanted = search.send(data)
        except StopIteration as end:
            then(end.value)
        except UnreadableError as error:
            then(error)
        else:
            (self._urgent if is_urgent else self._ordinary).append(_Running(search, then, is_urgent, wanted))

    def done(self, token: int, data: bytes | None) -> None:
        """The answer to a read."""
        running = self._under_way.pop(token)
        self._bytes -= running.wanted.size
        self._go_on(running.search, running.then, running.is_urgent, data)

    def take(self) -> list[ReadSegment]:
        """What may be read now: urgent reads first, and not more bytes at a time than allowed, but one in any case."""
        reads = []
        while waiting := self._urgent or self._ordinary:
            wanted = waiting[0].wanted
            if self._under_way and self._bytes + wanted.size > self._config.read_bytes_under_way:
                break
            self._token += 1
            self._under_way[self._token] = waiting.popleft()
            self._bytes += wanted.size
            reads.append(ReadSegment(self._token, wanted.number, wanted.offset, wanted.size))
        return reads
