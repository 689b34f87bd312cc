"""docs/explanation/sizing.md: its program prints what it shows, and is above what was measured; limits are those of the
keys."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pytest

from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "explanation" / "sizing.md").read_text(encoding="utf-8")
KEYS = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
[CODE] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
NOTHING = {"znodes": 0, "sessions": 0, "connections": 0, "tls": 0, "watches": 0, "data": 0, "path": 20}


def reckoned(**values: float) -> dict[str, Any]:
    """What the page's program has at its end; with these values in the place of its example, if there are any."""
    example, first, rest = CODE.partition("\nmemory = ")
    found: dict[str, Any] = {}
    exec(example, found)
    found |= values
    exec(first + rest, found)
    return found


def measured() -> dict[str, list[float | None]]:
    """For each row: memory, memory after a start, log, snapshot, descriptors."""
    table = PAGE.split("<!-- make bench-sizing: begin -->")[1].split("<!-- make bench-sizing: end -->")[0]
    rows = re.findall(r"^\| (an? [^|]*?) \|(.*)\|$", table, re.M)
    return {
        name: [float(cell.replace(",", "")) if cell.strip() else None for cell in cells.split("|")]
        for name, cells in rows
    }


def test_the_program_prints_what_the_page_shows() -> None:
    shown = re.findall(r"```python\n.*?```\n\n```\n(.*?)```", PAGE, re.S)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        reckoned()
    assert [said.getvalue()] == shown


@pytest.mark.parametrize(
    ("row", "values"),
    [
        *((f"a znode with {data} B of data", {"znodes": 1, "data": data}) for data in (0, 100, 1000)),
        ("a session that has no connection here", {"sessions": 1}),
        ("a connection with its session, plain", {"sessions": 1, "connections": 1}),
        ("a connection with its session, in TLS", {"sessions": 1, "tls": 1}),
        *(
            (f"a {kind}watch, where another connection has one", {"watches": 1})
            for kind in ("", "persistent ", "recursive ")
        ),
    ],
)
def test_what_is_reckoned_is_above_what_was_measured_and_not_by_much(row: str, values: dict[str, float]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        nothing, one = reckoned(**NOTHING), reckoned(**NOTHING | values)
    memory, started, _log, snapshot, descriptors = measured()[row]
    assert one["memory"] - nothing["memory"] >= max(memory or 0, started or 0)
    assert one["memory"] - nothing["memory"] <= 2 * max(memory or 0, started or 0)
    assert one["snapshot"] - nothing["snapshot"] >= (snapshot or 0)
    assert one["descriptors"] - nothing["descriptors"] == descriptors


def test_the_log_that_is_reckoned_is_above_what_was_measured() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        for data in (0, 100, 1000):
            few = {**NOTHING, "data": data, "writes_between_snapshots": 1, "writes_at_once": 500}
            log = measured()[f"a znode with {data} B of data"][2]
            assert log is not None
            assert log <= reckoned(**few)["log"] <= 1.6 * log


def test_the_limits_have_the_defaults_of_their_keys() -> None:
    defaults = dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|", KEYS, re.M))
    limits, constants = PAGE.split("\n## Limits\n", 1)[1].split("\nSome limits are constants", 1)
    shown = re.findall(r"^\| [^|`]+ \| `([^`]+)` \| ([^|]+) \| [^|]+ \|$", limits, re.M)
    assert len(shown) >= 15
    assert {key: defaults[key] for key, _ in shown} == dict(shown)
    files = re.findall(r"`(zab/[^`]+|datatree/[^`]+)`", constants)
    assert len(files) >= 8
    assert all((ROOT / file).is_file() for file in files)
