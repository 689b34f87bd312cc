"""The log of a run: who wants it and who reads it, and how it comes to its end after the faults.

1. One owner takes the log over for good, appends a last entry, and its consumers and all readers get that far. Every
   other owner notices that it has lost the log.
2. The log is terminated or closed, as the seed says; readers of a terminated log see that it ends.
3. When all ledgers are closed, the judges look at all of it. A sweep would keep what the log and its cursors name, and
   find whatever else is left of them.
4. The log is deleted, if the seed says so, by any of those who had it, which is killed meanwhile. Nothing is left of
   it but what a sweep finds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from zab.ledger.managed.events import Done, LogClose, Terminated
from zab.ledger.managed.sweep import CURSOR_KEY, LOG_KEY, ORPHAN_MS, Sweep, look_at
from zab.simulator.ledgers.bookie_process import run_at_once
from zab.simulator.ledgers.client_process import LedgerClient
from zab.simulator.ledgers.cluster import ROOT, LedgerCluster
from zab.simulator.ledgers.log_judge import LogJudge
from zab.simulator.ledgers.log_owner import LOGS
from zab.simulator.ledgers.logs.owner import NAME, PATH, LogClient
from zab.simulator.ledgers.logs.profile import LogProfile
from zab.simulator.ledgers.logs.reader import LogReaderProcess
from zab.simulator.world.cluster import process_of
from zab.simulator.world.machine import Machine
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import demand

KILL_US: Final = 30 * MS
"""Within so much time after it has begun, the process that deletes the log is killed."""
NUDGE_TICKS: Final = 10
"""How often owners are made to see whether they have the log."""
SETTLE_TICKS: Final = 900


class Until(Protocol):
    """See `zab.simulator.world.simulation`."""

    def __call__(
        self,
        holds: Callable[[], bool],
        ticks: int,
        what: Callable[[], str],
        before_tick: Callable[[int], None] = ...,
    ) -> None: ...


class LogRun:
    """`add`: makes the machine of a client of this kind."""

    def __init__(
        self, cluster: LedgerCluster, profile: LogProfile, add: Callable[[type[LedgerClient]], Machine]
    ) -> None:
        self.judge = judge = LogJudge(ROOT, LOGS, cluster.judge, cluster.service.tree, self._wall_ms)
        self._cluster = cluster
        self._profile = profile

        class Owner(LogClient):
            log_judge = judge

        class Reader(LogReaderProcess):
            cursor_judge = judge.cursors

        self.owners = [add(Owner) for _ in range(profile.owners)]
        self.readers = [add(Reader) for _ in range(profile.readers)]

    def _wall_ms(self, session: int) -> int | None:
        number = self._cluster.service.owner_of(session)
        return None if number is None else self._cluster.machines[number].wall_ms()

    # ------------------------------------------------------------------------------------------------------- processes

    def _owner(self, machine: Machine) -> LogClient | None:
        process = process_of(machine)
        return process if isinstance(process, LogClient) and process.has_begun else None

    def _first(self) -> LogClient:
        first = self._owner(self.owners[0])
        assert first is not None
        return first

    def _walks(self) -> list[LogReaderProcess]:
        found = [process_of(machine) for machine in self.readers]
        return [each for each in found if isinstance(each, LogReaderProcess) and each.has_begun]

    # --------------------------------------------------------------------------------------------------------- the end

    def settle(self, until: Until) -> None:
        """Steps 1 and 2, after the faults."""
        until(self._is_settled, SETTLE_TICKS, self._state, self._work)
        self._look_for_orphans(is_quiet=False)
        first = self._first()
        token = first.end()
        until(lambda: token in first.outcomes, SETTLE_TICKS, self._state)
        outcome = first.outcomes[token]
        if isinstance(outcome, Terminated):
            until(lambda: all(each.walk.is_at_end for each in self._walks()), SETTLE_TICKS, self._state)
            first.ask(LogClose("close"))
            until(lambda: first.is_done, SETTLE_TICKS, self._state)
        else:
            assert outcome == Done(), outcome

    def _work(self, done: int) -> None:
        for machine in self.owners:
            owner = self._owner(machine)
            if owner is None:
                continue
            if machine is self.owners[0]:
                owner.go_on_to_the_end()
            if done % NUDGE_TICKS == 0:
                owner.nudge()

    def _is_settled(self) -> bool:
        first = self._owner(self.owners[0])
        last = None if first is None else first.last
        if first is None or last is None or not first.has_read(last):
            return False
        others = [self._owner(machine) for machine in self.owners[1:]]
        walks = self._walks()
        return (
            all(each is not None and each.is_done for each in others)
            and len(walks) == len(self.readers)
            and all(each.walk.after is not None and each.walk.after >= last for each in walks)
        )

    def _state(self) -> str:
        """What is not as it should be, to see why there is no progress."""
        lines = []
        for machine in self.owners:
            owner = self._owner(machine)
            of = None if owner is None else owner.owner
            if owner is not None and of is not None:
                marks = {name: str(of.cursors.state(name).mark) for name in of.cursors.names}
                lines.append(f"{owner.name} is {of.state.value} {of.trouble}, last {owner.last}, cursors {marks}")
        lines += [f"{each.name} has read up to {each.walk.after}" for each in self._walks()]
        return "; ".join(lines)

    def finish(self) -> None:
        """Step 3."""
        self.judge.finish()
        known = self.judge.logs[PATH]
        self.judge.cursors.finish(NAME, sorted(known.acknowledged.values()))
        self._look_for_orphans()

    def delete(self, until: Until, rng: Random) -> None:
        """Step 4."""
        machine, kills = rng.choice(self.owners), self._profile.kills

        def work(_done: int) -> None:
            nonlocal kills
            owner = self._owner(machine)
            if owner is None or not owner.is_done or PATH not in self.judge.logs:
                return
            owner.delete()
            if kills:
                kills -= 1
                self._cluster.schedule.after(
                    rng.randrange(KILL_US), lambda: machine.stop(with_power=rng.random() < 0.5)
                )

        until(lambda: PATH not in self.judge.logs, SETTLE_TICKS, self._state, work)
        until(lambda: all(self._owner(each) is not None for each in self.owners), SETTLE_TICKS, self._state)
        self._look_for_orphans()

    def _look_for_orphans(self, *, is_quiet: bool = True) -> None:
        """What a sweep would do with each ledger that is there, hours later. Unless it is quiet, one that nobody names
        may be on its way into the list, or to its cursor."""
        wall_ms = self._first().machine.wall_ms() + 2 * ORPHAN_MS
        tree = self._cluster.service.tree
        named = {each.id for known in self.judge.logs.values() for each in known.info.ledgers}
        named |= self.judge.cursors.ledgers()
        for ledger in self._cluster.judge.ledgers.values():
            if ledger.is_deleted:
                continue
            custom = ledger.metadata.custom
            found, _ = run_at_once(tree, look_at(ROOT, ledger.id, wall_ms))
            is_orphan = LOG_KEY in custom and ledger.id not in named
            if is_quiet:
                demand(not is_orphan or CURSOR_KEY in custom, "G12", f"{ledger.name} is left of a log")
                demand(not is_orphan or found is not Sweep.KEEP, "orphans", f"{ledger.name} is left, and is kept")
                self._cluster.judge.counts["orphans"] += is_orphan
            demand(is_orphan or found is Sweep.KEEP, "orphans", f"{ledger.name} is named: {found}")
