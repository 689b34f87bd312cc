"""`zab simulate`: whole ensembles in one process, each from a seed, from which a failure is replayed.

    zab simulate --seed N               one run; its report, or why it failed
    zab simulate --seed N --trace       the same with every line of its trace
    zab simulate --seed N --seeds 2000  a block of runs, on all processors, with progress
    zab simulate --seed N --history F   one run, and what its clients asked and were told, as Parquet
    zab simulate --both-judges          judge that by `zab pipeline history` too

Exit codes: 0 every run was good, 1 the code under test crashed (an exception that is none of those below), 3 safety:
a promise was broken, 4 liveness: no progress after the faults, 5 undecided: a judge gave up at its bound. Of several
failures the gravest counts: 3, then 1, 4 and 5. 2 is wrong usage, as everywhere.

A run that fails is run again for the last lines of its trace. If that run ends otherwise, the code under test is not
repeatable: it reads a clock, or depends on an address. That is printed.
"""

import gc
import multiprocessing
import os
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final

import typer
from attrs import define, frozen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from zab.cli.servers import recorded
from zab.simulator.ensemble.recorder import Recorder
from zab.simulator.ensemble.simulation import Report, run
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError

__all__ = ["run_block", "simulate_command"]

CRASH, SAFETY, LIVENESS, UNDECIDED = 1, 3, 4, 5
_GRAVITY: Final = (SAFETY, CRASH, LIVENESS, UNDECIDED)
_NAMES: Final = {CRASH: "crash", SAFETY: "safety", LIVENESS: "liveness", UNDECIDED: "undecided"}
_CODES: Final = {SafetyError: SAFETY, LivenessError: LIVENESS, UndecidedError: UNDECIDED}
_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""For processes that do nothing but run seeds: what a run makes is gone with it, and all of it is a few MiB."""
LINES_SHOWN: Final = 60
LINE_WIDTH_MAX: Final = 300


@frozen
class Failure:
    """How a run failed: `code` is the exit code, `text` one line, `details` the traceback."""

    seed: int
    code: int
    text: str
    details: str


@define
class Attempt(AbstractContextManager["Attempt"]):
    """Takes whatever a run raises, but for an interrupt: every exception means something here."""

    seed: int
    report: Report | None = None
    failure: Failure | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool:
        if kind is None or not isinstance(error, Exception):
            return False
        code = _CODES.get(kind, CRASH)
        text = str(error) if code != CRASH else f"{kind.__name__}: {error}"
        self.failure = Failure(self.seed, code, text, "".join(traceback.format_exception(kind, error, where)))
        return True


def attempt(
    seed: int,
    sink: Callable[[str], None] | None = None,
    recorder: Recorder | None = None,
    *,
    both_judges: bool = False,
) -> Attempt:
    """Run one seed, whatever comes of it."""
    if both_judges and recorder is None:
        recorder = Recorder()
    with Attempt(seed) as result:
        report = run(seed, sink) if recorder is None else run(seed, sink, recorder)
        if both_judges and recorder is not None:
            recorded.judge(seed, recorder)
        result.report = report
    return result


def simulate_command(
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many, one after the other.")] = 1,
    trace: Annotated[bool, typer.Option("--trace", help="Print every line of the trace (one seed only).")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0 is one for each processor.")] = 0,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first failure.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Print what the runs reached.")] = False,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Write what clients asked and were told (Parquet)."),
    ] = None,
    both_judges: Annotated[
        bool, typer.Option("--both-judges", help="Judge that by `zab pipeline history` too.")
    ] = False,
) -> None:
    """Exit codes: 0 good, 1 the code crashed, 3 a promise was broken, 4 no progress, 5 undecided."""
    if trace and seeds > 1:
        raise typer.BadParameter("--trace is for one seed")
    if history is not None and seeds > 1:
        raise typer.BadParameter("--history is for one seed")
    if both_judges or history is not None:
        recorded.demand_extra("--both-judges" if both_judges else "--history")
    reached: Counter[str] = Counter()
    if seeds == 1:
        found = _one(seed, trace, reached, history, both_judges=both_judges)
    else:
        found = run_block(
            range(seed, seed + seeds),
            jobs or os.cpu_count() or 1,
            keep_going=keep_going,
            reached=reached,
            both_judges=both_judges,
        )
    if counts:
        for what, number in sorted(reached.items()):
            print(f"{number:9} {what}")
    if found:
        _explain(found[0], with_trace=not trace, both_judges=both_judges)
        codes = {failure.code for failure in found}
        raise typer.Exit(next(code for code in _GRAVITY if code in codes))


def _one(seed: int, trace: bool, reached: Counter[str], history: Path | None, *, both_judges: bool) -> list[Failure]:
    recorder = None if history is None else Recorder()
    result = attempt(seed, print if trace else None, recorder, both_judges=both_judges)
    if recorder is not None and history is not None:
        recorded.write(history, seed, recorder)
    if result.failure is not None:
        return [result.failure]
    report = result.report
    assert report is not None
    reached.update(report.counts)
    profile = report.profile
    print(
        f"seed {seed}: good; {profile.voters} voters, {profile.observers} observers, {profile.clients} clients, "
        f"{report.virtual_ms / 1000:.1f} s in {report.events_count} events, "
        f"{report.counts['writes acknowledged']} writes acknowledged; hash {report.hash}"
    )
    return []


def run_block(
    block: range, jobs: int, *, keep_going: bool, reached: Counter[str], both_judges: bool = False
) -> list[Failure]:
    """Run all seeds of a block, in processes of their own. Returns the failures; counts what was reached."""
    console = Console(stderr=True)
    found: list[Failure] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    processes = multiprocessing.get_context("spawn")
    run_one = partial(attempt, both_judges=both_judges)
    good_count = 0
    with (
        Progress(*columns, console=console) as progress,
        processes.Pool(min(jobs, len(block)), _collect_seldom) as pool,
    ):
        task = progress.add_task("simulating", total=len(block))
        for result in pool.imap(run_one, block, chunksize=max(1, min(10, len(block) // (4 * jobs)))):
            progress.advance(task)
            if result.report is not None:
                good_count += 1
                reached.update(result.report.counts)
            if result.failure is not None:
                found.append(result.failure)
                progress.console.print(
                    f"seed {result.seed}: {_NAMES[result.failure.code]}: {result.failure.text}"[:500]
                )
                if not keep_going:
                    break
    print(f"seeds {block[0]} to {block[-1]}: {good_count} good, {len(found)} failed")
    return found


def _collect_seldom() -> None:
    """In a process that runs seeds: the collector leaves what was imported alone, and comes seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _explain(failure: Failure, *, with_trace: bool, both_judges: bool) -> None:
    """Print what is needed to find the cause."""
    if with_trace:
        lines: deque[str] = deque(maxlen=LINES_SHOWN)
        again = attempt(failure.seed, lines.append, both_judges=both_judges)
        print(f"\nthe last {len(lines)} lines of the trace of seed {failure.seed}:\n")
        for line in lines:
            print(line if len(line) <= LINE_WIDTH_MAX else line[:LINE_WIDTH_MAX] + "…")
        if again.failure is None or again.failure.text != failure.text:
            print("\nTHE RUN IS NOT REPEATABLE: run again, it did not fail in the same way")
    if failure.code == CRASH:
        print(f"\n{failure.details}", end="")
    print(f"\nseed {failure.seed}: {_NAMES[failure.code]}: {failure.text}")
    print(f"replay it with: zab simulate --seed {failure.seed} --trace{' --both-judges' * both_judges}")
