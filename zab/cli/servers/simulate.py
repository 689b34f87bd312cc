"""`zab simulate`: runs whole ensembles in one process, each from a seed that replays a failure.

    zab simulate --seed N               one run; prints its report, or why it failed
    zab simulate --seed N --trace       the same with every line of its trace
    zab simulate --seed N --seeds 2000  a block of runs, on all processors, with progress
    zab simulate --seed N --history F   one run, with the requests and answers of its clients as Parquet
    zab simulate --both-judges          also judges them by `zab pipeline history`
    zab simulate --hours 8              new seeds for this time
    zab simulate --members 7 --faults kill,partition
    zab simulate --focus reshaping      the voters change all the time
    zab simulate --no-mercy             mends no lasting faults, and judges only safety
    zab simulate --seed N --keep PART   the part of a run that is left after shrinking
    zab simulate --partitions           brokers of the partitioned log, in place of an ensemble
    zab simulate --ledgers              bookies, and writers, recoverers and readers of ledgers, in place of an ensemble

Exit codes: 0 every run passed, 1 the code under test crashed (with any exception not listed below), 3 safety: a promise
was broken, 4 liveness: no progress after the faults, 5 undecided: a judge gave up at its bound. Of several failures the
gravest counts: 3, then 1, 4 and 5. 2 is wrong usage, as everywhere.

A failed run is repeated for the last lines of its trace. If the repetition ends differently, the code under test is not
repeatable: it reads a clock, or depends on an address. This is printed. Otherwise the run is shrunk, and the lines are
those of the remaining part.
"""

import gc
import multiprocessing
import os
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from functools import partial
from itertools import count, islice
from multiprocessing.pool import Pool
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, TypeAlias

import attrs
import typer
from attrs import define, frozen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from datatree.compiled import using
from zab.cli.json_form import JsonOption, json_line
from zab.cli.servers import recorded
from zab.cli.servers.simulate_brokers import (
    BROKER_FOCUSES,
    BrokerReport,
    BrokerScope,
    broker_fields,
    broker_line,
    broker_words,
    demand_brokers,
)
from zab.cli.servers.simulate_ledgers import (
    LEDGER_FOCUSES,
    LedgerReport,
    LedgerScope,
    demand_ledgers,
    ledger_fields,
    ledger_line,
    ledger_words,
    run_ledgers,
    shrink_ledgers,
)
from zab.native import load
from zab.simulator.brokers import simulation as brokers
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.profile import FOCUSES
from zab.simulator.ensemble.scope import MEMBERS_MAX, WHOLE, Scope
from zab.simulator.ensemble.simulation import Report, run, shrink
from zab.simulator.world.scope import Kept, ScopeError
from zab.simulator.world.shrinking import Shrunk
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError

AnyScope: TypeAlias = Scope | BrokerScope | LedgerScope

__all__ = ["run_block", "simulate_command"]

