"""Which appends get an id now, which wait for room, and which are refused.

Room is what `pending_bytes_max` and `pending_entries_max` of the ledger leave, and a budget that all writers of a
process may share. Appends get ids in the order in which they came. An append that waits may be cancelled: it never was.

Not here: ids (`pipeline`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from zab.ledger.store.events import Completed
from zab.ledger.writer.events import Append, NotAppended, Reason
from zab.ledger.writer.pipeline import Pipeline
from zab.ledger.writer.settings import WriterSettings

BUDGET_BYTES_MAX = 256 * 1024 * 1024
"""What all writers of a process may have pending, by default."""
BUDGET_WAIT_MS = 10
"""So often a writer that waits for the budget looks whether the others have left some of it."""


class SharedBudget:
    """Payload bytes that are pending, of all writers that share it."""

    def __init__(self, bytes_max: int = BUDGET_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class Admission:
    """Tokens of appends that wait are distinct, or the first of two would never be answered."""

    def __init__(self, settings: WriterSettings, budget: SharedBudget, out: list[object]) -> None:
        self._settings = settings
        self._budget = budget
        self._out = out
        self._charged = 0
        self._waiting: dict[Hashable, Append] = {}
        self._waiting_bytes = 0
        self.is_out_of_budget = False
        """Whether the first one waits for the budget alone."""

    def settle(self, pending_bytes: int) -> None:
        """So much this ledger has pending now."""
        self._budget.used += pending_bytes - self._charged
        self._charged = pending_bytes

    def take(self, run: Iterable[Append], pipeline: Pipeline) -> list[Append]:
        """The appends that get an id now; others wait, or are refused."""
        self.settle(pipeline.pending_bytes)
        settings, budget, waiting = self._settings, self._budget, self._waiting
        entries = settings.pending_entries_max - pipeline.pending
        own = settings.pending_bytes_max - pipeline.pending_bytes
        shared = budget.bytes_max - budget.used
        own_alone, shared_alone = pipeline.pending == 0, budget.used == 0
        taken = []
        for each in run:
            size = len(each.payload)
            if size > settings.entry_bytes_max:
                self._out.append(Completed(each.token, NotAppended(Reason.ENTRY_TOO_LARGE)))
            elif not waiting and entries > 0 and (size <= own or own_alone) and (size <= shared or shared_alone):
                own_alone = shared_alone = False
                entries, own, shared = entries - 1, own - size, shared - size
                taken.append(each)
            else:
                self._wait(each, size)
        return taken

    def has_room(self, size: int, pipeline: Pipeline) -> bool:
        """Whether `take` would take a single append of this size now."""
        settings, budget, pending = self._settings, self._budget, pipeline.pending_bytes
        self.settle(pending)
        return (
            not self._waiting
            and size <= settings.entry_bytes_max
            and pipeline.lap - pipeline.lac < settings.pending_entries_max
            and (not pending or pending + size <= settings.pending_bytes_max)
            and (not budget.used or budget.used + size <= budget.bytes_max)
        )

    def _wait(self, append: Append, size: int) -> None:
        of = self._settings
        is_full = len(self._waiting) >= of.waiting_appends_max or self._waiting_bytes + size > of.waiting_bytes_max
        if is_full or not append.may_wait:
            self._out.append(Completed(append.token, NotAppended(Reason.NO_ROOM)))
        else:
            assert append.token not in self._waiting, f"two appends that wait have the token {append.token!r}"
            self._waiting[append.token] = append
            self._waiting_bytes += size

    def again(self, pipeline: Pipeline) -> list[Append]:
        """The appends that waited and get an id now."""
        self.is_out_of_budget = False
        if not self._waiting:
            return []
        self.settle(pipeline.pending_bytes)
        settings, taken = self._settings, []
        entries, size = pipeline.pending, 0
        for each in self._waiting.values():
            total = size + len(each.payload)
            if entries >= settings.pending_entries_max or (
                entries and pipeline.pending_bytes + total > settings.pending_bytes_max
            ):
                break
            if self._budget.used + total > self._budget.bytes_max and self._budget.used + size:
                self.is_out_of_budget = True
                break
            taken.append(each)
            entries, size = entries + 1, total
        for each in taken:
            del self._waiting[each.token]
        self._waiting_bytes -= size
        return taken

    def has(self, token: Hashable) -> bool:
        return token in self._waiting

    def cancel(self, token: Hashable) -> None:
        """An append that waits goes away without an answer."""
        append = self._waiting.pop(token, None)
        if append is not None:
            self._waiting_bytes -= len(append.payload)

    def refuse_all(self, reason: Reason) -> None:
        """None of those that wait gets an id."""
        for token in self._waiting:
            self._out.append(Completed(token, NotAppended(reason)))
        self._waiting.clear()
        self._waiting_bytes = 0
        self.is_out_of_budget = False
