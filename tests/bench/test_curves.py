"""From the figures to the page, without a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.curves import __main__ as curves
from bench.curves.field import LOG_LINES, Field
from bench.curves.figures import SIDES, THEMES, Curve, Figures, Point, load, save
from bench.curves.page import PAGE, TARGET, page, sentence
from bench.process_tree import ran_seconds, resident_mib, running_ns, user_and_system_seconds
from tests.bench.short_runs import connections, shares, starts
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember


def figures() -> Figures:
    return Figures([connections(), starts()], shares())


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


# ----------------------------------------------------------------------------------------------------------- figures


def test_figures_are_kept_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "build" / "curves.json"
    assert load(file) == Figures()
    save(figures(), file)
    assert load(file) == figures()
    save(Figures([starts()]), file)
    assert load(file) == Figures([starts()])


def test_a_curve_that_is_measured_again_takes_its_place() -> None:
    found = Figures([connections(), starts()])
    again = Curve("connections", "Connections", "connections", [])
    found.put(again, curves.NAMES)
    found.put(Curve("members", "Members", "members", []), curves.NAMES)
    assert [curve.name for curve in found.curves] == ["connections", "members", "znodes"]
    assert found.curves[0] is again


def test_a_point_keeps_the_rounds_of_each_side_and_their_ratios() -> None:
    point = Point("set", 1, [100.0, 200.0, 400.0], [200.0, 200.0, 200.0])
    assert point.ratios() == [2.0, 1.0, 0.5]
    assert (point.ratio, point.median("zookeeper"), point.median("zab")) == (1.0, 200.0, 200.0)


def test_points_are_in_the_order_of_their_places() -> None:
    curve = connections()
    assert [point.x for point in curve.points_of(curve.series[0])] == [1, 10, 1_000]


def test_only_series_of_the_curve_are_measured() -> None:
    with pytest.raises(AssertionError):
        connections().add("sett", 1, "zab", 1.0)


def test_what_a_process_used_is_read() -> None:
    program = """
import sys, time
while time.process_time() < 0.3:
    pass
print(time.process_time(), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        used = float(process.stdout.readline())
        assert ran_seconds({}, running_ns(process.pid)) == pytest.approx(used, abs=0.1)
        assert sum(user_and_system_seconds(process.pid)) == pytest.approx(used, abs=0.1)
        assert 1 < resident_mib(process.pid) < 1_000
        process.stdin.close()


# -------------------------------------------------------------------------------------------------------------- page


def test_the_page_has_a_picture_a_sentence_and_a_table_of_each_curve() -> None:
    text = page(Figures([connections()]))
    assert text.startswith("- 2 cores\n- commit 1234567\n\n## Connections\n")
    assert '<source media="(prefers-color-scheme: dark)" srcset="curves/connections-dark.png">' in text
    assert 'src="curves/connections-light.png">' in text
    assert rows(text) == [
        "| connections | | ZooKeeper | zab | ratio (quartiles) |",
        "| 1 | set, operations a second | 200 | 100 | **0.50** (0.50-0.50) |",
        "| 10 | set, operations a second | 400 | 398 | **0.99** (0.99-0.99) |",
        "| 1,000 | set, operations a second | 800 | 1,600 | **2.00** (2.00-2.00) |",
    ]


def test_a_sentence_says_how_each_side_grows_and_how_they_compare() -> None:
    curve = connections()
    assert sentence(curve, curve.series[0]) == (
        "**set**, operations a second: from 1 to 1,000 connections, ZooKeeper's grows to 4 times and zab's grows to 16 "
        "times; zab's is 0.50 of ZooKeeper's at 1 and 2.00 at 1,000."
    )
    start, memory = starts().series
    assert "ZooKeeper's stays the same and zab's shrinks to 0.50 times; zab's is 0.50" in sentence(starts(), start)
    assert sentence(starts(), memory) == "**memory**, B: zab's is 0.25 of ZooKeeper's at 100,000 znodes."


def test_curves_of_several_runs_say_each_its_own() -> None:
    other = starts()
    other.run = ["2 cores", "commit 7654321"]
    text = page(Figures([connections(), other]))
    assert text.startswith("## Connections")
    assert text.index("- commit 1234567") < text.index("## Znodes") < text.index("- commit 7654321")


def test_the_shares_say_what_an_operation_costs_and_how_far_the_floor_is() -> None:
    text = page(Figures(shares=shares()))
    assert "A single set takes ZooKeeper 2.5 and zab 4.5 times as long as a server that answers and syncs once." in text
    assert rows(text)[1] == "| set | 100 | 250 (2.5 floors) | 450 (4.5 floors) | **1.83** (1.75-1.92) |"
    assert rows(text)[3] == "| set | zab, leader | 600 | 100 | 200 | 1.00 | 67% · 11% · 22% |"


def test_the_page_of_this_repository_is_what_its_figures_say() -> None:
    file = PAGE.parent / "curves.json"
    between = PAGE.read_text().split(f"<!-- {TARGET}: begin -->")[1].split(f"<!-- {TARGET}: end -->")[0]
    assert between.strip() == page(load(file)).strip()
    drawn = {path.name for path in (PAGE.parent / "curves").glob("*.png")}
    assert drawn == {curve.drawing(theme) for curve in load(file).curves for theme in THEMES}


# ----------------------------------------------------------------------------------------------------------- command


def test_an_unknown_curve_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        curves.main(["--curves", "conections"])
    assert "invalid choice: 'conections'" in capsys.readouterr().err


def test_crowds_that_no_process_can_hold_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    field = Field(1, 1.0, 0, descriptors=1_500)
    assert field.crowds(10, 1_000, 10_000) == (10, 1_000)
    assert "(10000,) are left out" in capsys.readouterr().err
    assert Field(1, 1.0, 0, size_count=2).sizes(1, 2, 3) == (1, 2)


def test_a_thread_that_has_ended_takes_no_time_from_the_others() -> None:
    assert ran_seconds({1: 5_000_000_000, 2: 1_000_000_000}, {2: 1_500_000_000, 3: 250_000_000}) == 0.75


def test_a_curve_that_fails_says_what_the_members_said_last(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    @contextmanager
    def start(*_: object) -> Iterator[dict[str, ZooKeeperEnsemble]]:
        members = [ZooKeeperMember(number, 1, tmp_path / side, []) for number, side in enumerate(SIDES, 1)]
        yield {side: ZooKeeperEnsemble([member]) for side, member in zip(SIDES, members, strict=True)}

    for side in SIDES:
        (tmp_path / side).mkdir()
        (tmp_path / side / "server.log").write_text("".join(f"{side} line {number}\n" for number in range(100)))
    field = Field(1, 1.0, 0, directory=tmp_path, start=start)
    with pytest.raises(ZeroDivisionError), field.ensembles():
        raise ZeroDivisionError
    said = capsys.readouterr().err
    for number, side in enumerate(SIDES, 1):
        assert f"{side} {number}: {side} line 99\n" in said
        assert f"{side} line {100 - LOG_LINES}\n" in said
        assert f"{side} line {99 - LOG_LINES}\n" not in said
