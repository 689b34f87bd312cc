"""`zab explore --partitions`: a partition of a few brokers in place of an ensemble (`explore`)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import attrs
import typer
from rich.console import Console

from zab.cli.json_form import json_line
from zab.cli.servers.simulate import SAFETY, UNDECIDED
from zab.simulator.brokers.explored_partition import Bounds
from zab.simulator.brokers.partition_exploration import Report, explore, parsed, replay, shown

REPLICAS_MAX = 3


def explore_partitions(bounds: Bounds, states_max: int, steps: str | None, *, is_json: bool) -> None:
    """Explore within the bounds, or take these steps, and print what comes of it."""
    if bounds.replicas > REPLICAS_MAX:
        raise typer.BadParameter(f"a small world has at most {REPLICAS_MAX} brokers", param_hint="--voters")
    if steps is not None:
        if is_json:
            raise typer.BadParameter("--replay prints a trace, which is for people", param_hint="--json")
        with _usage():
            lines = replay(bounds, [parsed(line) for line in steps.split(";") if line.strip()])
        print("\n".join(lines))
        return
    console, start = Console(stderr=True), time.monotonic()

    def tell(depth: int, states_count: int, level_count: int) -> None:
        status.update(f"depth {depth}: {states_count} states, {level_count} of them new")

    with console.status("exploring") as status:
        report = explore(bounds, states_max=states_max, progress=tell)
    seconds = time.monotonic() - start
    if is_json:
        print(json_line(_fields(report, seconds)))
    else:
        _print(report, seconds)
    if report.found is not None:
        raise typer.Exit(SAFETY)
    if not report.is_whole:
        raise typer.Exit(UNDECIDED)


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--replay") from None


def _fields(report: Report, seconds: float) -> dict[str, Any]:
    found = report.found
    return {
        "bounds": attrs.asdict(report.bounds),
        "whole": report.is_whole,
        "state_count": report.states_count,
        "step_count": report.steps_count,
        "depth": report.depth,
        "server_state_count": report.brokers_count,
        "seconds": round(seconds, 3),
        "found": None if found is None else found.text,
        "steps": None if found is None else [shown(step) for step in found.steps],
    }


def _print(report: Report, seconds: float) -> None:
    counts = attrs.asdict(report.bounds)
    bounds = ", ".join(f"{count} {name.replace('_', '-')}" for name, count in counts.items())
    print(f"{'everything' if report.is_whole else 'not everything'} within {bounds}")
    print(
        f"{report.states_count} states by {report.steps_count} steps, {report.depth} deep; "
        f"{report.brokers_count} states of brokers; {seconds:.1f} s"
    )
    if report.found is None:
        return
    print(f"\n{report.found.text}\n\nafter {len(report.found.steps)} steps:\n")
    print("\n".join(replay(report.bounds, report.found.steps)))
    names = {"replicas": "voters"}
    options = " ".join(f"--{names.get(name, name).replace('_', '-')} {count}" for name, count in counts.items())
    steps = "; ".join(map(shown, report.found.steps))
    print(f"\nreplay it with: zab explore --partitions {options} --replay '{steps}'")
