"""`make mutants`: every mutant against its killer. None may survive.

    python -m tests.mutants                 all of them
    python -m tests.mutants NAME …          some
    python -m tests.mutants --find NAME …   which test notices, of those of the mutant's rooms: for a new one

Exit codes: 0 a test notices every mutant; 1 no test notices some; 2 some are unknown, since a run timed out or could
not begin.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from tests.mutants.gate import FAILED, Outcome, Verdict, Workbench, bench, pytest_command, simulate_command
from tests.mutants.mutant import SIMULATED, Mutant, mutants

LINES_SHOWN = 30

ROOMS = {
    "zab/member/": "tests/member tests/simulator tests/server",
    "zab/host/": "tests/host tests/datatree/log tests/server",
    "zab/server/": "tests/server tests/host",
    "zab/": "tests/protocol tests/member tests/simulator",
    "datatree/log/": "tests/datatree/log tests/datatree/recovery tests/member",
    "datatree/": "tests/datatree tests/member tests/simulator",
    "session/": "tests/session tests/member",
}
"""Where the tests of a source are; the first row that its path begins with counts."""
QUICK = "not (slow or long or hunt or process or java or spark or cluster)"
SLOW = "(slow or long) and not (hunt or java or spark or cluster)"
SEEDS = 100
"""How many seeds of the simulator are tried when no test of its rooms notices."""


NOTHING = "nothing notices"
NO_TESTS = 5
"""The exit code of a pytest run that has selected no test."""


def find(workbench: Workbench, mutant: Mutant) -> str:
    """The first test that notices, the quick ones of its own room first; then seeds of the simulator. `NOTHING`: all of
    them ran, and passed. Otherwise the runs that did not come to their end: one of them might have noticed."""
    rooms = next(rooms for prefix, rooms in ROOMS.items() if mutant.edits[0].path.startswith(prefix)).split()
    errors = []
    for marks, places in ((QUICK, rooms[:1]), (QUICK, rooms[1:]), (SLOW, rooms)):
        outcome = workbench.run(mutant, pytest_command(["-m", marks, *places]))
        if outcome.code == FAILED:
            return re.findall(r"^(?:FAILED|ERROR) (\S+)", outcome.output, re.MULTILINE)[0]
        if outcome.code not in (0, NO_TESTS):
            errors.append(f"{_why(outcome)}: {'quick' if marks == QUICK else 'slow'} tests of {' '.join(places)}")
    outcome = workbench.run(mutant, [*simulate_command(0), "--seeds", str(SEEDS), "--jobs", "1"])
    found = re.findall(r"^seed (\d+): ", outcome.output, re.MULTILINE)
    if found:
        return f"{SIMULATED}{found[0]}"
    if outcome.code != 0:
        errors.append(f"{_why(outcome)}: {SEEDS} seeds of the simulator")
    return "; ".join(errors) or NOTHING


def _why(outcome: Outcome) -> str:
    return (Verdict.TIMED_OUT if outcome.code is None else Verdict.NOT_RUN).value


class Run:
    """All mutants, on so many workbenches at once."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self._waiting: SimpleQueue[Mutant] = SimpleQueue()
        for mutant in mutants:
            self._waiting.put(mutant)
        self._printing = threading.Lock()
        self._count = len(mutants)
        self._done_count = 0
        self.alive: list[str] = []
        """Mutants that no test noticed."""
        self.errors: list[str] = []
        """Mutants of which a run timed out, or could not begin."""

    def work(self, *, finding: bool) -> None:
        with bench() as workbench, contextlib.suppress(Empty):
            while True:
                mutant = self._waiting.get_nowait()
                started = time.monotonic()
                if finding:
                    said, output = find(workbench, mutant), ""
                else:
                    verdict, output = workbench.verdict(mutant)
                    said = verdict.value
                with self._printing:
                    self._done_count += 1
                    took = time.monotonic() - started
                    print(f"{self._done_count:4}/{self._count} {took:6.1f} s  {mutant.name}: {said}", flush=True)
                    if said.startswith((Verdict.TIMED_OUT.value, Verdict.NOT_RUN.value)):
                        self.errors.append(mutant.name)
                    elif said in (Verdict.SURVIVED.value, NOTHING):
                        self.alive.append(mutant.name)
                    if output and said != Verdict.KILLED.value:
                        print("\n".join(output.splitlines()[-LINES_SHOWN:]), flush=True)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--find", action="store_true", help="name a test that notices")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(words)
    everything = mutants()
    unknown = set(options.names) - {mutant.name for mutant in everything}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in everything if not options.names or mutant.name in options.names]
    started = time.monotonic()
    if not options.find:
        with bench() as workbench:
            problem = workbench.passes(sorted({mutant.killer for mutant in chosen}))
        if problem:
            print(f"{problem}\nthe killers have to pass on the code as it is")
            return 1
    run = Run(chosen)
    workers = [
        threading.Thread(target=run.work, kwargs={"finding": options.find})
        for _ in range(min(options.jobs, len(chosen)))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.monotonic() - started
    if run.errors:
        print(f"error: {len(run.errors)} with a run that did not come to its end: {', '.join(run.errors)}")
    print(f"{len(chosen)} mutants in {took:.0f} s, {len(run.alive)} not killed: {', '.join(run.alive) or 'none'}")
    return 2 if run.errors else 1 if run.alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
