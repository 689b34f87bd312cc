"""File effects on their way to the storage of a log, and how far it has confirmed.

    add(effect)          asks for a change
    take(…)              everything asked for since, ending with a `Confirm`
    confirmed(token)     what the storage answers, in order

`written_end` is the offset below which the files have everything, `synced_end` that below which it also survives a
power cut. Both fall when the log is truncated, and no answer to what was asked before raises them again.
"""

from __future__ import annotations

from collections import deque

import attrs

from zab.partition.log.file_effects import Confirm, FileEffect, Token
from zab.partition.log.segment import Segment


@attrs.define
class _Request:
    number: int
    written_end: int
    synced_end: int
    indexed: list[Segment]
    awaited: list[Segment]


class Outbox:
    """The effects of one log. `failure` is the reason why its storage is no longer used."""

    def __init__(self, directory: str, written_end: int, synced_end: int) -> None:
        self.written_end = written_end
        self.synced_end = self.syncs_to = synced_end
        """`syncs_to` is what `synced_end` will be."""
        self.failure: str | None = None
        self._directory = directory
        self._effects: list[FileEffect] = []
        self._requests: deque[_Request] = deque()
        self._number = 0
        self._indexed: list[Segment] = []
        self._awaited: list[Segment] = []

    @property
    def number(self) -> int:
        """The number of the last token."""
        return self._number

    def begin_after(self, number: int) -> None:
        """Have all tokens higher numbers than this: an answer to another log of this directory confirms nothing."""
        assert not self._requests
        self._number = max(self._number, number)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for since the last `take`."""
        return not self._effects

    def add(self, *effects: FileEffect) -> None:
        """Ask for changes."""
        self._effects += effects

    def add_syncs(self, offset: int, *effects: FileEffect, indexed: Segment | None = None) -> None:
        """Ask for changes, after which everything below `offset` is synced, and the indexes of a segment are in their
        files."""
        self._effects += effects
        self.syncs_to = max(self.syncs_to, offset)
        if indexed is not None:
            self._indexed.append(indexed)

    def add_replacement(self, segment: Segment, *effects: FileEffect) -> None:
        """Ask for changes, after which the files of a segment may be read."""
        self._effects += effects
        segment.is_awaited = True
        self._awaited.append(segment)

    def take(self, written_end: int) -> list[FileEffect]:
        """Everything since the last call. Once it is done, the log is written up to `written_end`."""
        self._number += 1
        self._requests.append(_Request(self._number, written_end, self.syncs_to, self._indexed, self._awaited))
        effects, self._effects, self._indexed, self._awaited = self._effects, [], [], []
        effects.append(Confirm(Token(self._directory, self._number)))
        return effects

    def confirmed(self, token: Token) -> list[Segment]:
        """The storage has done everything up to this request; the segments whose index files it has written."""
        assert token.directory == self._directory
        indexed = []
        while self._requests and self._requests[0].number <= token.number:
            request = self._requests.popleft()
            self.written_end, self.synced_end = request.written_end, request.synced_end
            indexed += request.indexed
            for segment in request.awaited:
                segment.is_awaited = False
        return indexed

    def fail(self, reason: str) -> None:
        """The storage failed: nothing more is asked of it."""
        self.failure = reason
        self._effects.clear()

    def truncate(self, offset: int) -> None:
        """The log ends at `offset`: what is on its way confirms no more than that."""
        self.written_end, self.synced_end = min(self.written_end, offset), min(self.synced_end, offset)
        self.syncs_to = min(self.syncs_to, offset)
        for request in self._requests:
            request.written_end, request.synced_end = min(request.written_end, offset), min(request.synced_end, offset)

    def reopen(self, segment: Segment) -> None:
        """Index files of this segment that are on their way do not count."""
        for indexed in [self._indexed, *(request.indexed for request in self._requests)]:
            indexed[:] = [each for each in indexed if each is not segment]

    def restart(self, offset: int) -> None:
        """The log is empty, and begins at `offset`."""
        self.written_end = self.synced_end = self.syncs_to = offset
        for request in self._requests:
            request.written_end = request.synced_end = offset
