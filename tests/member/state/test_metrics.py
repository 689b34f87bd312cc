"""Summaries: count, sum, bounds and quantiles, against the values themselves. And what a member counts."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.member.words.figures import figures
from zab.service.summary import Summary

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
VALUES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 20)), max_size=60)


@given(VALUES)
def test_count_sum_and_bounds_are_exact(values: list[tuple[int, int]]) -> None:
    summary = Summary()
    for value, times in values:
        summary.add(value, times)
    all_values = [value for value, times in values for _ in range(times)]
    assert summary.count == len(all_values)
    assert summary.total == sum(all_values)
    assert summary.least == min(all_values, default=0)
    assert summary.largest == max(all_values, default=0)
    assert summary.average == (sum(all_values) / len(all_values) if all_values else 0.0)


@given(VALUES)
def test_quantiles_are_those_of_the_sorted_values(values: list[tuple[int, int]]) -> None:
    """Up to the rounding: less than 1.6 %, downwards, and none below 128."""
    summary = Summary()
    for value, times in values:
        summary.add(value, times)
    ordered = sorted(value for value, times in values for _ in range(times))
    for share, found in zip(SHARES, summary.quantiles(*SHARES), strict=True):
        exact = ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0
        assert found <= exact
        assert exact - found <= exact / 64
        assert exact >= 128 or found == exact


def test_what_is_kept_is_bounded_by_the_size_of_numbers() -> None:
    summary = Summary()
    for value in range(0, 1 << 20, 7):
        summary.add(value)
    assert len(summary.counts) <= 128 + 13 * 64


# ------------------------------------------------------------------------------------------------- what a member counts


def shown(server: Server) -> dict[str, Any]:
    return {figure.name: figure.value for figure in figures(server.member.view)}


def test_watch_events_are_counted_by_kind_and_size() -> None:
    ensemble = Ensemble(1)
    writer, first, second = ensemble.session(), ensemble.session(), ensemble.session()
    ensemble.do(writer, writer.create(b"/a"))
    for client in (first, second):
        ensemble.do(client, client.get(b"/a", True), client.children(b"/", True))
    ensemble.do(first, first.exists(b"/new", True))
    metrics = ensemble.servers[1].member.metrics
    before = metrics.response_bytes
    ensemble.do(writer, writer.set(b"/a", b"x"), writer.create(b"/new"), writer.delete(b"/a"))
    told = [len(client.events()) for client in (first, second)]
    assert told == [3, 2]
    counts = [metrics.node_changed_watch_count, metrics.node_created_watch_count, metrics.node_children_watch_count]
    assert [(summary.count, summary.total) for summary in counts] == [(1, 2), (1, 1), (1, 2)]
    assert metrics.node_deleted_watch_count.count == 0, "nobody watched any more"
    assert 5 * 30 < metrics.watch_bytes < metrics.response_bytes - before
    ensemble.do(first, first.get(b"/new", True))
    ensemble.do(writer, writer.delete(b"/new"))
    assert (metrics.node_deleted_watch_count.count, metrics.node_deleted_watch_count.total) == (1, 1)


def test_times_of_synchronization_are_those_of_the_role() -> None:
    ensemble = Ensemble(3, observers=1)
    names = ("follower_sync_time", "observer_sync_time", "leader_unavailable_time")
    leader, follower = ensemble.leader, ensemble.follower
    counts = {server.sid: [shown(server)[name].count for name in names] for server in ensemble.servers.values()}
    assert counts == {leader.sid: [0, 0, 0], follower.sid: [1, 0, 0], 3: [0, 1, 0]}
    lost = leader.sid
    ensemble.cut.add(lost)
    for link in [link for link, ends in ensemble.links.items() if lost in ends]:
        ensemble.break_link(link)
    ensemble.advance(10 * TICK_MS)
    assert not leader.member.serving
    ensemble.cut.clear()
    ensemble.start()
    led = ensemble.leader
    assert shown(led)["leader_unavailable_time"].count == 1
    assert shown(led)["leader_unavailable_time"].total == shown(led)["unavailable_time"].total > 0


def test_a_server_that_joins_follows_and_is_no_voter() -> None:
    ensemble = Ensemble(3, reconfigEnabled="true")
    assert shown(ensemble.leader)["synced_non_voting_followers"] == 0
    ensemble.add(4)
    figures = shown(ensemble.leader)
    assert (figures["synced_non_voting_followers"], figures["synced_followers"], figures["quorum_size"]) == (1, 3, 3)
