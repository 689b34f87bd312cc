"""That what grows turns a soak red: in numbers, and with a real member that leaks. `make soak` is the long run."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from tests.chaos.level import MIB, RESOURCES, Sample, judge, slope_of
from tests.chaos.soak import main, soak

pytestmark = pytest.mark.long

HOURS_2 = 7200.0
LEVEL = {"descriptors": 30.0, "threads": 5.0, "memory": 60.0 * MIB, "files": 4.0 * MIB, "znodes": 30.0}


def samples(resource: str, value, seconds: float = HOURS_2, count: int = 400) -> list[Sample]:  # type: ignore[no-untyped-def]
    """The samples of one member, all level except this resource, which is `value` of the time."""
    times = [seconds * number / count for number in range(count + 1)]
    return [Sample(1, at, {**LEVEL, resource: value(at)}) for at in times]


def grown(found: list[Sample]) -> set[str]:
    return {trend.resource for trend in judge(found) if not trend.is_level}


@pytest.mark.parametrize(
    ("resource", "an_hour"),
    [("descriptors", 4), ("threads", 2), ("memory", 8 * MIB), ("files", 5 * MIB), ("znodes", 35)],
)
def test_what_grows_slowly_for_two_hours_is_found(resource: str, an_hour: float) -> None:
    source = random.Random(1)
    noise = LEVEL[resource] * 0.02
    assert grown(samples(resource, lambda at: LEVEL[resource] + an_hour * at / 3600 + source.gauss(0, noise))) == {
        resource
    }


@pytest.mark.parametrize("resource", RESOURCES)
def test_what_is_level_in_spite_of_noise_and_single_leaps_is_level(resource: str) -> None:
    source = random.Random(2)
    usual = LEVEL[resource]
    assert grown(samples(resource, lambda _: usual + source.gauss(0, usual * 0.03))) == set()
    assert grown(samples(resource, lambda at: usual * (50 if at == HOURS_2 else 1))) == set()


def test_log_that_grows_and_is_purged_is_level() -> None:
    assert grown(samples("files", lambda at: (2 + 3 * (at / 100 % 1)) * MIB)) == set()


def test_memory_that_is_taken_at_first_is_no_leak() -> None:
    assert grown(samples("memory", lambda at: (80 - 40 * math.exp(-at / 600)) * MIB)) == set()


def test_each_member_is_judged_by_itself() -> None:
    first = samples("threads", lambda at: 5 + at / 60)
    second = [Sample(2, each.seconds, LEVEL) for each in first]
    assert [(t.member, t.resource) for t in judge(first + second) if not t.is_level] == [(1, "threads")]


def test_slope_is_that_of_the_line() -> None:
    assert slope_of([(x, 3 * x + 1) for x in range(1000)]) == pytest.approx(3)


@pytest.mark.slow
@pytest.mark.longest
def test_run_with_a_member_that_leaks_is_red_and_says_what_grows(tmp_path: Path) -> None:
    programs = [("-m", "tests.chaos.leaky"), ("-m", "zab.server")]
    found = soak(45, directory=tmp_path, seed=1, programs=programs)
    grown = {(trend.member, trend.resource) for trend in found.grown}
    assert {(1, "descriptors"), (1, "threads"), (1, "memory"), (1, "files")} <= grown, str(found)
    assert not {(2, "descriptors"), (2, "threads"), (3, "descriptors"), (3, "threads")} & grown, str(found)
    assert "server 1 threads      GROWS" in str(found)
    assert found.operations > 1000, str(found)
    assert not found.failures, str(found)


@pytest.mark.slow
@pytest.mark.longest
def test_exit_code_says_whether_something_grew(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    def short(seconds, *, directory, seed):  # type: ignore[no-untyped-def]
        return soak(seconds, directory=directory, seed=seed, programs=[("-m", "tests.chaos.leaky")])

    monkeypatch.setattr("tests.chaos.soak.soak", short)
    assert main(["--seconds", "25", "--seed", "3"]) == 1
    assert "GROWS" in capsys.readouterr().out