CRASH, SAFETY, LIVENESS, UNDECIDED = 1, 3, 4, 5
_GRAVITY: Final = (SAFETY, CRASH, LIVENESS, UNDECIDED)
_NAMES: Final = {CRASH: "crash", SAFETY: "safety", LIVENESS: "liveness", UNDECIDED: "undecided"}
_CODES: Final = {SafetyError: SAFETY, LivenessError: LIVENESS, UndecidedError: UNDECIDED}
_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""For processes that only run seeds: the objects of a run take a few MiB, and are gone after it."""
_FOCUS_HELP: Final = (
    f"All runs have this focus: {', '.join(sorted(FOCUSES))}; of brokers {', '.join(BROKER_FOCUSES)}; of ledgers "
    f"{', '.join(LEDGER_FOCUSES)}."
)
NOTHING: Final = "none"
"""The value of --faults for no faults."""
_HOUR_SECONDS: Final = 3600
_AHEAD_COUNT: Final = 10
"""How many seeds are handed out ahead, for each process."""
LINES_SHOWN: Final = 60
LINE_WIDTH_MAX: Final = 300
_Members = Annotated[
    int | None,
    typer.Option(
        "--members", metavar="N", help=f"Voters (3, 5, … {MEMBERS_MAX}), brokers, bookies: not what seeds say."
    ),
]


@frozen
class Failure:
    """The failure of a run: `code` is the exit code, `text` one line, `details` the traceback."""

    seed: int
    code: int
    text: str
    details: str


@define
class Attempt(AbstractContextManager["Attempt"]):
    """Catches any exception of a run, except an interrupt, since all of them are results."""

    seed: int
    report: Report | BrokerReport | LedgerReport | None = None
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
    scope: AnyScope = WHOLE,
) -> Attempt:
    """Run one seed, and catch its failure."""
    if isinstance(scope, BrokerScope):
        with Attempt(seed) as of_brokers:
            of_brokers.report = brokers.run(seed, sink, scope)
        return of_brokers
    if isinstance(scope, LedgerScope):
        with Attempt(seed) as of_ledgers:
            of_ledgers.report = run_ledgers(seed, sink, scope)
        return of_ledgers
    if both_judges and recorder is None:
        recorder = Recorder()
    with Attempt(seed) as result, using(load("tree"), load("writes")):
        report = run(seed, sink, recorder, scope)
        if both_judges and recorder is not None:
            recorded.judge(seed, recorder)
        result.report = report
    return result


def simulate_command(
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="How many seeds to run, one after the other.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Instead of --seeds: run seed after seed for this long.")
    ] = None,
    members: _Members = None,
    faults: Annotated[
        str | None, typer.Option("--faults", metavar="NAME,…", help="Only these faults occur; `none` means no faults.")
    ] = None,
    focus: Annotated[str, typer.Option("--focus", metavar="NAME", help=_FOCUS_HELP)] = "",
    trace: Annotated[bool, typer.Option("--trace", help="Print every line of the trace (one seed only).")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0 means one for each core.")] = 0,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first failure.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Print what the runs reached.")] = False,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Write the history of the clients (Parquet)."),
    ] = None,
    both_judges: Annotated[
        bool, typer.Option("--both-judges", help="Also judge it with `zab pipeline history`.")
    ] = False,
    shrinks: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Look for a small part of a failed run that still fails.")
    ] = True,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="PART", help="Run only this part, as printed by shrinking.")
    ] = None,
    no_mercy: Annotated[bool, typer.Option("--no-mercy", help="Never heal the faults; judge only safety.")] = False,
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Run with and without the fast paths, and compare.")
    ] = False,
    partitions: Annotated[bool, typer.Option("--partitions", help="Simulate brokers instead of an ensemble.")] = False,
    of_ledgers: Annotated[
        bool, typer.Option("--ledgers", help="Simulate bookies and clients of ledgers instead of an ensemble.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Exit codes: 0 good, 1 the code crashed, 3 a promise was broken, 4 no progress, 5 undecided."""
    is_one = hours is None and seeds in (None, 1)
    if not is_one:
        refuse("for one seed", trace=trace, history=history, keep=keep is not None)
    _check_hours(hours, seeds)
    _check_json(json, trace or counts)
    kind = _kind(partitions, of_ledgers, history=history, both_judges=both_judges, both_ways=both_ways)
    scope = _scope(members, faults, keep, focus, mercy=not no_mercy, both_ways=both_ways, kind=kind)
    say = partial(_say_json, scope, both_judges=both_judges) if json else None
    if both_judges or history is not None:
        recorded.demand_extra("--both-judges" if both_judges else "--history")
    reached: Counter[str] = Counter()
    if is_one:
        found = _one(seed, trace, reached, history, both_judges=both_judges, scope=scope, say=say)
    else:
        found = run_block(
            range(seed, seed + seeds) if seeds is not None else count(seed),
            jobs or os.cpu_count() or 1,
            keep_going=keep_going,
            reached=reached,
            both_judges=both_judges,
            scope=scope,
            until=None if hours is None else time.monotonic() + hours * _HOUR_SECONDS,
            say=say,
        )
    _print_counts(reached if counts else Counter())
    if found:
        if not json:
            _explain(found[0], with_trace=not trace, both_judges=both_judges, scope=scope, shrinks=shrinks)
        raise typer.Exit(min((failure.code for failure in found), key=_GRAVITY.index))


def _print_counts(reached: Counter[str]) -> None:
    for what, number in sorted(reached.items()):
        print(f"{number:9} {what}")


