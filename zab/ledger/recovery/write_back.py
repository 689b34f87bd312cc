"""Writes back what a recovery has read, verbatim, so that every entry of the closed ledger is on Qa bookies.

Each entry goes to its write set in the **local ensemble**, which begins as that of the metadata. A member that fails is
replaced there, from the first entry on that is not confirmed; the entries under way are sent to the new member (the
slots of `zab.ledger.quorums.slots`). Nothing of this is in the metadata before the ledger is closed: if this recovery
dies, the next one has to ask the bookies that its predecessor asked, not those that were about to get copies.

An entry is confirmed with Qa acknowledgements, in order; it was sent to all Qw. If there is no bookie to replace a
failed one, the failed one keeps its place as long as each write set can get Qa without it.

Not here: who reads, where the ledger ends, the closing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TypeAlias

from attrs import define, field

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.ledger.quorums.coverage import can_acknowledge
from zab.ledger.quorums.slots import Slots
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.store.events import Send
from zab.ledger.wire.messages import AddEntry
from zab.ledger.wire.status import Status

Replace: TypeAlias = Callable[[int, Sequence[BookieId], Set[BookieId]], BookieId | None]
"""From an index, the ensemble and who must not be chosen, to another bookie for this index; None: there is none."""


class StuckError(Exception):
    """Some write set cannot get Qa acknowledgements, and nobody can replace the members that failed."""

    def __init__(self, entry: int, failed: Set[BookieId]) -> None:
        super().__init__(f"entry {entry} cannot be written back without {', '.join(sorted(failed))}")
        self.entry = entry
        self.failed = failed


@define
class _Adding:
    """One entry under way. `bytes`: of the envelope."""

    request: AddEntry
    slots: Slots

    @property
    def entry(self) -> int:
        return self.request.entry


@define
class WriteBack:
    """The entries that are read and not confirmed, and the local ensemble."""

    _ledger: int
    _key: bytes
    _base: LedgerMetadata
    _settings: RecoverySettings
    _replace: Replace
    fragments: list[Fragment] = field(factory=list)
    """In place of the last fragment of the base."""
    _pending: deque[_Adding] = field(factory=deque)
    _failed: dict[BookieId, Status] = field(factory=dict)
    _deadlines: dict[tuple[int, BookieId], int] = field(factory=dict)
    _busy: dict[tuple[int, BookieId], int] = field(factory=dict)
    """How often in a row a bookie was too busy for an entry."""
    _again: dict[tuple[int, BookieId], int] = field(factory=dict)
    """When such a bookie is sent the entry again."""
    pending_bytes: int = 0

    def __attrs_post_init__(self) -> None:
        self.fragments.append(self._base.last_fragment)

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        return self.fragments[-1].ensemble

    @property
    def first_unconfirmed(self) -> int | None:
        return self._pending[0].entry if self._pending else None

    @property
    def deadline_ms(self) -> int | None:
        return min((*self._deadlines.values(), *self._again.values()), default=None)

    @property
    def failed(self) -> dict[BookieId, Status]:
        return dict(self._failed)

    def add(self, entry: int, envelope: bytes, now_ms: int) -> Iterator[Send]:
        """Write back this entry, the next one. It goes to the present ensemble; `mend` moves it if that has failed."""
        request = AddEntry(self._ledger, entry, self._key, envelope, is_recovery=True, is_urgent=True)
        indexes = write_set(entry, self._base.ensemble_size, self._base.write_quorum)
        adding = _Adding(request, Slots(indexes, self.ensemble))
        self._pending.append(adding)
        self.pending_bytes += len(envelope)
        for bookie in adding.slots.bookies:
            if bookie in self._failed:
                adding.slots.fail(bookie)
            else:
                yield self._send(adding, bookie, now_ms)

    def on_answer(self, bookie: BookieId, entry: int, status: Status, now_ms: int) -> None:
        adding = next((each for each in self._pending if each.entry == entry), None)
        if adding is None or bookie not in adding.slots.bookies:
            return
        key = (entry, bookie)
        self._deadlines.pop(key, None)
        if status == Status.OK:
            self._busy.pop(key, None)
            self._again.pop(key, None)
            adding.slots.acknowledge(bookie)
        elif status == Status.TOO_MANY_REQUESTS and (busy := self._busy.get(key, 0) + 1) < self._settings.busy_max:
            self._busy[key] = busy
            self._again[key] = now_ms + self._settings.retry_ms
        elif adding.slots.fail(bookie):
            self._failed[bookie] = status

    def tick(self, now_ms: int) -> Iterator[Send]:
        """What is late has failed; who was too busy is asked again."""
        for (entry, bookie), due_ms in list(self._deadlines.items()):
            if now_ms >= due_ms:
                self.on_answer(bookie, entry, Status.TIMED_OUT, now_ms)
        for (entry, bookie), due_ms in list(self._again.items()):
            if now_ms >= due_ms:
                del self._again[entry, bookie]
                for adding in self._pending:
                    if adding.entry == entry and adding.slots.waits_for(bookie):
                        yield self._send(adding, bookie, now_ms)

    def confirm(self) -> list[int]:
        """The entries that have become confirmed, in order."""
        confirmed = []
        while self._pending and self._pending[0].slots.acknowledged >= self._base.ack_quorum:
            adding = self._pending.popleft()
            confirmed.append(adding.entry)
            self.pending_bytes -= len(adding.request.envelope)
            for bookie in adding.slots.bookies:
                self._forget(adding.entry, bookie)
        return confirmed

    def _forget(self, entry: int, bookie: BookieId) -> None:
        """Nobody waits for this bookie's answer any longer."""
        for timers in (self._deadlines, self._busy, self._again):
            timers.pop((entry, bookie), None)

    def mend(self, now_ms: int) -> Iterator[Send]:
        """Replace the members that have failed and that entries under way need. Raises StuckError."""
        ensemble = list(self.ensemble)
        needed = {index for adding in self._pending for index in adding.slots.indexes}
        broken = [index for index in sorted(needed) if ensemble[index] in self._failed]
        if not broken:
            return
        for index in broken:
            excluded = {*ensemble, *self._base.last_fragment.ensemble, *self._failed}
            if (chosen := self._replace(index, ensemble, excluded)) is not None:
                ensemble[index] = chosen
        failed = {index for index, bookie in enumerate(ensemble) if bookie in self._failed}
        base, first = self._base, self._pending[0].entry
        if not can_acknowledge(failed, base.ensemble_size, base.write_quorum, base.ack_quorum):
            raise StuckError(first, frozenset(self._failed))
        if tuple(ensemble) == self.ensemble:
            return
        if self.fragments[-1].first == first:
            self.fragments.pop()
        self.fragments.append(Fragment(first, tuple(ensemble)))
        for adding in self._pending:
            before = tuple(adding.slots.bookies)
            to_send = adding.slots.repair(ensemble, frozenset(self._failed))
            for bookie in before:
                if bookie not in adding.slots.bookies:
                    self._forget(adding.entry, bookie)
            for bookie in to_send:
                yield self._send(adding, bookie, now_ms)

    def _send(self, adding: _Adding, bookie: BookieId, now_ms: int) -> Send:
        self._deadlines[adding.entry, bookie] = now_ms + self._settings.request_timeout_ms
        return Send(bookie, adding.request)
