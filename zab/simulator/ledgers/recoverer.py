"""A client that recovers ledgers of others, whether their writers live or not: now and then, and at the end all that
are not closed. It deletes some that are.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Final

from zab.coordination.steps import Steps
from zab.ledger.recovery.events import NoSuchLedger, Recovered, RecoveryAborted, RecoverySettings
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.ledgers import delete_ledger, read_ledger
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.world.schedule import MS

AGAIN_US: Final = 300 * MS
"""How long it waits after a recovery that was aborted, at the end."""


class RecovererProcess(LedgerClient):
    """See the docstring of the module."""

    def begin(self) -> None:
        self._under_way: dict[int, Hosted] = {}
        self.later(self.plan.after(self.profile.recover_gap_us), self._look)

    def _look(self) -> None:
        """Recover some ledger that is not closed."""
        self.later(self.plan.after(self.profile.recover_gap_us), self._look)
        if self.plan.is_stopped:
            return
        wishes, rng = self.plan.wishes(), self.plan.rng
        candidates, closed = self.judge.not_closed, self.judge.closed
        deletes = rng.random() < self.profile.deletes
        if not wishes:
            return
        if candidates:
            self.recover(rng.choice(candidates))
        if closed and deletes:
            self.delete(rng.choice(closed))

    def delete(self, ledger: int) -> None:
        """Delete a closed ledger."""
        self.say(f"deletes ledger {ledger}")

        def steps() -> Steps[None]:
            found = yield from read_ledger(self.root, ledger)
            if found is not None:
                yield from delete_ledger(self.root, found)

        self.errand(f"delete {ledger}", steps)

    def recover(self, ledger: int) -> None:
        """Recover this ledger, unless that is under way."""
        if ledger in self._under_way:
            return
        self.say(f"recovers ledger {ledger}")
        timeout_ms = self.profile.request_timeout_ms
        settings = RecoverySettings(
            window_entries=self.plan.rng.choice((1, 4, 64)),
            request_timeout_ms=timeout_ms,
            retry_max_ms=timeout_ms,
            patience_ms=8 * timeout_ms,
        )
        core = Recovery(self.root, ledger, self.placement, token=ledger, settings=settings)
        self._under_way[ledger] = self.host(core, partial(self._over))

    def _over(self, token: Hashable, outcome: object) -> None:
        assert isinstance(token, int)
        self.dismiss(self._under_way.pop(token))
        self.judge.counts[f"recoveries: {type(outcome).__name__}"] += 1
        self.say(f"recovery of ledger {token}: {outcome}")
        match outcome:
            case Recovered(versioned):
                self.plan.done_count += 1
                self.judge.hears_end(token, versioned.metadata.last)
            case RecoveryAborted() if self.plan.is_stopped:
                self.later(AGAIN_US, self.recover, token)
            case RecoveryAborted() | NoSuchLedger():
                pass
            case _:
                raise AssertionError(f"recovery of ledger {token} ends with {outcome}")
