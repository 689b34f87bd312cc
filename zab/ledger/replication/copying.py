"""Copies entries of a complete fragment to one bookie, verbatim.

Entries are read by a `Reader`, which asks the members that the metadata name, verifies each record, and goes on to the
next replica. A verified entry, packed again with the same digest, has the bytes that its writer made. It is added with
the recovery flag, since the ledger may be fenced there.

Nothing is read beyond what is acknowledged by more than a window, and not faster than the rate allows. The copy is done
when the bookie has acknowledged every entry; metadata are changed after that, by the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from attrs import define, field, frozen

from zab.coordination.driver import Submit
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.reader.events import Consumed, Delivered, ReadDone, ReaderSettings, ReadOutcome, ReadRange
from zab.ledger.reader.reader import Reader
from zab.ledger.replication.events import WorkerSettings
from zab.ledger.replication.members import Run, pieces
from zab.ledger.replication.rate import Rate
from zab.ledger.store.events import Answered, ClientInput, Completed, Send
from zab.ledger.wire.messages import Added, AddEntry
from zab.ledger.wire.status import Status


@frozen
class Copied:
    """The bookie has all entries."""

    entries: int
    bytes: int


@frozen
class SourceFailed:
    """An entry could not be read."""

    entry: int
    outcome: ReadOutcome


@frozen
class TargetFailed:
    """The bookie did not take an entry."""

    bookie: BookieId
    status: Status


CopyOutcome: TypeAlias = Copied | SourceFailed | TargetFailed


@define(eq=False)
class _Adding:
    """One entry that is sent. `due_ms`: when it is late, or when a bookie that was busy gets it again."""

    request: AddEntry
    token: int
    due_ms: int
    is_resting: bool = False
    busy: int = 0


@define(eq=False)
class _Run:
    """A run that is read: what was delivered of it, and whether all was."""

    delivered: int
    is_read: bool = False
    waiting: set[int] = field(factory=set)
    """Entries that are delivered and not acknowledged."""
    consumed: int = -1


class Copying:
    """`step` until `outcome` is there."""

    def __init__(
        self,
        root: str,
        versioned: VersionedMetadata,
        target: BookieId,
        runs: Iterable[Run],
        rate: Rate,
        settings: WorkerSettings,
    ) -> None:
        metadata = versioned.metadata
        self._ledger = versioned.ledger
        self._digest = Digest(metadata.digest_type, metadata.password)
        self._target = target
        self._rate = rate
        self._settings = settings
        self._to_read: Iterator[Run] = pieces(runs, settings.run_entries)
        self._next = next(self._to_read, None)
        self._reader = Reader(
            root,
            versioned.ledger,
            settings=ReaderSettings(
                buffer_bytes=settings.window_bytes, request_timeout_ms=settings.request_timeout_ms, hedges_share=0.0
            ),
        )
        self._reading: dict[int, _Run] = {}
        self._adding: dict[int, _Adding] = {}
        self._tokens = 0
        self._may_send_ms: int | None = 0
        """When the rate allows more; None: it does."""
        self._entries = self._bytes = 0
        self.outcome: CopyOutcome | None = None

    @property
    def deadline_ms(self) -> int | None:
        times = [self._reader.deadline_ms, self._may_send_ms, *(each.due_ms for each in self._adding.values())]
        return min((each for each in times if each is not None), default=None)

    def step(self, now_ms: int, inputs: Iterable[ClientInput]) -> list[Send | Submit]:
        """Take what happened, and say what is to be done."""
        effects: list[Send | Submit] = []
        to_reader: list[ClientInput | ReadRange | Consumed] = []
        for each in inputs:
            if isinstance(each, Answered) and isinstance(each.request, AddEntry):
                self._on_added(each, now_ms)
            else:
                to_reader.append(each)
        effects += self._tick(now_ms)
        while self.outcome is None:
            to_reader += self._allow(now_ms)
            before = len(effects)
            for effect in self._reader.step(now_ms, to_reader):
                match effect:
                    case Delivered(token, entries):
                        assert isinstance(token, int)
                        effects += [self._add(token, entry, now_ms) for entry in entries]
                    case Completed(token, outcome):
                        assert isinstance(token, int)
                        self._on_read(token, outcome)
                    case _:
                        effects.append(effect)
            to_reader = []
            self._look_whether_done()
            if len(effects) == before and not self._has_room(now_ms):
                break
        return effects

    def _has_room(self, now_ms: int) -> bool:
        return (
            self._next is not None
            and len(self._reading) < self._settings.runs_max
            and self._rate.ready_ms(now_ms) <= now_ms
        )

    def _allow(self, now_ms: int) -> Iterator[ReadRange | Consumed]:
        """Let the reader read on, if the rate allows it."""
        ready_ms = self._rate.ready_ms(now_ms)
        self._may_send_ms = ready_ms if ready_ms > now_ms else None
        if self._may_send_ms is not None:
            return
        for token, run in list(self._reading.items()):
            done = min(run.waiting, default=run.delivered + 1) - 1
            if done > run.consumed:
                run.consumed = done
                yield Consumed(token, done)
            if run.is_read and not run.waiting:
                del self._reading[token]
        while self._next is not None and len(self._reading) < self._settings.runs_max:
            first, last = self._next
            self._next = next(self._to_read, None)
            self._tokens += 1
            self._reading[self._tokens] = _Run(first - 1, consumed=first - 1)
            yield ReadRange(self._tokens, first, last)

    def _add(self, token: int, entry: Entry, now_ms: int) -> Send:
        envelope = self._digest.pack(entry)
        run = self._reading[token]
        run.delivered = entry.entry
        run.waiting.add(entry.entry)
        request = AddEntry(self._ledger, entry.entry, self._digest.master_key, envelope, is_recovery=True)
        self._adding[entry.entry] = _Adding(request, token, now_ms + self._settings.request_timeout_ms)
        self._rate.pay(len(envelope))
        return Send(self._target, request)

    def _on_read(self, token: int, outcome: object) -> None:
        run = self._reading[token]
        if isinstance(outcome, ReadDone):
            run.is_read = True
        elif self.outcome is None:
            self.outcome = SourceFailed(run.delivered + 1, outcome)  # type: ignore[arg-type]

    def _on_added(self, each: Answered, now_ms: int) -> None:
        assert isinstance(each.answer, Added)
        adding = self._adding.get(each.answer.entry)
        if adding is None or adding.request is not each.request or each.bookie != self._target:
            return
        status = each.answer.status
        if status is Status.OK:
            del self._adding[adding.request.entry]
            self._reading[adding.token].waiting.discard(adding.request.entry)
            self._entries += 1
            self._bytes += len(adding.request.envelope)
        elif status is Status.TOO_MANY_REQUESTS and adding.busy < self._settings.busy_max:
            adding.busy += 1
            adding.is_resting, adding.due_ms = True, now_ms + self._settings.busy_ms
        elif self.outcome is None:
            self.outcome = TargetFailed(self._target, status)

    def _tick(self, now_ms: int) -> Iterator[Send]:
        for adding in self._adding.values():
            if now_ms >= adding.due_ms and self.outcome is None:
                if not adding.is_resting:
                    self.outcome = TargetFailed(self._target, Status.TIMED_OUT)
                    return
                adding.is_resting, adding.due_ms = False, now_ms + self._settings.request_timeout_ms
                yield Send(self._target, adding.request)

    def _look_whether_done(self) -> None:
        is_read = self._next is None and all(run.is_read for run in self._reading.values())
        if self.outcome is None and is_read and not self._adding:
            self.outcome = Copied(self._entries, self._bytes)
