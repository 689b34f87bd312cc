"""Auto-recovery on a store: an auditor and a worker (`zab.ledger.replication`), for as long as its session lasts.

    recovery = AutoRecovery(store, name, note, on_end)
    recovery.begin()          they work from now on, also with other things that the store is used for
    recovery.end()            they stop; their locks go with the session

Locks and candidates belong to a session, so the two are told its id. Another session needs another store, and another
`AutoRecovery`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from zab.coordination.driver import Connected, Expired
from zab.ledger.entries.ids import BookieId
from zab.ledger.replication.auditor import Auditor
from zab.ledger.replication.events import AuditorSettings, Noted, WorkerSettings
from zab.ledger.replication.worker import Worker
from zab.ledgers.driving import Driven
from zab.ledgers.store import LedgerStore


class AutoRecovery:
    """See the docstring of the module. `name`: of the bookie in whose name it audits and locks."""

    def __init__(
        self,
        store: LedgerStore,
        name: BookieId,
        note: Callable[[Noted], None],
        on_end: Callable[[], None],
        *,
        auditor: AuditorSettings | None = None,
        worker: WorkerSettings | None = None,
        random: Random | None = None,
    ) -> None:
        """`note`: called with what is to be logged. `on_end`: called when the session is over."""
        rng = random or Random()
        root = store.settings.root
        self.auditor = Auditor(root, name, store.placement, rng, auditor)
        self.worker = Worker(root, name, store.placement, rng, worker)
        self._store = store
        self._note = note
        self._on_end = on_end
        self._driven: list[Driven] = []

    def begin(self) -> None:
        for core in (_Audits(self.auditor, self._session, self._on_end), _Repairs(self.worker, self._session)):
            self._driven.append(self._store.driving.drive(core, self._note))

    def end(self) -> None:
        for each in self._driven:
            self._store.driving.end(each)
        self._driven.clear()

    @property
    def counts(self) -> Counter[str]:
        """What auditor and worker have counted."""
        return self.auditor.counts + self.worker.counts

    def _session(self) -> int:
        return self._store.zk.session_id


class _Repairs:
    """A worker that is told which session it has."""

    def __init__(self, worker: Worker, session: Callable[[], int]) -> None:
        self._worker = worker
        self._session = session

    @property
    def deadline_ms(self) -> int | None:
        return self._worker.deadline_ms

    def step(self, now_ms: int, inputs: Iterable[Any], /) -> list[Any]:
        return list(self._worker.step(now_ms, _in_session(inputs, self._session)))


class _Audits:
    """An auditor that is told which session it has, and the time of the day."""

    def __init__(self, auditor: Auditor, session: Callable[[], int], on_end: Callable[[], None]) -> None:
        self._auditor = auditor
        self._session = session
        self._on_end = on_end

    @property
    def deadline_ms(self) -> int | None:
        return self._auditor.deadline_ms

    def step(self, now_ms: int, inputs: Iterable[Any], /) -> list[Any]:
        told = _in_session(inputs, self._session)
        if any(isinstance(each, Expired) for each in told):
            self._on_end()
        return list(self._auditor.step(now_ms, told, time.time_ns() // 1_000_000))


def _in_session(inputs: Iterable[Any], session: Callable[[], int]) -> list[Any]:
    return [Connected(session()) if isinstance(each, Connected) else each for each in inputs]
