"""One run: faults happen to bookies and clients while ledgers are written, recovered and read; then the faults end, and
every ledger has to be closed.

    run(seed) -> Report         with a `Scope`, only a part of it

1. Bookies start empty. Writers create ledgers and write them, recoverers recover some of them whether their writers
   live or not, readers follow some. Faults happen for the profile's time. The judges look at everything.
2. The faults end, and all machines are started. Writers close what they write. Within `RECOVERY_TICKS` every ledger is
   closed, by its writer or by a recoverer. A ledger that lost too many disks to be closed has to be proved so.
   With auto-recovery, no ledger names a bookie that lost its disk after that, unless it lost an entry.
   A managed ledger comes to its end before (`logs.run`).
3. Every ledger is read whole. What callers of appends were told is right. Then the managed ledger may be deleted.

Without mercy phases 2 and 3 are left out: lasting faults are never mended, and only safety is judged.

A run raises `SafetyError`, `LivenessError`, or any exception of the code under test; a run that passed returns a
`Report`. The same seed gives the same run, bit for bit, in any process, which `Report.hash` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import attrs

from zab.simulator.ledgers.client_process import LedgerClient
from zab.simulator.ledgers.cluster import ROOT, LedgerCluster
from zab.simulator.ledgers.fault_context import LedgerFaultContext
from zab.simulator.ledgers.faults import CAUSES
from zab.simulator.ledgers.judge import lost_entry
from zab.simulator.ledgers.logs.run import LogRun
from zab.simulator.ledgers.losses import why_blocked
from zab.simulator.ledgers.plan import Plan
from zab.simulator.ledgers.profile import draw
from zab.simulator.ledgers.reader import ReaderProcess
from zab.simulator.ledgers.recoverer import RecovererProcess
from zab.simulator.ledgers.replicator import ReplicatorProcess
from zab.simulator.ledgers.report import Report
from zab.simulator.ledgers.scope import WHOLE, Scope
from zab.simulator.ledgers.writer import WriterProcess
from zab.simulator.world import shrinking, simulation
from zab.simulator.world.faults import FaultInjector, Happened
from zab.simulator.world.machine import Machine
from zab.simulator.world.schedule import MS
from zab.simulator.world.scope import Kept
from zab.simulator.world.shrinking import EVENTS_MAX, Shrunk

RECOVERY_TICKS: Final = 900
"""The time to close all ledgers after the faults, and to read them."""
GRACE_TICKS: Final = 30
"""How long writers may take to close their ledgers by themselves, after the faults."""


class Simulation(simulation.Simulation):
    """One run. `sink` takes the lines of its trace. For a kept part, `happened` are the faults of the whole run. The
    run may last until `end_us`, in virtual time."""

    def __init__(
        self,
        seed: int,
        sink: Callable[[str], None] | None = None,
        scope: Scope = WHOLE,
        happened: Sequence[Happened] = (),
        end_us: int | None = None,
    ) -> None:
        kept = scope.kept
        self.profile = scope.of(draw(seed, Random(f"{seed}/profile")))
        super().__init__(self.profile.fault_ticks, end_us)
        self.cluster = self.ledgers = LedgerCluster(self.profile, sink, repr)
        self.judge = self.ledgers.judge
        self.plans: list[Plan] = []
        self.writers = [self._client(WriterProcess, kept) for _ in range(self.profile.writers)]
        self.recoverers = [self._client(RecovererProcess, kept) for _ in range(self.profile.recoverers)]
        self.readers = [self._client(ReaderProcess, kept) for _ in range(max(1, self.profile.readers))]
        self.replicators = [self._client(ReplicatorProcess, kept) for _ in range(self.profile.replicators)]
        log = self.profile.log
        self.logs = None if log is None else LogRun(self.ledgers, log, lambda kind: self._client(kind, kept))
        planned = None if kept is None else kept.faults_of(happened)
        context = LedgerFaultContext(self.ledgers, Random(f"{seed}/faults"))
        self.faults: FaultInjector[LedgerFaultContext] = FaultInjector(
            context, CAUSES, self.profile.faults, self.profile.gap_us, planned, self._written
        )

    def _client(self, kind: type[LedgerClient], kept: Kept | None) -> Machine:
        number = len(self.plans) + 1
        wishes = None if kept is None else frozenset(kept.requests.get(number, ()))
        plan = Plan(number, Random(f"{self.profile.seed}/client/{number}"), wishes)
        self.plans.append(plan)
        cluster = self.ledgers

        def boot(machine: Machine) -> LedgerClient:
            return kind(machine, plan, self.profile, ROOT, cluster.service, self.judge, cluster.reach)

        return cluster.add_client(boot)

    def _written(self) -> int:
        return self.judge.counts["entries acknowledged"]

    @property
    def requests(self) -> Mapping[int, int]:
        return {plan.number: plan.wishes_count for plan in self.plans}

    # ---------------------------------------------------------------------------------------------------------- phases

    def run(self) -> Report:
        """Run all phases. Raises SafetyError, LivenessError, or an exception of the code under test."""
        cluster, profile = self.ledgers, self.profile
        if cluster.trace.sink is not None:
            cluster.trace.line("!", str(profile))
        for machine in cluster.machines.values():
            machine.start_after(machine.rng.randrange(profile.tick_us))
        self.faults.start()
        self.advance(self.fault_ticks)
        for plan in self.plans:
            plan.is_stopped = True
        if not profile.is_merciless:
            cluster.trace.say("!", "the faults are over")
            self.faults.end()
            if self.logs is not None:
                self.logs.settle(self.until)
            self._close_all()
            self._read_all()
            self.judge.finish()
            if self.logs is not None:
                self.logs.finish()
                if profile.log is not None and profile.log.deletes:
                    self.logs.delete(self.until, Random(f"{profile.seed}/delete"))
        schedule = cluster.schedule
        return Report(
            profile.seed, cluster.trace.digest, profile, schedule.count, schedule.now // MS, self.judge.counts
        )

    def _process(self, machine: Machine, kind: type[LedgerClient]) -> LedgerClient | None:
        process = machine.running
        assert process is None or isinstance(process, kind)
        return process if process is not None and process.has_begun else None

    def _close_all(self) -> None:
        """Phase 2."""
        recoverer = self.recoverers[0]

        def recover(done: int) -> None:
            process = self._process(recoverer, RecovererProcess)
            if done >= GRACE_TICKS and isinstance(process, RecovererProcess):
                for ledger in self.judge.not_closed:
                    process.recover(ledger)

        def is_closed() -> bool:
            is_whole = all(machine.running for machine in self.ledgers.machines.values())
            return is_whole and all(self._why_blocked(ledger) for ledger in self.judge.not_closed)

        self.until(is_closed, RECOVERY_TICKS, self._state, recover)
        self.judge.counts["ledgers blocked"] += len(self.judge.not_closed)
        if self.replicators:
            self.until(lambda: not self.judge.not_repaired, RECOVERY_TICKS, self._state)

    def _why_blocked(self, ledger: int) -> str | None:
        return why_blocked(self.judge.of(ledger), self.judge.lost)

    def _read_all(self) -> None:
        """Phase 3."""
        judge = self.judge
        ledgers = [each for each in judge.closed if lost_entry(judge.of(each), judge.lost) is None]
        self.until(lambda: self._process(self.readers[0], ReaderProcess) is not None, RECOVERY_TICKS, self._state)
        reader = self._process(self.readers[0], ReaderProcess)
        assert isinstance(reader, ReaderProcess)
        for ledger in ledgers:
            reader.follow(ledger, is_whole=True)
        self.until(lambda: not reader.following, RECOVERY_TICKS, self._state)

    def _state(self) -> str:
        """What is not as it should be, to see why there is no progress."""
        lines = [
            f"{self.judge.of(each).name} is not repaired: {self.judge.of(each).metadata}"
            for each in self.judge.not_repaired
        ]
        lines += [f"{each.name}: {each.metadata}" for each in map(self.judge.of, self.judge.not_closed)]
        lines += [f"{machine.number} is down" for machine in self.ledgers.machines.values() if machine.running is None]
        return "; ".join(lines)


def run(seed: int, sink: Callable[[str], None] | None = None, scope: Scope = WHOLE) -> Report:
    """Run one seed, like `Simulation.run`; a kept part is run after the whole."""
    happened = () if scope.kept is None else faults_of(seed, scope.whole)
    return Simulation(seed, sink, scope, happened).run()


def faults_of(seed: int, scope: Scope) -> Sequence[Happened]:
    """The faults of a run, whether it passes or fails."""
    whole = Simulation(seed, scope=scope)
    with suppress(Exception):
        whole.run()
    return whole.faults.happened


def shrink(seed: int, scope: Scope = WHOLE, events_max: int = EVENTS_MAX) -> Shrunk | None:
    """The shortest part of this run that fails in the same way; None if the run does not fail."""
    assert scope.kept is None

    def play(kept: Kept | None, happened: Sequence[Happened], end_us: int | None) -> Simulation:
        return Simulation(seed, scope=attrs.evolve(scope, kept=kept), happened=happened, end_us=end_us)

    return shrinking.shrink(play, events_max)
