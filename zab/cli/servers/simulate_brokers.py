"""What `zab simulate --partitions` has of its own: a run of brokers, and how it is told and repeated.

Record batches need the libraries of the extra `broker`; `zab explore --partitions` needs them, too.
"""

from typing import Any

from zab.cli.exits import fail
from zab.partition.records.libraries import MissingLibraryError, cramjam, crc32c
from zab.simulator.brokers.scope import Scope as BrokerScope
from zab.simulator.brokers.simulation import Report as BrokerReport
from zab.simulator.brokers.workload import FOCUSES as BROKER_FOCUSES

__all__ = [
    "BROKER_FOCUSES",
    "BrokerReport",
    "BrokerScope",
    "broker_fields",
    "broker_line",
    "broker_words",
    "demand_brokers",
]


def demand_brokers() -> None:
    """End the command before a run if the extra `broker` is missing."""
    try:
        crc32c()
        cramjam()
    except MissingLibraryError as error:
        fail(f"--partitions: {error}")


def broker_line(report: BrokerReport) -> str:
    """One line about a run that passed."""
    profile, counts = report.profile, report.counts
    return (
        f"seed {report.seed}: good; {profile.brokers} brokers, {len(profile.topics)} topics, "
        f"{profile.producers + profile.consumers} clients, {report.virtual_ms / 1000:.1f} s in {report.events_count} "
        f"events, {counts['records acknowledged']} records acknowledged; hash {report.hash}"
    )


def broker_words(scope: BrokerScope) -> list[str]:
    """The options of this scope that an ensemble's has not."""
    return ["--partitions", *([] if scope.brokers is None else [f"--members {scope.brokers}"])]


def broker_fields(report: BrokerReport | None) -> dict[str, Any]:
    """What `--json` prints of a run; unknown fields of a failed run are null."""
    return {
        "brokers": None if report is None else report.profile.brokers,
        "clients": None if report is None else report.profile.producers + report.profile.consumers,
        "virtual_ms": None if report is None else report.virtual_ms,
        "event_count": None if report is None else report.events_count,
        "acknowledged_count": None if report is None else report.counts["records acknowledged"],
        "hash": None if report is None else report.hash,
    }
