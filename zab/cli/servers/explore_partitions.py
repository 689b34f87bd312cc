"""`zab explore --partitions`: a partition of a few brokers in place of an ensemble (`explore`)."""

from __future__ import annotations

import time

import attrs
import typer

from zab.cli.json_form import json_line
from zab.cli.servers.exploring import end, fields, lines_of, progress, usage
from zab.simulator.brokers.explored_partition import Bounds
from zab.simulator.brokers.partition_exploration import Report, explore, parsed, replay, shown

REPLICAS_MAX = 3


def explore_partitions(bounds: Bounds, states_max: int, steps: str | None, *, is_json: bool) -> None:
    """Explore within the bounds, or take these steps, and print what comes of it."""
    if bounds.replicas > REPLICAS_MAX:
        raise typer.BadParameter(f"a small world has at most {REPLICAS_MAX} brokers", param_hint="--voters")
    if bounds.min_in_sync > bounds.replicas:
        raise typer.BadParameter(f"there are {bounds.replicas} replicas", param_hint="--min-in-sync")
    if steps is not None:
        if is_json:
            raise typer.BadParameter("--replay prints a trace, which is for people", param_hint="--json")
        with usage("--replay"):
            lines = replay(bounds, map(parsed, lines_of(steps)))
        print("\n".join(lines))
        return
    start = time.monotonic()
    with progress() as tell:
        report = explore(bounds, states_max=states_max, progress=tell)
    seconds = time.monotonic() - start
    if is_json:
        print(json_line(fields(report, seconds, shown)))
    else:
        _print(report, seconds)
    end(report)


def _print(report: Report, seconds: float) -> None:
    counts = attrs.asdict(report.bounds)
    bounds = ", ".join(f"{count} {name.replace('_', '-')}" for name, count in counts.items())
    print(f"{'everything' if report.is_whole else 'not everything'} within {bounds}")
    print(
        f"{report.states_count} states by {report.steps_count} steps, {report.depth} deep; "
        f"{report.servers_count} states of brokers; {seconds:.1f} s"
    )
    if report.found is None:
        return
    print(f"\n{report.found.text}\n\nafter {len(report.found.steps)} steps:\n")
    print("\n".join(replay(report.bounds, report.found.steps)))
    names = {"replicas": "voters"}
    options = " ".join(f"--{names.get(name, name).replace('_', '-')} {count}" for name, count in counts.items())
    steps = "; ".join(map(shown, report.found.steps))
    print(f"\nreplay it with: zab explore --partitions {options} --replay '{steps}'")
