"""docs/reference/ledger-client.md: every setting with its default, and every error."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import attrs
import pytest

import zab.ledgers
from zab.ledgers import (
    LedgerError,
    PlacementSettings,
    ReaderSettings,
    RecoverySettings,
    StoreSettings,
    WriterSettings,
)
from zab.ledgers.errors import __all__ as errors

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "ledger-client.md").read_text(encoding="utf-8")
OWN = {"writer", "reader", "recovery", "placement", "acl"}
"""Settings that are values of their own."""
NOT_SAID = {"deferred_sync", "busy_max", "restarts_max", "entry_bytes"}
"""Limits that nobody changes, and what is refused."""
OFFLOAD = {"OffloadError", "OffloadUnavailableError", "OffloadDamagedError"}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def rows() -> dict[str, str]:
    """The default of each setting, as the page says it."""
    found = {}
    for names, defaults in re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| (.*?) \|", PAGE, re.M):
        values = re.split(r", (?=\S)", defaults)
        for name, value in zip(re.findall(r"`([a-z_]+)`", names), values, strict=True):
            found.setdefault(name, set()).add(value)
    return found


def said(value: object) -> set[str]:
    """How a page may say it."""
    if isinstance(value, Enum):
        return {f"`{value.value}`"}
    if isinstance(value, str):
        return {f"`{value}`"}
    if isinstance(value, int) and not isinstance(value, bool):
        more = {f"{value // size} {unit}" for unit, size in UNITS.items() if value and value % size == 0}
        return {f"{value:,}", f"{value:,} (off)", *more}
    return {str(value)}


@pytest.mark.parametrize("kind", [StoreSettings, WriterSettings, ReaderSettings, RecoverySettings, PlacementSettings])
def test_each_setting_has_its_default(kind: type) -> None:
    found = rows()
    for field in attrs.fields(kind):
        if field.name not in OWN | NOT_SAID:
            assert found[field.name] & said(getattr(kind(), field.name)), field.name


def test_each_error_has_a_row() -> None:
    found = dict(re.findall(r"^\| ([A-Z]\w+Error) \| .* \| (yes|no)\b.* \|$", PAGE, re.M))
    assert {*found, "LedgerError"} == {*errors, *OFFLOAD}
    for name, definite in found.items():
        kind = getattr(zab.ledgers, name)
        assert issubclass(kind, LedgerError)
        assert kind.definite is (definite == "yes")
