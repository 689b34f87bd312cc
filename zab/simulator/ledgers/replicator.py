"""A process of auto-recovery: an auditor and a worker, in the name of a bookie or of nobody."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import attrs

from zab.ledger.entries.ids import BookieId
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.replication.auditor import Auditor
from zab.ledger.replication.events import AuditorSettings, CheckSettings, Noted, WorkerSettings
from zab.ledger.replication.worker import Worker
from zab.simulator.ledgers.client_process import Hosted, LedgerClient


@attrs.define(eq=False)
class WithWall:
    """An auditor as a core that is told one time alone."""

    auditor: Auditor
    wall_ms: Any

    @property
    def deadline_ms(self) -> int | None:
        return self.auditor.deadline_ms

    def step(self, now_ms: int, inputs: Any) -> Any:
        return self.auditor.step(now_ms, inputs, self.wall_ms())


class ReplicatorProcess(LedgerClient):
    """See the docstring of the module."""

    def begin(self) -> None:
        rng = self.plan.rng
        name = BookieId(self.name)
        self.auditor = Auditor(self.root, name, self.placement, Random(rng.random()), self._auditor_settings())
        self.worker = Worker(
            *(self.root, name, self.placement, Random(rng.random()), self._worker_settings()),
            self._recovery_settings(),
        )
        self.host(WithWall(self.auditor, self.machine.wall_ms), self._over)
        self.host(self.worker, self._over)

    def _auditor_settings(self) -> AuditorSettings:
        rng = self.plan.rng
        return AuditorSettings(
            lost_bookie_delay_ms=rng.choice((0, 1_000)),
            bookies_check_ms=rng.choice((0, 5_000)),
            ledgers_check_ms=rng.choice((2_000, 10_000)),
            replicas_check_ms=rng.choice((0, 5_000)),
            placement_check_ms=rng.choice((0, 5_000)),
            orphans_check_ms=0,
            retry_ms=500,
            check=self._check_settings(),
        )

    def _check_settings(self) -> CheckSettings:
        rng = self.plan.rng
        return CheckSettings(
            sample_share=rng.choice((0.0, 0.2, 1.0)),
            reads_max=rng.choice((2, 32)),
            request_timeout_ms=self.profile.request_timeout_ms,
        )

    def _worker_settings(self) -> WorkerSettings:
        rng = self.plan.rng
        return WorkerSettings(
            bytes_per_s=rng.choice((5_000, 1_000_000)),
            window_bytes=rng.choice((500, 100_000)),
            runs_max=rng.choice((1, 4)),
            run_entries=rng.choice((1, 7, 256)),
            request_timeout_ms=self.profile.request_timeout_ms,
            open_grace_ms=rng.choice((300, 2_000)),
            poll_ms=200,
            retry_ms=100,
            retry_max_ms=1_000,
            check=self._check_settings(),
        )

    def _recovery_settings(self) -> RecoverySettings:
        timeout_ms = self.profile.request_timeout_ms
        return RecoverySettings(request_timeout_ms=timeout_ms, retry_max_ms=timeout_ms, patience_ms=8 * timeout_ms)

    def effect(self, hosted: Hosted, effect: Any) -> None:
        assert isinstance(effect, Noted), effect
        self.say(effect.text)
        self.judge.counts["notes of auto-recovery"] += 1

    def _over(self, token: Hashable, outcome: object) -> None:
        raise AssertionError(f"{token} ends with {outcome}")
