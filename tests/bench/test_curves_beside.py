"""Each curve once, of its smallest size, against the real ZooKeeper and ours: that it finds figures, not which."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import cells
from bench.curves import __main__ as curves
from bench.curves import crowds, growth, shares
from bench.curves.field import Both, Field, Limits, WrongAnswerError, right
from bench.curves.figures import SIDES, ZAB, ZOOKEEPER, Curve, Figures, Series, save
from tests.bench.generator import needs_compiler, programs
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import zookeeper

__all__ = ["programs"]

pytestmark = [needs_compiler, pytest.mark.java, pytest.mark.slow, pytest.mark.long]


@dataclass(frozen=True)
class Beside:
    """One server of each, which all curves share, and where both count their syncs."""

    both: Both
    syncs: Path

    def field(self) -> Field:
        @contextlib.contextmanager
        def start(directory: Path, size: int, heap_mb: int, limits: Limits) -> Iterator[Both]:
            yield self.both

        # What others on this machine write is not waited for.
        return Field(rounds=1, seconds=0.1, warmup_seconds=0, size_count=1, start=start, settle=lambda: None)


@pytest.fixture(scope="module")
def beside(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    syncs = tmp_path_factory.mktemp("syncs")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cells, "BUILD", programs)
        patched.setattr(shares, "BUILD", programs)
        patched.setattr(crowds, "IDLE_SECONDS_MIN", 0.3)
        patched.setattr(shares, "SECONDS_MIN", 0.1)
        patched.setattr(growth, "BESIDE_SECONDS_MIN", 0.1)
        # For as long as members are started: a curve starts them again.
        with shares.syncs_counted(syncs), zookeeper() as theirs, zab_servers(1) as ours:
            yield Beside({ZOOKEEPER: theirs, ZAB: ours}, syncs)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.longest if name in {"znodes", "memory"} else ()) for name in curves.CURVES],
)
def test_a_curve_finds_figures_on_both_sides(beside: Beside, name: str) -> None:
    curve = curves.CURVES[name](beside.field())
    assert curve.name == name
    # How much memory a znode takes is asked only where there are many, and who leads next only where others are left.
    expected = [series.name for series in curve.series if "memory" not in series.name and "kill" not in series.name]
    assert [point.series for point in curve.points] == expected
    for point in curve.points:
        for side in SIDES:
            [value] = point.values(side)
            # A virtual machine may have less in use after it than before.
            assert value > 0 or name == "memory", (point.series, side)


def test_the_shares_of_an_operation_are_found_on_both_sides(beside: Beside) -> None:
    found = shares.measured_shares(beside.field(), beside.both, beside.syncs)
    assert [latency.operation for latency in found.latencies] == ["set", "get"]
    for latency in found.latencies:
        [floor], [theirs], [mine] = latency.floor, latency.zookeeper, latency.zab
        assert floor > 0
        assert theirs > 0
        assert mine > 0
    costs = {(cost.operation, cost.side): cost for cost in found.costs}
    assert set(costs) == {(operation, side) for operation in ("set", "get") for side in SIDES}
    for side in SIDES:
        # Each set is a batch of its own, which waits for the disk once.
        [syncs] = costs["set", side].syncs
        assert syncs >= 0.9, side
        assert costs["set", side].disk_us[0] > 0


def test_what_was_refused_is_no_figure(beside: Beside) -> None:
    cell = cells.Cell("get", 1, 1, "all")
    missing = ("--keep", "--root", "/nothing", "--among", "5")
    result = cells.run_operations(beside.both[ZAB].hosts, cell, 10, options=missing)
    with pytest.raises(WrongAnswerError, match="10 requests"):
        right(result)


def test_a_command_puts_its_figures_to_the_others_and_draws_all(
    beside: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(curves, "BUILD", tmp_path)
    monkeypatch.setattr(curves, "Field", lambda *arguments: beside.field())
    other = Curve("idle", "Idle sessions", "sessions", [Series("all", "ms")], ["another run"])
    other.add("all", 100, ZOOKEEPER, 2.0)
    other.add("all", 100, ZAB, 1.0)
    save(Figures([other]), tmp_path / "curves.json")
    assert curves.main(["--quick", "--curves", "sessions"]) == 0
    out = capsys.readouterr().out
    assert out.index("## Sessions that come and go") < out.index("## Idle sessions") < out.index("- another run")
    assert {path.name for path in (tmp_path / "curves").iterdir()} == {
        f"{name}-{theme}.png" for name in ("idle", "sessions") for theme in ("light", "dark")
    }
