"""The checks of `zab doctor`, from facts that are written down here."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.operations.verdicts import checks
from zab.operations.verdicts.checks import Check, Disk, Port, Verdict, View, quantile

OK, WARNING, FAILED, SKIPPED = Verdict.OK, Verdict.WARNING, Verdict.FAILED, Verdict.SKIPPED


def verdicts(found: Iterable[Check]) -> list[tuple[Verdict, str]]:
    listed = list(found)
    assert all(each.action for each in listed if not each.is_well), "each says what to do"
    return [(each.verdict, each.subject) for each in listed]


def test_the_configuration() -> None:
    assert verdicts(checks.of_configuration([], [])) == [(OK, "")]
    assert verdicts(checks.of_configuration(["a", "b"], ["c"])) == [(FAILED, "")] * 2 + [(WARNING, "")]


def test_names() -> None:
    names = {(1, "a"): frozenset({"10.0.0.1"}), (2, "b"): frozenset({"10.0.0.2"}), (3, "c"): "nobody knows it"}
    assert verdicts(checks.of_names(1, names)) == [(OK, "server.1"), (OK, "server.2"), (FAILED, "server.3")]


def test_an_own_name_on_the_loopback_is_seen_where_the_others_are_elsewhere() -> None:
    names = {(1, "a"): frozenset({"127.0.1.1"}), (2, "b"): frozenset({"10.0.0.2"})}
    assert verdicts(checks.of_names(1, names)) == [(FAILED, "server.1"), (OK, "server.2")]
    # All of them on one machine, as in a trial.
    names[2, "b"] = frozenset({"::1"})
    assert verdicts(checks.of_names(1, names)) == [(OK, "server.1"), (OK, "server.2")]


def test_ports() -> None:
    ports = [
        Port(2, "election", "b:3888", "Connection refused"),
        Port(2, "quorum", "b:2888", "", checks.CONNECT_MS_WARNING + 1),
        Port(3, "quorum", "c:2888", "", checks.CONNECT_MS_WARNING),
    ]
    assert verdicts(checks.of_ports(ports)) == [(FAILED, "server.2"), (WARNING, "server.2"), (OK, "server.3")]


def test_of_several_addresses_one_that_is_reached_is_enough() -> None:
    error = "Connection refused"
    ports = [Port(2, "quorum", "b:2888", error), Port(2, "quorum", "b2:2888"), Port(2, "election", "b:3888", error)]
    assert verdicts(checks.of_ports(ports)) == [(WARNING, "server.2"), (OK, "server.2"), (FAILED, "server.2")]


@pytest.mark.parametrize(
    ("views", "found"),
    [
        ([], [(SKIPPED, "")]),
        ([View(1, 1, frozenset({2, 3})), View(2, 1)], [(OK, "server.1")]),
        ([View(1, 1, frozenset({2})), View(2, 1)], [(FAILED, "server.3")]),
        ([View(1, 1, frozenset({2})), View(2, 1, frozenset({3}))], [(OK, "server.1")]),
        ([View(1, None), View(2, None)], [(FAILED, "")]),
        ([View(1, 1, frozenset({2, 3})), View(2, 3)], [(FAILED, ""), (OK, "server.1")]),
        ([View(1, 1, frozenset({2, 3})), View(2, None)], [(FAILED, ""), (OK, "server.1")]),
        ([View(None, None, error="refused"), View(1, 1, frozenset({2, 3}))], [(WARNING, ""), (OK, "server.1")]),
        ([View(None, None, error="refused")], [(WARNING, ""), (SKIPPED, "")]),
    ],
)
def test_what_members_say_of_one_another(views: list[View], found: list[tuple[Verdict, str]]) -> None:
    assert verdicts(checks.of_views(views, {1, 2, 3})) == found


@pytest.mark.parametrize(
    ("skews", "verdict"),
    [
        ({}, SKIPPED),
        ({"server.1": 0.0}, OK),
        ({"server.1": checks.SKEW_SECONDS_MAX}, OK),
        ({"server.1": checks.SKEW_SECONDS_MAX + 0.5}, WARNING),
        ({"server.1": 3.0, "server.2": -3.0}, WARNING),
    ],
)
def test_clocks(skews: dict[str, float], verdict: Verdict) -> None:
    assert verdicts(checks.of_clocks(skews)) == [(verdict, "")]


def test_limits() -> None:
    assert verdicts(checks.of_limits(1024, 512, 513)) == [(WARNING, "")]
    assert verdicts(checks.of_limits(1024, 512, 512)) == [(OK, "")]
    assert verdicts(checks.of_limits(1024, 512, 0)) == [(OK, "")]


@pytest.mark.parametrize(
    ("syncs", "verdict"),
    [
        ([1.0] * 100, OK),
        ([1.0] * 99 + [2000.0], OK),
        ([1.0] * 98 + [51.0] * 2, WARNING),
        ([1.0] * 98 + [1001.0] * 2, FAILED),
    ],
)
def test_disks(syncs: list[float], verdict: Verdict) -> None:
    assert verdicts(checks.of_disk(Disk("/d", syncs, 100), 100)) == [(OK, "/d"), (verdict, "/d")]


def test_a_full_disk_and_one_that_cannot_be_written_to() -> None:
    assert verdicts(checks.of_disk(Disk("/d", (), 99), 100)) == [(FAILED, "/d")]
    assert verdicts(checks.of_disk(Disk("/d", error="read-only"), 100)) == [(FAILED, "/d")]


def test_certificates() -> None:
    days = {"a": "no such file", "b": -0.5, "c": checks.DAYS_WARNING - 0.1, "d": checks.DAYS_WARNING}
    assert verdicts(checks.of_certificates(days)) == [(FAILED, "a"), (FAILED, "b"), (WARNING, "c"), (OK, "d")]


def test_versions() -> None:
    assert verdicts(checks.of_versions({})) == [(SKIPPED, "")]
    assert verdicts(checks.of_versions({"server.1": "a", "server.2": "a"})) == [(OK, "")]
    assert verdicts(checks.of_versions({"server.1": "a", "server.2": "b"})) == [(WARNING, "")]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from((0.5, 0.9, 0.99, 1.0)))
def test_a_quantile_is_not_below_its_share(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)