def refuse(reason: str, **options: object) -> None:
    """Refuse the options that are given, which are for something else."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"--{name.replace('_', '-')} is {reason}")


def _kind(partitions: bool, of_ledgers: bool, **of_ensembles: object) -> type[BrokerScope | LedgerScope] | None:
    """What is simulated; None: an ensemble. Other simulations have none of the options that are `of_ensembles`."""
    if partitions and of_ledgers:
        raise typer.BadParameter("--ledgers and --partitions are two simulations: give one of them")
    if not (partitions or of_ledgers):
        return None
    refuse("for ensembles", **of_ensembles)
    if of_ledgers:
        demand_ledgers()
    else:
        demand_brokers()
    return BrokerScope if partitions else LedgerScope


def _check_json(json: bool, is_for_people: bool) -> None:
    if json and is_for_people:
        raise typer.BadParameter("what --trace and --counts print is for people", param_hint="--json")


def _check_hours(hours: float | None, seeds: int | None) -> None:
    if hours is not None and seeds is not None:
        raise typer.BadParameter("--hours goes on as long as it says, whatever --seeds says: give one of them")
    if hours is not None and not hours > 0:
        raise typer.BadParameter(f"{hours:g} hours is no time", param_hint="--hours")


def _scope(
    members: int | None,
    faults: str | None,
    keep: str | None,
    focus: str,
    *,
    mercy: bool,
    both_ways: bool,
    kind: type[BrokerScope | LedgerScope] | None,
) -> AnyScope:
    names = None if faults is None else tuple(name.strip() for name in faults.split(",") if name.strip() != NOTHING)
    try:
        kept = None if keep is None else Kept.parse(keep)
    except ScopeError as error:
        raise typer.BadParameter(str(error), param_hint="--keep") from None
    try:
        if kind is not None:
            return kind(members, names, kept, mercy, focus)
        return Scope(members, names, kept, mercy, focus, both_ways)
    except ScopeError as error:
        raise typer.BadParameter(str(error)) from None


def _one(
    seed: int,
    trace: bool,
    reached: Counter[str],
    history: Path | None,
    *,
    both_judges: bool,
    scope: AnyScope,
    say: Callable[[Attempt], None] | None,
) -> list[Failure]:
    recorder = None if history is None else Recorder()
    result = attempt(seed, print if trace else None, recorder, both_judges=both_judges, scope=scope)
    if recorder is not None and history is not None:
        recorded.write(history, seed, recorder)
    if say is not None:
        say(result)
    if result.failure is not None:
        return [result.failure]
    report = result.report
    assert report is not None
    reached.update(report.counts)
    if say is not None:
        return []
    if isinstance(report, BrokerReport):
        print(broker_line(report))
        return []
    if isinstance(report, LedgerReport):
        print(ledger_line(report))
        return []
    profile = report.profile
    print(
        f"seed {seed}: good; {profile.voters} voters, {profile.observers} observers, {profile.clients} clients, "
        f"{report.virtual_ms / 1000:.1f} s in {report.events_count} events, "
        f"{report.counts['writes acknowledged']} writes acknowledged; hash {report.hash}"
    )
    return []


def run_block(
    seeds: Iterable[int],
    jobs: int,
    *,
    keep_going: bool,
    reached: Counter[str],
    both_judges: bool = False,
    scope: AnyScope = WHOLE,
    until: float | None = None,
    say: Callable[[Attempt], None] | None = None,
) -> list[Failure]:
    """Run all these seeds, or as many as are done at the monotonic time `until`, but at least one; in processes of
    their own. Returns the failures; counts what was reached. say: called with each attempt, in place of a last line for
    all."""
    console = Console(stderr=True)
    found: list[Failure] = []
    total = len(seeds) if isinstance(seeds, Sized) else None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    processes = multiprocessing.get_context("spawn")
    run_one = partial(attempt, both_judges=both_judges, scope=scope)
    good_count = 0
    done: list[int] = []
    with (
        Progress(*columns, console=console) as progress,
        processes.Pool(jobs if total is None else min(jobs, total), _collect_seldom) as pool,
    ):
        task = progress.add_task("simulating", total=total)
        for result in _results(pool, run_one, iter(seeds), _AHEAD_COUNT * jobs):
            progress.advance(task)
            done = [*done[:1], result.seed]
            if say is not None:
                say(result)
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
            if until is not None and time.monotonic() >= until:
                break
    if say is None:
        print(f"seeds {done[0]} to {done[-1]}: {good_count} good, {len(found)} failed")
    return found


def _say_json(scope: AnyScope, result: Attempt, *, both_judges: bool) -> None:
    """Print one run as a JSON object. Unknown fields of a failed run are null."""
    report, failure = result.report, result.failure
    fields = {
        "seed": result.seed,
        "result": "good" if failure is None else _NAMES[failure.code],
        "text": None if failure is None else failure.text,
        "replay": f"{_command(result.seed, scope)}{' --both-judges' * both_judges}",
    }
    if isinstance(scope, BrokerScope):
        assert not isinstance(report, Report | LedgerReport)
        fields |= broker_fields(report)
    elif isinstance(scope, LedgerScope):
        assert not isinstance(report, Report | BrokerReport)
        fields |= ledger_fields(report)
    else:
        assert not isinstance(report, BrokerReport | LedgerReport)
        fields |= _fields(report)
    print(json_line(fields), flush=True)


def _fields(report: Report | None) -> dict[str, Any]:
    profile = None if report is None else report.profile
    return {
        "voters": None if profile is None else profile.voters,
        "observers": None if profile is None else profile.observers,
        "clients": None if profile is None else profile.clients,
        "virtual_ms": None if report is None else report.virtual_ms,
        "event_count": None if report is None else report.events_count,
        "acknowledged_count": None if report is None else report.counts["writes acknowledged"],
        "hash": None if report is None else report.hash,
    }


def _results(
    pool: Pool, run_one: Callable[[int], Attempt], seeds: Iterator[int], ahead_count: int
) -> Iterator[Attempt]:
    """The results in the order of the seeds, which may be endless: only `ahead_count` are handed out ahead."""
    waiting = deque(pool.apply_async(run_one, (seed,)) for seed in islice(seeds, ahead_count))
    while waiting:
        yield waiting.popleft().get()
        waiting.extend(pool.apply_async(run_one, (seed,)) for seed in islice(seeds, 1))


def _collect_seldom() -> None:
    """Exempt imported objects from garbage collection, and make it rare, in a process that runs seeds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _explain(failure: Failure, *, with_trace: bool, both_judges: bool, scope: AnyScope, shrinks: bool) -> None:
    """Print the trace of a failure, and how to repeat it."""
    lines: deque[str] = deque(maxlen=LINES_SHOWN)
    again = attempt(failure.seed, lines.append, both_judges=both_judges, scope=scope)
    is_repeatable = again.failure is not None and again.failure.text == failure.text
    shrunk = _shrunk(failure.seed, scope) if shrinks and is_repeatable and scope.kept is None else None
    if shrunk is not None:
        attempt(failure.seed, lines.append, scope=attrs.evolve(scope, kept=shrunk.kept))
    if with_trace:
        what = f"seed {failure.seed}" + ", shrunk" * (shrunk is not None)
        print(f"\nthe last {len(lines)} lines of the trace of {what}:\n")
        for line in lines:
            print(line if len(line) <= LINE_WIDTH_MAX else line[:LINE_WIDTH_MAX] + "…")
    if not is_repeatable:
        print("\nTHE RUN IS NOT REPEATABLE: run again, it did not fail in the same way")
    if failure.code == CRASH:
        print(f"\n{failure.details}", end="")
    print(f"\nseed {failure.seed}: {_NAMES[failure.code]}: {failure.text}")
    print(f"replay it with: {_command(failure.seed, scope)}{' --both-judges' * both_judges}")
    if shrunk is not None:
        print(f"\n{_described(shrunk)}")
        print(f"replay that with: {_command(failure.seed, attrs.evolve(scope, kept=shrunk.kept))}")


