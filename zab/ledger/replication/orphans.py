"""What the auditor does with ledgers that no managed ledger names any more (`zab.ledger.managed.sweep`).

    orphans.begin_check()                            all ledgers are going to be looked at
    orphans.look(found, now_ms, wall_ms, counts)     of a page of ledgers: closed ones are deleted when it is time, open
                                                     ones are put on a list
    orphans.step(now_ms)                             goes on with recovering those, one at a time: that fences and
                                                     closes them

How long an orphan has been closed is known since this auditor saw it so; a new auditor begins to count again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from zab.coordination.driver import Connected, Submit
from zab.coordination.steps import Steps
from zab.ledger.managed.sweep import Sweep, look_at, may_be_orphan
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.placement.placement import Placement
from zab.ledger.recovery.events import Recovered
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.events import BookiesKnown, ClientInput, Completed, Send
from zab.ledger.store.ledgers import Deleted, delete_ledger

ORPHANS_MAX: Final = 1_000
"""So many wait at the most to be recovered, and of so many it is remembered when they were closed. The others have to
wait for the next check."""


class Orphans:
    """See the docstring of the module. It is told what an auditor is told.

    done: counts what is done, for as long as the auditor lives: orphans closed, not closed, and deleted.
    """

    def __init__(self, root: str, placement: Placement, done: Counter[str]) -> None:
        self._root = root
        self._placement = placement
        self._done = done
        self._closed_ms: dict[int, int] = {}
        self._closed_before_ms: dict[int, int] = {}
        """When an orphan was first seen closed: of those that this check has found, and the last one."""
        self._to_recover: deque[int] = deque()
        self._recovery: Recovery | None = None
        self._inbox: list[ClientInput] = []
        self._connected: Connected | None = None
        self._known: BookiesKnown | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest; 0: at once."""
        if self._recovery is None:
            return 0 if self._to_recover else None
        return self._recovery.deadline_ms

    def is_mine(self, owner: object) -> bool:
        """Whether the recovery that goes on has asked for this."""
        return owner is self._recovery

    def take(self, each: ClientInput) -> None:
        """Something has happened."""
        match each:
            case Connected():
                self._connected = each
            case BookiesKnown():
                self._known = each
        if self._recovery is not None:
            self._inbox.append(each)

    def clear(self) -> None:
        """It is no auditor any more."""
        self._closed_ms.clear()
        self._closed_before_ms.clear()
        self._to_recover.clear()
        self._recovery = self._connected = None
        self._inbox.clear()

    def begin_check(self) -> None:
        """What the last check did not find is forgotten."""
        self._closed_before_ms, self._closed_ms = self._closed_ms, {}

    def look(self, found: Sequence[VersionedMetadata], now_ms: int, wall_ms: int, counts: Counter[str]) -> Steps[None]:
        """Look at these ledgers again, one after the other, and count what they are."""
        for ledger in (each.ledger for each in found if may_be_orphan(each.metadata)):
            closed_ms = self._closed_before_ms.get(ledger)
            closed_for_ms = None if closed_ms is None else now_ms - closed_ms
            what, newest = yield from look_at(self._root, ledger, wall_ms, closed_for_ms)
            match what:
                case Sweep.RECOVER:
                    counts["orphans: ledgers to be closed"] += 1
                    if len(self._to_recover) < ORPHANS_MAX and ledger not in self._to_recover:
                        self._to_recover.append(ledger)
                case Sweep.WAIT:
                    counts["orphans: closed ledgers that are kept for a day"] += 1
                    if len(self._closed_ms) < ORPHANS_MAX:
                        self._closed_ms[ledger] = now_ms if closed_ms is None else closed_ms
                case Sweep.DELETE:
                    assert newest is not None
                    if isinstance((yield from delete_ledger(self._root, newest)), Deleted):
                        counts["orphans: ledgers deleted"] += 1
                        self._done["orphans deleted"] += 1
                case Sweep.KEEP:
                    pass

    def step(self, now_ms: int) -> list[tuple[Recovery, Send | Submit]]:
        """What the recovery asks for, which goes on now."""
        if self._recovery is None and self._to_recover and self._connected is not None:
            self._recovery = Recovery(self._root, self._to_recover.popleft(), self._placement)
            self._inbox = [each for each in (self._connected, self._known) if each is not None]
        recovery, inbox = self._recovery, self._inbox
        if recovery is None:
            return []
        self._inbox = []
        asked: list[tuple[Recovery, Send | Submit]] = []
        for effect in recovery.step(now_ms, inbox):
            if isinstance(effect, Completed):
                self._done["orphans closed" if isinstance(effect.outcome, Recovered) else "orphans not closed"] += 1
            else:
                asked.append((recovery, effect))
        if recovery.is_over:
            self._recovery = None
        return asked
