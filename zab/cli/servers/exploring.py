"""What both explorers of `zab explore` share at the command line: steps, progress, the result in JSON, and its code."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import typer
from rich.console import Console

from zab.cli.servers.simulate import SAFETY, UNDECIDED
from zab.simulator.brokers import partition_exploration
from zab.simulator.explorer import exploration

Report: TypeAlias = exploration.Report | partition_exploration.Report


@contextlib.contextmanager
def usage(option: str) -> Iterator[None]:
    """A ValueError is wrong usage of this option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def lines_of(text: str) -> list[str]:
    """The steps in an option, each as a text."""
    return [line for line in text.split(";") if line.strip()]


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, int, int], None]]:
    """Shows depth, states and new states while they are explored."""
    start = time.monotonic()
    with Console(stderr=True).status("exploring") as status:

        def tell(depth: int, states_count: int, level_count: int) -> None:
            a_second = states_count / max(time.monotonic() - start, 1e-9)
            status.update(f"depth {depth}: {states_count} states, {level_count} of them new, {a_second:.0f} a second")

        yield tell


def fields(report: Report, seconds: float, shown: Callable[[Any], str]) -> dict[str, Any]:
    """The fields for JSON. `found` is the error, and `steps` the shortest way to it."""
    found = report.found
    return {
        "bounds": attrs.asdict(report.bounds),
        "whole": report.is_whole,
        "state_count": report.states_count,
        "step_count": report.steps_count,
        "depth": report.depth,
        "server_state_count": report.servers_count,
        "seconds": round(seconds, 3),
        "found": None if found is None else found.text,
        "steps": None if found is None else [shown(step) for step in found.steps],
    }


def end(report: Report) -> None:
    """Ends the command with the exit code of what was found."""
    if report.found is not None:
        raise typer.Exit(SAFETY)
    if not report.is_whole:
        raise typer.Exit(UNDECIDED)