def _shrunk(seed: int, scope: AnyScope) -> Shrunk | None:
    with Console(stderr=True).status("shrinking"):
        if isinstance(scope, LedgerScope):
            return shrink_ledgers(seed, scope)
        return brokers.shrink(seed, scope) if isinstance(scope, BrokerScope) else shrink(seed, scope)


def _described(shrunk: Shrunk) -> str:
    kinds = ", ".join(fault.kind for fault in shrunk.faults) or "none"
    text = (
        f"shrunk from {shrunk.whole_events_count} events to {shrunk.events_count} in {shrunk.runs_count} runs; "
        f"faults that are left: {kinds}; it fails with: {shrunk.error}"
    )
    return text if shrunk.is_minimal else f"{text}\n(it may not be the shortest: so much was tried)"


def _command(seed: int, scope: AnyScope) -> str:
    """The command that repeats a run."""
    words = ["zab simulate", f"--seed {seed}"]
    if isinstance(scope, BrokerScope):
        words += broker_words(scope)
    elif isinstance(scope, LedgerScope):
        words += ledger_words(scope)
    elif scope.members is not None:
        words.append(f"--members {scope.members}")
    if scope.faults is not None:
        words.append(f"--faults {','.join(scope.faults) or NOTHING}")
    if scope.focus:
        words.append(f"--focus {scope.focus}")
    if not scope.mercy:
        words.append("--no-mercy")
    if isinstance(scope, Scope) and scope.both_ways:
        words.append("--both-ways")
    if scope.kept is not None:
        words.append(f"--keep '{scope.kept}'")
    return " ".join([*words, "--trace"])
