"""The brokers that are registered, as lines of JSON and as a table: for `zab broker list` and `zab status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from zab.cli.columns import cell, columns
from zab.cli.terminal import in_line
from zab.operations.verdicts.brokers import Registered

__all__ = ["broker_lines", "brokers_table"]

_HEAD: Final = ("broker", "epoch", "endpoints", "rack", "controller", "leads", "replicas", "lagging")


def broker_lines(found: Registered) -> Iterator[dict[str, Any]]:
    """A line of JSON for each broker."""
    for broker in found.brokers:
        yield {
            "type": "broker",
            "broker": broker.id,
            "epoch": broker.epoch,
            "endpoints": list(broker.endpoints),
            "rack": broker.rack,
            "is_controller": broker.id == found.controller,
            "leads": found.leads[broker.id],
            "replicas": found.replicas[broker.id],
            "lagging": found.lagging[broker.id],
        }


def brokers_table(found: Registered) -> Iterator[str]:
    """A head, and a row for each broker."""
    yield from columns([_HEAD, *map(_row, broker_lines(found))])


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    controller = "yes" if line["is_controller"] else "no"
    values = (line["broker"], line["epoch"], ",".join(line["endpoints"]), line["rack"], controller)
    return tuple(in_line(cell(each)) for each in (*values, line["leads"], line["replicas"], line["lagging"]))
