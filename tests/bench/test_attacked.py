"""The waits under attack: one attack, and the table."""

from pathlib import Path

import pytest

from bench.attacked import ATTACKS, table, waits_under
from bench.table import README
from tests.hostile.ensembles import by_command


@pytest.mark.slow
@pytest.mark.process
def test_an_attack_is_measured(tmp_path: Path) -> None:
    with by_command(tmp_path) as target:
        wait_ms, turn_ms = waits_under(ATTACKS["a list of 256 permissions, checked over and over"], target)
    assert 0 < turn_ms <= 50
    assert wait_ms > 0


def test_table_has_the_median_and_the_most_of_each() -> None:
    text = table({"noise": [(10.4, 1.0), (1200.0, 3.0), (20.0, 2.0)]})
    assert text.splitlines()[2] == "| noise | **20 (1,200)** | 2 (3) |", "above the bound of 200 ms"
    assert table({"long": [(200.0, 20.1)]}).splitlines()[2] == "| long | 200 (200) | **20 (20)** |"


def test_page_has_its_place() -> None:
    page = README.read_text()
    assert page.count("<!-- make bench-attacked: begin -->") == page.count("<!-- make bench-attacked: end -->") == 1
