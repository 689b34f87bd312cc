"""What a server shows to Prometheus."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import HOST

__all__ = ["scraped"]


def scraped(port: int) -> dict[tuple[str, ...], float]:
    """The samples at `/metrics`, by name and values of labels."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
