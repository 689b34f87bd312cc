"""What `zab simulate --ledgers` has of its own: a run with ledgers, and how it is told and repeated.

Ledgers need their extra, and the simulation of them is imported only when it is used.
"""

from collections.abc import Callable
from typing import Any

from zab.cli.exits import fail, library_of
from zab.simulator.ledgers.report import Report as LedgerReport
from zab.simulator.ledgers.scope import FOCUSES as LEDGER_FOCUSES
from zab.simulator.ledgers.scope import Scope as LedgerScope
from zab.simulator.world.shrinking import Shrunk

__all__ = [
    "LEDGER_FOCUSES",
    "LedgerReport",
    "LedgerScope",
    "demand_ledgers",
    "ledger_fields",
    "ledger_line",
    "ledger_words",
    "run_ledgers",
    "shrink_ledgers",
]


def demand_ledgers() -> None:
    """End the command before a run if the extra `ledgers` is missing."""
    try:
        import zab.simulator.ledgers.simulation  # noqa: F401
    except ModuleNotFoundError as error:
        fail(f"--ledgers needs {library_of(error)}: pip install 'zab[ledgers]'")


def run_ledgers(seed: int, sink: Callable[[str], None] | None, scope: LedgerScope) -> LedgerReport:
    from zab.simulator.ledgers.simulation import run

    return run(seed, sink, scope)


def shrink_ledgers(seed: int, scope: LedgerScope) -> Shrunk | None:
    from zab.simulator.ledgers.simulation import shrink

    return shrink(seed, scope)


def ledger_line(report: LedgerReport) -> str:
    """One line about a run that passed."""
    profile, counts = report.profile, report.counts
    clients = profile.writers + profile.recoverers + max(1, profile.readers)
    clients += 0 if profile.log is None else profile.log.owners + profile.log.readers
    return (
        f"seed {report.seed}: good; {profile.bookies} bookies, {counts['ledgers']} ledgers, {clients} clients, "
        f"{report.virtual_ms / 1000:.1f} s in {report.events_count} events, "
        f"{counts['entries acknowledged']} entries acknowledged; hash {report.hash}"
    )


def ledger_words(scope: LedgerScope) -> list[str]:
    """The options of this scope that an ensemble's has not."""
    return ["--ledgers", *([] if scope.bookies is None else [f"--members {scope.bookies}"])]


def ledger_fields(report: LedgerReport | None) -> dict[str, Any]:
    """What `--json` prints of a run; unknown fields of a failed run are null."""
    return {
        "bookies": None if report is None else report.profile.bookies,
        "ledgers": None if report is None else report.counts["ledgers"],
        "virtual_ms": None if report is None else report.virtual_ms,
        "event_count": None if report is None else report.events_count,
        "acknowledged_count": None if report is None else report.counts["entries acknowledged"],
        "hash": None if report is None else report.hash,
    }
