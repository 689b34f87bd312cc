"""Placement: properties over random clusters, and single rules."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.ledger.entries.ids import BookieId
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.placement.placement import (
    Adherence,
    NotEnoughBookiesError,
    Placement,
    PlacementSettings,
)
from zab.ledger.placement.racks import STEPS_MAX, _Search, broken_windows, find_ensemble
from zab.ledger.quorums.write_sets import ENSEMBLE_SIZE_MAX, write_sets


def nodes(racks: str, free: int | None = None) -> list[BookieNode]:
    """Bookies b0, b1, … in these racks."""
    return [BookieNode(BookieId(f"b{index}"), rack, free) for index, rack in enumerate(racks)]


def placed(racks: str | Iterable[BookieNode], seed: int = 1, **options: object) -> Placement:
    placement = Placement(Random(seed), PlacementSettings(**options))  # type: ignore[arg-type]
    placement.know(nodes(racks) if isinstance(racks, str) else racks)
    return placement


def racks_of(racks: str, ensemble: Iterable[BookieId]) -> str:
    return "".join(racks[int(bookie[1:])] for bookie in ensemble)


def fewest_broken(racks: str, size: int, write_quorum: int, needed: int) -> int:
    """By trying every sequence of racks."""
    stock = Counter(racks)
    best = size

    def go_on(chosen: str) -> None:
        nonlocal best
        if len(chosen) == size:
            best = min(best, broken_windows(chosen, write_quorum, needed))
            return
        for rack in stock:
            if chosen.count(rack) < stock[rack]:
                go_on(chosen + rack)

    go_on("")
    return best


CLUSTERS = st.tuples(
    st.text("xyz", min_size=3, max_size=9), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 99)
)


@settings(max_examples=150, deadline=None)
@given(CLUSTERS)
def test_as_few_write_sets_as_possible_are_in_too_few_racks(cluster: tuple[str, int, int, int, int]) -> None:
    racks, size, write_quorum, racks_min, seed = cluster
    size = min(size, len(racks))
    write_quorum = min(write_quorum, size)
    found = placed(racks, seed, racks_min=racks_min).new_ensemble(size, write_quorum, 0)
    assert len(set(found)) == len(found) == size
    needed = min(write_quorum, racks_min, len(set(racks)))
    broken = broken_windows(racks_of(racks, found), write_quorum, needed)
    assert broken == fewest_broken(racks, size, write_quorum, needed)


@settings(max_examples=150, deadline=None)
@given(CLUSTERS)
def test_an_enforced_rule_is_kept_or_there_is_no_ensemble(cluster: tuple[str, int, int, int, int]) -> None:
    racks, size, write_quorum, racks_min, seed = cluster
    size = min(size, len(racks))
    write_quorum = min(write_quorum, size)
    needed = min(write_quorum, racks_min)
    placement = placed(racks, seed, racks_min=racks_min, is_enforced=True)
    if fewest_broken(racks, size, write_quorum, needed):
        with pytest.raises(NotEnoughBookiesError):
            placement.new_ensemble(size, write_quorum, 0)
        return
    found = placement.new_ensemble(size, write_quorum, 0)
    assert not broken_windows(racks_of(racks, found), write_quorum, needed)
    assert placement.adheres(found, write_quorum) is Adherence.STRICT


@settings(max_examples=150, deadline=None)
@given(CLUSTERS, st.data())
def test_a_replacement_breaks_no_more_than_the_best_one(
    cluster: tuple[str, int, int, int, int], data: st.DataObject
) -> None:
    racks, size, write_quorum, racks_min, seed = cluster
    size = min(size, len(racks) - 1)
    write_quorum = min(write_quorum, size)
    placement = placed(racks, seed, racks_min=racks_min)
    ensemble = list(placement.new_ensemble(size, write_quorum, 0))
    index = data.draw(st.integers(0, size - 1))
    others = [node.id for node in nodes(racks) if node.id not in ensemble]
    exclude = data.draw(st.sets(st.sampled_from(others), max_size=len(others) - 1))
    chosen = placement.replace(index, ensemble, write_quorum, 0, exclude)
    assert chosen not in ensemble
    assert chosen not in exclude

    def broken_with(bookie: BookieId) -> int:
        after = [*ensemble[:index], bookie, *ensemble[index + 1 :]]
        return broken_windows(racks_of(racks, after), write_quorum, min(write_quorum, racks_min))

    assert broken_with(chosen) == min(broken_with(each) for each in others if each not in exclude)


def test_windows_go_around_the_end() -> None:
    """The first and the last member are neighbours, too."""
    assert broken_windows("xyx", 2, 2) == 1
    assert broken_windows("xyz", 2, 2) == 0
    for seed in range(30):
        found = racks_of("xxyyz", placed("xxyyz", seed).new_ensemble(5, 2, 0))
        assert all(found[a] != found[b] for a, b in write_sets(5, 2))


def test_two_racks_can_hold_no_odd_ring_so_one_write_set_is_in_one_rack() -> None:
    found = placed("xxxyyy").new_ensemble(3, 2, 0)
    assert broken_windows(racks_of("xxxyyy", found), 2, 2) == 1
    assert placed("xxxyyy").adheres(found, 2) is Adherence.SOFT
    with pytest.raises(NotEnoughBookiesError, match="no 3 bookies have each 2 in 2 racks"):
        placed("xxxyyy", is_enforced=True).new_ensemble(3, 2, 0)


def test_how_ensembles_adhere() -> None:
    b0, b1, b2, b3 = (node.id for node in nodes("xxxy"))
    placement = placed("xxxy")
    assert placement.adheres([b0, b1, b3], 3) is Adherence.STRICT
    assert placement.adheres([b0, b1, b2], 3) is Adherence.NO
    placement.know(nodes("xxx"))
    assert placement.adheres([b0, b1, b2], 3) is Adherence.SOFT
    wide = placed("xxyy", racks_min=3)
    assert wide.adheres([b0, b1, b2], 3) is Adherence.SOFT
    assert wide.adheres([b0, b1], 2) is Adherence.NO


def test_bookies_that_are_gone_count_as_the_default_rack() -> None:
    placement = placed("xy")
    gone = BookieId("gone")
    assert placement.adheres([BookieId("b0"), gone], 2) is Adherence.STRICT
    assert placement.adheres([gone, BookieId("gone2")], 2) is Adherence.NO


@pytest.mark.parametrize(("racks", "size"), [("xy", 3), ("", 1)])
def test_too_few_bookies(racks: str, size: int) -> None:
    with pytest.raises(NotEnoughBookiesError, match=f"{size} bookies are needed, {len(racks)} may be chosen"):
        placed(racks).new_ensemble(size, 1, 0)
    with pytest.raises(NotEnoughBookiesError, match="no bookie may take the place of b0"):
        placed(racks).replace(0, [BookieId("b0"), BookieId("b1")], 1, 0)


def test_excluded_bookies_are_not_chosen() -> None:
    exclude = {BookieId("b0"), BookieId("b1")}
    found = placed("xxyyy").new_ensemble(3, 3, 0, exclude)
    assert not exclude & set(found)


def test_an_ensemble_has_a_largest_size() -> None:
    racks = "xy" * ENSEMBLE_SIZE_MAX
    assert len(placed(racks).new_ensemble(ENSEMBLE_SIZE_MAX, 3, 0)) == ENSEMBLE_SIZE_MAX
    with pytest.raises(NotEnoughBookiesError, match="at most 100"):
        placed(racks).new_ensemble(ENSEMBLE_SIZE_MAX + 1, 3, 0)


def test_a_replacement_in_another_rack_is_enforced_too() -> None:
    ensemble = [BookieId("b0"), BookieId("b3")]
    assert placed("xxxy").replace(1, ensemble, 2, 0) in {"b1", "b2"}
    with pytest.raises(NotEnoughBookiesError, match="no bookie in another rack"):
        placed("xxxy", is_enforced=True).replace(1, ensemble, 2, 0)


def test_a_search_gives_up() -> None:
    """Forty bookies, of which hardly any sequence keeps the rule: after some steps it takes what there is."""
    racks = "x" * 24 + "abcdefghijklmnop"
    search = _Search(nodes(racks), 40, 2, 2, 0)
    assert not search.go_on(0)
    assert search.steps == STEPS_MAX
    found = find_ensemble(nodes(racks), 40, 2, 2, 40)
    assert found is not None
    assert len(set(found)) == 40


# ------------------------------------------------------------------------------------------------------------- weights


def test_all_bookies_are_chosen_alike() -> None:
    counts = Counter(placed("xxxxxx", seed).new_ensemble(1, 1, 0)[0] for seed in range(600))
    assert min(counts.values()) > 60


def test_a_bookie_with_more_space_is_chosen_more_often_up_to_a_multiple_of_the_median() -> None:
    frees = (1_000, 1_000, 1_000, 3_000, 1_000_000)
    cluster = [BookieNode(BookieId(f"b{index}"), free=free) for index, free in enumerate(frees)]
    counts: Counter[BookieId] = Counter()
    for seed in range(1_800):
        counts[placed(cluster, seed, weight_max_multiple=3).new_ensemble(1, 1, 0)[0]] += 1
    # Weights 1, 1, 1, 3, 3: shares of 200 and 600.
    for index in range(3):
        assert 140 < counts[BookieId(f"b{index}")] < 270
    for index in (3, 4):
        assert 500 < counts[BookieId(f"b{index}")] < 710


def test_a_bookie_that_does_not_say_counts_as_the_median_and_a_full_one_can_still_be_chosen() -> None:
    cluster = [BookieNode(BookieId("b0")), BookieNode(BookieId("b1"), free=1_000), BookieNode(BookieId("b2"), free=0)]
    counts: Counter[BookieId] = Counter()
    for seed in range(600):
        counts[placed(cluster, seed, weight_max_multiple=3).new_ensemble(1, 1, 0)[0]] += 1
    assert counts[BookieId("b2")] < 10
    assert 230 < counts[BookieId("b0")] < 370
    assert len(placed(cluster, weight_max_multiple=3).new_ensemble(3, 3, 0)) == 3


# ---------------------------------------------------------------------------------------------------------- quarantine


def failing(placement: Placement, bookie: str, times: int, *, every_ms: int = 1, from_ms: int = 0) -> list[bool]:
    return [placement.note_error(BookieId(bookie), from_ms + index * every_ms) for index in range(times)]


def test_a_bookie_that_fails_often_is_not_chosen_for_a_while() -> None:
    placement = placed("xxxx")
    assert failing(placement, "b0", 100) == [False] * 99 + [True]
    assert placement.quarantined(99) == {"b0"}
    for _ in range(20):
        assert "b0" not in placement.new_ensemble(3, 3, 100)
        assert placement.replace(0, [BookieId("b1")], 1, 100) != "b0"
    assert placement.quarantined(99 + 1_800_000 - 1) == {"b0"}
    assert placement.quarantined(99 + 1_800_000) == set()
    assert any("b0" in placement.new_ensemble(3, 3, 2_000_000) for _ in range(20))


def test_errors_that_are_long_ago_do_not_count() -> None:
    placement = placed("xxxx")
    assert failing(placement, "b0", 99) == [False] * 99
    assert failing(placement, "b0", 1, from_ms=60_000) == [False]
    assert failing(placement, "b0", 3, from_ms=60_001, every_ms=100) == [False] * 3


def test_quarantine_leaves_enough_bookies_for_an_ensemble() -> None:
    """The ones that leave it first are taken."""
    placement = placed("xxxx", quarantine_errors=1)
    for at, bookie in enumerate(("b2", "b0", "b3")):
        failing(placement, bookie, 1, from_ms=at)
    for _ in range(10):
        assert set(placement.new_ensemble(3, 3, 10)) == {"b1", "b2", "b0"}
    assert placement.replace(0, [BookieId("b1")], 1, 10) == "b2"


def test_no_errors_at_all_are_counted_with_a_limit_of_zero() -> None:
    placement = placed("xxxx", quarantine_errors=0)
    assert not any(failing(placement, "b0", 500))
    assert placement.quarantined(10) == set()


def test_errors_are_forgotten_when_they_do_not_matter_any_more() -> None:
    placement = placed("xxxx")
    for index in range(1_000):
        placement.note_error(BookieId(f"stranger{index}"), 0)
    placement.new_ensemble(3, 3, 60_000)
    assert placement._quarantine._failed_at == {}


@pytest.mark.parametrize(
    "wrong",
    [{"racks_min": 0}, {"weight_max_multiple": -1}, {"quarantine_errors": -1}, {"quarantine_ms": 0}],
)
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PlacementSettings(**wrong)  # type: ignore[arg-type]
