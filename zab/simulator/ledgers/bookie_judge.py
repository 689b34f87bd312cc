"""What a bookie may answer, and what it has to keep. The rules have the numbers of the guarantees of a ledger, or name
what a bookie does.

    "G3"        an entry has the same bytes in every answer
    "G8"        a bookie that did not have an entry at a fencing read of it never acknowledges an ordinary add of it
    durability  what was answered survives: an entry, an explicit LAC, a fence
    absence     NO_ENTRY or NO_LEDGER is said only of what the bookie has never acknowledged, or of a deleted ledger
    marks       a checkpoint never falls, and no journal above it is removed
    collection  only ledgers are removed that are gone from the metadata; entries go as well that the metadata of a
                closed ledger do not expect on the bookie

Not here: what users of ledgers are told (`judge`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from zab.ledger.entries.envelope import header_of, lac_header_of
from zab.ledger.entries.ids import BookieId
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    BatchRead,
    EntryRead,
    LacRead,
    LacWritten,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    WriteLac,
)
from zab.ledger.wire.status import Status
from zab.simulator.ledgers.judge import Judge
from zab.simulator.world.verdict import SafetyError, demand

HIGHEST: Final = -1
"""In place of an entry: the one with the highest id."""


@attrs.frozen
class Before:
    """What a bookie had said of a ledger when a request came: what it answers later may not be older."""

    has_entry: bool = False
    """Whether it had acknowledged the entry that is asked for."""
    highest: int = HIGHEST
    """The highest entry that it had acknowledged."""
    explicit_lac: int = HIGHEST


@attrs.define(eq=False)
class OnBookie:
    """What one bookie has said of one ledger."""

    held: set[int] = attrs.Factory(set)
    """The entries that it has acknowledged, durably."""
    denied: set[int] = attrs.Factory(set)
    """The entries that it did not have when it answered a fencing read of them."""
    highest: int = HIGHEST
    explicit_lac: int = HIGHEST
    """The highest explicit LAC that it has acknowledged."""
    is_removed: bool = False
    is_denied: bool = False
    """Whether it had no entry at all when it answered a fencing read."""
    is_fenced: bool = False
    """Whether it has answered a fencing read: with an entry, or without one."""


_NOTHING: Final = Before()


class BookieJudge:
    """See the docstring of the module."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._bookies: dict[BookieId, dict[int, OnBookie]] = {}
        self._marks: dict[BookieId, tuple[int, int]] = {}

    def of(self, bookie: BookieId, ledger: int) -> OnBookie:
        """What this bookie has said of this ledger."""
        return self._bookies.setdefault(bookie, {}).setdefault(ledger, OnBookie())

    def ledgers_of(self, bookie: BookieId) -> dict[int, OnBookie]:
        """All ledgers that this bookie has said something of."""
        return self._bookies.setdefault(bookie, {})

    # --------------------------------------------------------------------------------------------------------- answers

    def asked(self, bookie: BookieId, request: Request) -> Before:
        """A bookie is given this request."""
        if not isinstance(request, ReadEntry | ReadBatch | ReadLac):
            return _NOTHING
        on = self.of(bookie, request.ledger)
        entry = request.entry if isinstance(request, ReadEntry) else getattr(request, "first", HIGHEST)
        return Before(entry in on.held, on.highest, on.explicit_lac)

    def answers(self, bookie: BookieId, request: Request, answer: Answer, before: Before) -> None:
        """A bookie sends this answer. `before`: what `asked` returned for the request."""
        self._judge.counts[f"{type(answer).__name__}: {_status(answer).value}"] += 1
        match request, answer:
            case AddEntry(), Added(Status.OK):
                self._added(bookie, request)
            case ReadEntry(ledger, entry), EntryRead(status):
                self._read(bookie, request, answer, before)
                self._fenced(bookie, request, status)
                if status.proves_absence and request.previous_lac is None:
                    self._denied(bookie, ledger, entry, before, is_fencing=request.is_fencing)
            case ReadBatch(ledger, first), BatchRead(status, _, _, envelopes):
                self._fenced(bookie, request, status)
                for entry, envelope in enumerate(envelopes, first):
                    self._has_bytes(bookie, ledger, entry, envelope)
                if status.proves_absence:
                    self._denied(bookie, ledger, first, before, is_fencing=request.is_fencing)
            case WriteLac(ledger, lac), LacWritten(Status.OK):
                on = self.of(bookie, ledger)
                on.explicit_lac = max(on.explicit_lac, lac)
            case _, LacRead(Status.OK):
                self._lac_read(bookie, answer, before)

    def _added(self, bookie: BookieId, request: AddEntry) -> None:
        on = self.of(bookie, request.ledger)
        where = f"entry {request.entry} of ledger {request.ledger}"
        if not request.is_recovery and (request.entry in on.denied or on.is_denied):
            raise SafetyError("G8", f"{bookie} acknowledges {where}, which it did not have at a fencing read")
        if not request.is_deferred:
            on.held.add(request.entry)
            on.highest = max(on.highest, request.entry)
            self._judge.has_copy(bookie, request.ledger, request.entry)
        self._judge.has_bytes(request.ledger, request.entry, request.envelope, f"is on {bookie}")

    def _read(self, bookie: BookieId, request: ReadEntry, answer: EntryRead, before: Before) -> None:
        if answer.max_lac is not None:
            self._judge.shows(request.ledger, answer.max_lac, f"an answer of {bookie}")
        if answer.status is not Status.OK or not answer.envelope:
            return
        ledger, entry, lac, _ = header_of(answer.envelope)
        demand(ledger == request.ledger, "G3", f"{bookie} answers with ledger {ledger} for {request.ledger}")
        if request.entry >= 0:
            demand(entry == request.entry, "G3", f"{bookie} answers with entry {entry} for {request.entry}")
        elif request.previous_lac is None:
            highest = before.highest
            text = f"{bookie} says that entry {entry} of ledger {ledger} is its highest, and has acknowledged {highest}"
            demand(entry >= highest, "absence", text)
        self._has_bytes(bookie, ledger, entry, answer.envelope)
        self._judge.shows(ledger, lac, f"entry {entry}, read from {bookie}")

    def _fenced(self, bookie: BookieId, request: ReadEntry | ReadBatch, status: Status) -> None:
        if request.is_fencing and (status is Status.OK or status.proves_absence):
            self.of(bookie, request.ledger).is_fenced = True

    def _has_bytes(self, bookie: BookieId, ledger: int, entry: int, envelope: bytes) -> None:
        self._judge.has_bytes(ledger, entry, envelope, f"is read from {bookie}")

    def _denied(self, bookie: BookieId, ledger: int, entry: int, before: Before, *, is_fencing: bool) -> None:
        """It says that it does not have this entry, or none at all."""
        on = self.of(bookie, ledger)
        known = self._judge.ledgers.get(ledger)
        is_gone = known is not None and known.is_deleted
        if not is_gone and (before.has_entry or (entry == HIGHEST and before.highest != HIGHEST)):
            what = f"any entry of ledger {ledger}" if entry == HIGHEST else f"entry {entry} of ledger {ledger}"
            raise SafetyError("absence", f"{bookie} says that it does not have {what}, and has acknowledged it")
        if is_fencing and entry == HIGHEST:
            on.is_denied = True
        elif is_fencing:
            on.denied.add(entry)

    def _lac_read(self, bookie: BookieId, answer: LacRead, before: Before) -> None:
        lac = HIGHEST
        if answer.packet:
            lac = lac_header_of(answer.packet)[1]
            self._judge.shows(answer.ledger, lac, f"an explicit LAC of {bookie}")
        if answer.envelope:
            ledger, entry, piggybacked, _ = header_of(answer.envelope)
            self._has_bytes(bookie, ledger, entry, answer.envelope)
            lac = max(lac, piggybacked)
        known = before.explicit_lac
        text = f"{bookie} says that the LAC of ledger {answer.ledger} is {lac}, and has acknowledged {known}"
        demand(lac >= known, "durability", text)

    # --------------------------------------------------------------------------------------------------------- storage

    def restarted(
        self, bookie: BookieId, ledger: int, entries: Iterable[int], *, explicit_lac: int, is_fenced: bool
    ) -> None:
        """A bookie has recovered from its disk: it has these entries of a ledger, this explicit LAC, and this fence."""
        on = self.of(bookie, ledger)
        known = self._judge.ledgers.get(ledger)
        if on.is_removed or known is None or known.is_deleted:
            return
        lost = sorted(on.held.difference(entries))
        if lost:
            text = f"{bookie} has acknowledged entry {lost[0]} of ledger {ledger}, and has it no more after its start"
            raise SafetyError("durability", text)
        lac = f"{bookie} has acknowledged the explicit LAC {on.explicit_lac} of ledger {ledger}, and has {explicit_lac}"
        demand(explicit_lac >= on.explicit_lac, "durability", f"{lac} after its start")
        fence = f"{bookie} has answered a fencing read of ledger {ledger}, and is not fenced after its start"
        demand(is_fenced or not on.is_fenced, "durability", fence)

    def checkpoints(self, bookie: BookieId, mark: tuple[int, int]) -> None:
        """A bookie writes down that everything before this place in its journals (file, offset) is in its segments."""
        before = self._marks.get(bookie, (0, 0))
        demand(mark >= before, "marks", f"the checkpoint of {bookie} falls from {before} to {mark}")
        self._marks[bookie] = mark

    def removes_journals(self, bookie: BookieId, below: int) -> None:
        """A bookie removes its journal files with lower numbers."""
        mark = self._marks.get(bookie, (0, 0))
        demand(below <= mark[0], "marks", f"{bookie} removes the journals below {below}, its checkpoint is {mark}")

    def removes(self, bookie: BookieId, ledger: int) -> None:
        """A bookie removes a ledger."""
        known = self._judge.ledgers.get(ledger)
        if known is not None and not known.is_deleted:
            raise SafetyError("collection", f"{bookie} removes ledger {ledger}, which is in the metadata")
        self._judge.counts["ledgers collected"] += 1
        self.of(bookie, ledger).is_removed = True

    def empties(self, bookie: BookieId, ledger: int) -> None:
        """A bookie lets go of the entries of a ledger."""
        known = self._judge.ledgers.get(ledger)
        if known is not None and not known.is_deleted:
            is_surplus = known.metadata.is_closed and bookie not in known.metadata.bookies
            demand(
                is_surplus, "collection", f"{bookie} lets go of the entries of ledger {ledger}, which it has to have"
            )
            for copies in known.copies.values():
                copies.discard(bookie)
        self._judge.counts["ledgers emptied"] += 1
        on = self.of(bookie, ledger)
        on.held.clear()
        on.highest = HIGHEST

    def loses_disk(self, bookie: BookieId) -> None:
        """A bookie starts again from nothing, under its name."""
        self._bookies.pop(bookie, None)
        self._marks.pop(bookie, None)
        self._judge.loses_disk(bookie)


def _status(answer: Answer) -> Status:
    return answer.status
