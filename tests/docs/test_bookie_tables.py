"""docs/reference/bookie-keys.md has every key of a bookie, docs/reference/bookie-metrics.md every figure."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from tests.docs.page_tables import rows
from tests.tidy.sources import ROOT
from zab.bookie import config_file
from zab.bookie.config_file import IGNORED, REFUSED, SYNONYMS
from zab.bookie.figures import Surroundings, figures
from zab.bookie.settings import BookieSettings
from zab.bookie.turn import BookieTurn, Limits, Ports
from zab.configuration.fields import settings_of
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import Space
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.opening import Opened
from zab.ledger.wire.status import Status
from zab.service.figure import Kind

KEYS = (ROOT / "docs" / "reference" / "bookie-keys.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "reference" / "bookie-metrics.md").read_text(encoding="utf-8")


def test_every_key_has_unit_default_and_reason() -> None:
    expected = [(f"`{each.key}`", each.unit, each.shown, each.reason) for each in settings_of(BookieSettings)]
    assert rows(KEYS, "Keys") == expected


def test_the_other_keys_have_what_they_set_or_why_they_do_not() -> None:
    assert rows(KEYS, "Keys with other names") == [(f"`{key}`", f"`{other}`") for key, other in SYNONYMS.items()]
    refused = [
        (f"`{key}`", ", ".join(f"`{each}`" if each else "empty" for each in sorted(allowed)), why)
        for key, (allowed, why) in REFUSED.items()
    ]
    prefixes = [(f"`{prefix}*`", "none", why) for prefix, why in config_file._REFUSED_PREFIXES.items()]
    assert rows(KEYS, "Keys that are refused") == refused + prefixes
    assert rows(KEYS, "Keys without effect") == [(f"`{key}`", why) for key, why in IGNORED.items()]


class NoClients:
    """A bookie to which nobody is connected."""

    has_news = False
    count = 0


def test_the_page_has_every_figure_with_its_labels_and_no_other() -> None:
    bookie = Bookie(BookieConfig(), Opened(LedgerTable(), [], (1, 0), 1, 1), 0)
    bookie.space.take(Space(1, 2))
    nothing: Any = None
    ports = Ports(
        clock=nothing,
        clients=NoClients(),  # type: ignore[arg-type]
        operator=nothing,
        answers=deque(),
        journal=nothing,
        read=nothing,
        job=nothing,
        ask_space=nothing,
        submit=nothing,
    )
    turn = BookieTurn(bookie, ports, Limits(connections_max=1, input_bytes_max=1 << 20, unsent_bytes_max=1 << 20))
    turn.meters.statuses[Status.FENCED] = 1
    known: dict[str, set[str]] = {}
    for each in figures(turn, Surroundings()):
        if each.kind is not Kind.TEXT:
            known.setdefault(each.name, set()).update(name for name, _ in each.labels)
    said = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels, _ in rows(METRICS, "Figures")
        for name in re.findall(r"`(\w+)`", names)
    }
    assert said == known
