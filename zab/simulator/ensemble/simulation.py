"""One run: faults happen while clients work; then the faults end, and the ensemble has to recover.

    run(seed) -> Report         with a `Scope`, only a part of it

1. Members start empty, and clients begin. Faults happen for the profile's time. All checkers look at every event.
2. The faults end, all members are started, and clients behave. Within `RECOVERY_TICKS` every member has to serve, a
   write of every client has to succeed, and all trees have to be equal. That is liveness; the same checkers continue.
   Disks that are full or hang stay so at first: within the same time the others have to make progress without them.
3. Clients fall silent. Within their timeout and some ticks, every session has to be closed, its ephemerals deleted, and
   so have expired znodes.
4. The recorded requests and answers are judged once more, by themselves: `linearizability`.

Without mercy phases 2 and 3 are left out: lasting faults are never mended, and only safety is judged.

A run raises `SafetyError`, `LivenessError`, `UndecidedError`, or any exception of the code under test; a run that
passed returns a `Report`. The same seed gives the same run, bit for bit, in any process, which `Report.hash` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import attrs

from datatree.compiled import USED, using
from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.faults.faults import Faults
from zab.simulator.ensemble.judges.linearizability import demand_linearizability
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.ensemble.members.spoiled import is_spoiled
from zab.simulator.ensemble.scope import WHOLE, Scope
from zab.simulator.world import shrinking, simulation
from zab.simulator.world.faults import Happened
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.scope import Kept
from zab.simulator.world.shrinking import EVENTS_MAX, Shrunk
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError

RECOVERY_TICKS: Final = 120
"""The time to recover after the faults; enough for several elections."""
ANSWERED_TICKS: Final = 40
"""The time after which a requested reconfiguration is in force, or never will be."""
TIMED_TICKS: Final = 60
"""The time for znodes with a TTL to be deleted: up to 9 of TTL, up to 7 until they are looked at, and the lost part of
their age."""
COMPARE_TICKS: Final = 10
"""The time between two comparisons of whole trees."""


@attrs.define
class Report:
    """The report of a run that passed."""

    seed: int
    hash: str
    profile: Profile
    events_count: int
    virtual_ms: int
    counts: Counter[str]


class Simulation(simulation.Simulation):
    """One run. `sink` takes the lines of its trace, `recorder` the requests and answers of clients. For a kept part,
    `happened` are the faults of the whole run. The run may last until `end_us`, in virtual time."""

    def __init__(
        self,
        seed: int,
        sink: Callable[[str], None] | None = None,
        recorder: Recorder | None = None,
        scope: Scope = WHOLE,
        happened: Sequence[Happened] = (),
        end_us: int | None = None,
    ) -> None:
        kept = scope.kept
        self.profile = scope.of(draw(seed, Random(f"{seed}/profile")))
        super().__init__(self.profile.fault_ticks, end_us)
        self.schedule = Schedule()
        self.trace = Trace(self.schedule, sink, described)
        self.observer = Observer(Recorder() if recorder is None else recorder)
        self.cluster = self.ensemble = Ensemble(self.profile, self.schedule, self.trace, self.observer)
        self.clients = [
            Client(
                self.ensemble,
                -number,
                Random(f"{seed}/client/{number}"),
                None if kept is None else frozenset(kept.requests[number]),
            )
            for number in range(1, self.profile.clients + 1)
            if kept is None or number in kept.requests
        ]
        planned = None if kept is None else kept.faults_of(happened)
        self.faults: Faults = Faults(self.ensemble, self.clients, Random(f"{seed}/faults"), planned)

    def run(self) -> Report:
        """Run all phases. Raises SafetyError, LivenessError, UndecidedError, or an exception of the code under test;
        the record is complete up to then."""
        recorder = self.observer.recorder
        is_compiled = self.profile.is_compiled
        try:
            with using(USED.tree if is_compiled else None, USED.writes if is_compiled else None):
                report = self._run()
        finally:
            recorder.finish(self.observer.history)
        report.counts["operations judged"] += len(recorder.records)
        demand_linearizability(recorder.records)
        return report

    def _run(self) -> Report:
        """Phases 1 to 3."""
        if self.trace.sink is not None:
            self.trace.line("!", str(self.profile))
        for machine in self.ensemble.machines.values():
            machine.start_after(machine.rng.randrange(self.profile.tick_us))
        for client in self.clients:
            client.start()
        self.faults.start()
        self.advance(self.fault_ticks, self._compare)
        if not self.profile.is_merciless:
            self._come_back()
        self.observer.compare_trees()
        return Report(
            self.profile.seed,
            self.trace.digest,
            self.profile,
            self.schedule.count,
            self.schedule.now // MS,
            self.observer.counts,
        )

    @property
    def requests(self) -> Mapping[int, int]:
        return {-client.number: client.wishes_count for client in self.clients}

    def _compare(self, ticks_done: int) -> None:
        if ticks_done % COMPARE_TICKS == 0:
            self.observer.compare_trees()

    def _before_tick(self, ticks_done: int) -> None:
        """Prepare a tick after the faults."""
        if ticks_done == ANSWERED_TICKS:
            self.observer.configurations.forget_asked()
        self.faults.retire()

    def _come_back(self) -> None:
        """Phases 2 and 3."""
        self.trace.say("!", "the faults are over")
        self.faults.end()
        for client in self.clients:
            client.is_asking = False
        if any(machine.is_impaired for machine in self.ensemble.machines.values()):
            self._until_all_wrote(self._does_without_impaired)
            self.faults.mend_disks()
        self._until_all_wrote(self._is_whole)
        self._fall_silent()

    def _until_all_wrote(self, holds: Callable[[], bool]) -> None:
        """Go on until a write of every client has succeeded, and this holds."""
        goal = {client: client.acknowledged_count + 1 for client in self.clients}

        def progress() -> bool:
            waiting = [client for client in self.clients if client.acknowledged_count < goal[client]]
            for client in waiting:
                client.write()
            return not waiting and holds()

        self.until(progress, RECOVERY_TICKS, self._state, self._before_tick)

    def _does_without_impaired(self) -> bool:
        """Whether no member serves that could not make its history durable (C4 stalled disk)."""
        return not any(
            process.member.serving and process.peer.durable < process.peer.history.last[0]
            for process in self.ensemble.processes
            if process.machine.is_impaired
        )

    def _is_whole(self) -> bool:
        processes = self.ensemble.processes
        wanted = [machine for machine in self.ensemble.machines.values() if not machine.is_retired]
        if len(processes) < len(wanted) or not all(process.member.serving for process in processes):
            return False
        if any(process.turn.offered for process in processes):
            return False
        end = self.observer.history.end
        return all(
            process.member.applied == end and process.peer.durable == end and not is_spoiled(process.member.tree)
            for process in processes
        )

    def _fall_silent(self) -> None:
        """Phase 3."""
        for client in self.clients:
            client.is_silent = client.is_gone = True

        def is_quiet() -> bool:
            return self._is_whole() and not self.observer.history.model.sessions and not self._timed()

        self.until(
            is_quiet,
            2 * self.profile.session_ticks + TIMED_TICKS,
            lambda: f"left are sessions {self.observer.history.model.sessions}, {self._timed()}; {self._state()}",
            self._before_tick,
        )

    def _timed(self) -> list[bytes]:
        """Znodes with a TTL that some member has."""
        return sorted({path for process in self.ensemble.processes for path in process.member.tree.ttls})

    def _state(self) -> str:
        """The state of every member, to see why there is no progress."""
        lines = [f"delivered up to {self.observer.history.end:#x}"]
        for sid in self.ensemble.machines:
            process = self.ensemble.process(sid)
            if process is None:
                lines.append(f"server {sid} is down")
            else:
                peer = process.peer
                lines.append(
                    f"server {sid}: state {peer.state}, {peer.phase}, leader {peer.leader}, epoch {peer.epoch}, "
                    f"serving {process.member.serving}, logged {peer.history.last[0]:#x}, "
                    f"applied {process.member.applied:#x}, offered {process.turn.offered}"
                )
        lines += [
            f"{client.name}: connected {client.is_connected}, waits for {[asked.xid for asked in client.outstanding]}"
            for client in self.clients
        ]
        return "; ".join(lines)


def run(
    seed: int, sink: Callable[[str], None] | None = None, recorder: Recorder | None = None, scope: Scope = WHOLE
) -> Report:
    """Run one seed, like `Simulation.run`; a kept part is run after the whole. Raises SafetyError, too, if it was to be
    run both ways and they differ."""
    happened = () if scope.kept is None else faults_of(seed, scope.whole)
    report = Simulation(seed, sink, recorder, scope, happened).run()
    if scope.both_ways:
        other = Simulation(seed, scope=attrs.evolve(scope, other_way=not scope.other_way), happened=happened).run()
        if other.hash != report.hash:
            raise SafetyError("both ways of a message lead to the same run", f"{report.hash} is not {other.hash}")
    return report


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
