"""The reader of a ledger, as callers have it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Hashable
from types import TracebackType
from typing import Any, Final, Self

from zab.client.core.backends import Waiter
from zab.ledger.entries.envelope import Entry
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.reader.events import Consumed, Delivered, LacLearnt, LearnLac, ReadDone, ReadRange, Stop, Tail
from zab.ledger.reader.reader import Reader as ReaderCore
from zab.ledgers.driving import Driven, Driving
from zab.ledgers.outcomes import reader_error
from zab.ledgers.parts import Parts

CONSUMED_BYTES: Final = 1024 * 1024
"""The reader core is told what was consumed after so many bytes, and at the end of what it delivered."""


class _Stream:
    """What was delivered and not taken, of one question. The core has it, so it does not know its iterator."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        self.outcome: object = None
        self.waiter: Waiter | None = None

    def deliver(self, entries: tuple[Entry, ...]) -> None:
        self.entries += entries
        self.wake()

    def complete(self, outcome: object) -> None:
        self.outcome = outcome
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None:
            self.waiter.wake()


class Entries(AsyncIterator[Entry]):
    """`async for entry in …`: entries in order. It stops when it is closed, or is no longer used."""

    def __init__(self, reader: LedgerReader, question: type[ReadRange | Tail], *given: Any) -> None:
        self._reader = reader
        self._stream = stream = _Stream()
        self._consumed = 0
        self._is_over = False
        reader.ask(question(stream, *given))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        stream = self._stream
        while not stream.entries:
            if self._is_over:
                raise StopAsyncIteration
            if stream.outcome is not None:
                self._is_over = True
                if isinstance(stream.outcome, ReadDone):
                    raise StopAsyncIteration
                raise reader_error(self._reader.id, stream.outcome)
            stream.waiter = self._reader.waiter()
            try:
                await stream.waiter.wait()
            finally:
                stream.waiter = None
        entry = stream.entries.popleft()
        self._consumed += len(entry.payload)
        if not stream.entries or self._consumed >= CONSUMED_BYTES:
            self._consumed = 0
            if stream.outcome is None:
                self._reader.ask(Consumed(stream, entry.entry))
        return entry

    def close(self) -> None:
        """Read no more. No-op if it is over."""
        if not self._is_over:
            self._is_over = True
            self._stream.entries.clear()
            self._reader.ask(Stop(self._stream))

    def __del__(self) -> None:
        stream, driven, driving = self._stream, self._reader.driven, self._reader.driving
        if stream.outcome is None and not self._is_over:
            driving.later(lambda: driven.give(Stop(stream)))


class LedgerReader:
    """Reads one ledger, and never changes it. Tasks may share it. `close` it, or leave its block; a reader that nobody
    has is closed as well."""

    def __init__(self, parts: Parts, ledger: int, password: bytes | None, found: VersionedMetadata) -> None:
        self._parts = parts
        self.id = ledger
        self._found = found
        self._core = ReaderCore(parts.settings.root, ledger, password=password, settings=parts.settings.reader)
        self.driven: Driven = parts.driving.drive(self._core, _deliver)

    def __repr__(self) -> str:
        return f"<LedgerReader of {self.id}, {self.metadata.state.name}, confirmed up to {self.last_confirmed}>"

    @property
    def metadata(self) -> LedgerMetadata:
        """The newest that were seen."""
        newest = self._core.versioned
        return self._found.metadata if newest is None else newest.metadata

    @property
    def last_confirmed(self) -> int:
        """The last entry that this reader knows to be confirmed, -1: none; of a closed ledger its last entry."""
        if self._core.versioned is None:
            metadata = self._found.metadata
            return metadata.last if metadata.is_closed else metadata.last_fragment.first - 1
        return self._core.lac

    @property
    def mismatches(self) -> int:
        """How many copies of entries were damaged."""
        return self._core.mismatches

    def entries(self, first: int = 0, last: int | None = None, *, is_unconfirmed: bool = False) -> Entries:
        """The entries from `first` to `last`, or to the last one that is known to be confirmed.

        Raises NotConfirmedError if `last` is beyond that; with `is_unconfirmed` it may be, if the ledger is not closed,
        and what is read may be gone later. Raises EntryLostError, ReadUnavailableError, DigestError,
        NoSuchLedgerError.
        """
        return Entries(self, ReadRange, first, self.last_confirmed if last is None else last, is_unconfirmed)

    def tail(self, first: int = 0) -> Entries:
        """The entries from `first` on, as they are confirmed; ends with the end of the closed ledger. Raises as
        `entries`."""
        return Entries(self, Tail, first)

    async def read(self, entry: int) -> Entry:
        """One entry. Raises as `entries`."""
        async for found in self.entries(entry, entry):
            return found
        raise AssertionError("a range without an end")

    async def read_last_confirmed(self) -> int:
        """Ask the bookies for the last confirmed entry; -1: none. Others may be confirmed as well by now. Raises
        LacUnknownError, NoSuchLedgerError."""
        call = self._parts.call()
        self.ask(LearnLac(call))
        outcome = await call.wait()
        if isinstance(outcome, LacLearnt):
            return outcome.lac
        raise reader_error(self.id, outcome)

    def waiter(self) -> Waiter:
        return self._parts.zk.waiter()

    @property
    def driving(self) -> Driving:
        return self._parts.driving

    def ask(self, question: Any) -> None:
        self.driven.give(question)

    def close(self) -> None:
        """Read nothing more."""
        self._parts.driving.end(self.driven)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        driven, driving = self.driven, self._parts.driving
        driving.later(lambda: driving.end(driven))


def _deliver(effect: Delivered) -> None:
    stream: Hashable = effect.token
    assert isinstance(stream, _Stream)
    stream.deliver(effect.entries)
