"""The benchmark of ledgers: what it makes of its figures, and that our client's load counts what it did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ledgers.cells import CELLS, Cell, Result
from bench.ledgers.page import PAGE
from bench.moments import Moments
from bench.rivals import Comparison, Measured
from tests.rigs.bookie import bookies
from tests.rigs.zab_server import zab_servers


def test_cells_have_names_of_their_own() -> None:
    assert len({cell.key for cell in CELLS}) == len({cell.title for cell in CELLS}) == len(CELLS)


def test_ratios_are_those_of_the_same_round() -> None:
    measured = Measured(Cell("python", "v2", 1_000))
    for theirs, ours in ((100, 200), (1000, 500), (10, 30)):
        measured.theirs.append(Result(theirs, 10, 20, 1.0))
        measured.ours.append(Result(ours, 5, 15, 0.5))
    started = Moments("start", "s", [10.0, 12.0, 14.0], [1.0, 1.2, 6.0])
    text = PAGE.markdown(Comparison(["machine"], [measured], [started]))
    row = next(line for line in text.splitlines() if "under way" in line)
    assert row == (
        "| zab's client, v2, 1,000 under way | 100 | 200 | **2.00** (1.25-2.50) | **4.00** | 10 · 5 | 20 · 15 |"
    )
    assert "| start | 12.000 s | 1.200 s | **0.10** |" in text


@pytest.mark.slow
@pytest.mark.parametrize("load", [("--window", "20"), ("--rate", "50")])
def test_the_load_counts_what_is_acknowledged(tmp_path: Path, load: tuple[str, str]) -> None:
    with zab_servers(1, directory=tmp_path / "member") as ensemble, bookies(tmp_path, 3, ensemble.hosts):
        command = [sys.executable, "-m", "bench.ledgers.load", "--hosts", ensemble.hosts, "--seconds", "0.5", *load]
        found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert found["entries"] >= 10
    assert found["per_second"] == pytest.approx(found["entries"] / found["seconds"])
    assert 0 < found["p50_us"] <= found["p99_us"]
