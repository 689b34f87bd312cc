"""The measurement of what a member needs, with few things: that each is made and counted, not how large it is."""

import re

import pytest

from bench.sizing import PAGE, TARGET, Row, Tree, main, table

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.longest
def test_all_of_it_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert main(["--no-page", "--count", "300", "--connections", "10", "--trees", "500"]) == 0
    said = capsys.readouterr().out
    assert PAGE.read_text(encoding="utf-8") == page
    rows = re.findall(r"^\| (an? .*?) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| (\d) \|$", said, re.M)
    assert [row[0] for row in rows] == [
        *(f"a znode with {size} B of data" for size in (0, 100, 1000)),
        "an ephemeral with 100 B of data",
        "a connection with its session, plain",
        "a session that has no connection here",
        "a connection with its session, in TLS",
        *(f"{name}{more}" for name in ("a watch", "a persistent watch", "a recursive watch") for more in MORE),
    ]
    znodes = {name: (int(log.replace(",", "")), int(snapshot)) for name, _, _, log, snapshot, _ in rows[:2]}
    (log, snapshot), (log_with_data, snapshot_with_data) = znodes.values()
    assert 90 <= log_with_data - log <= 110
    assert 90 <= snapshot_with_data - snapshot <= 110
    assert [row[5] for row in rows] == ["0"] * 4 + ["1", "0", "1"] + ["0"] * 6
    assert re.search(r"^\| 500 \| 0\.1 \|", said, re.M)
    alone, together = map(int, re.findall(r"(\d+) B with", said))
    assert 100 < together < alone < 1000


MORE = ("", ", where another connection has one")


def test_table_leaves_out_what_a_thing_has_not() -> None:
    text = table([Row("a watch", 374.4)], [Tree(1000, 1.0, 2.0, 3.0, 4.0)], {1: 274.0}, 60 * 2**20)
    assert "| a watch | 374 |  |  |  | 0 |" in text
    assert "| 1,000 | 1.0 | 2.0 | 3.0 | 4.0 |" in text
    assert "In the log, a set of 100 B takes 274 B with 1 in flight." in text
    assert text.endswith("An empty member has 60 MiB of memory.\n")


def test_page_has_its_place() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(f"<!-- {TARGET}: begin -->") == page.count(f"<!-- {TARGET}: end -->") == 1
