"""The part of a run that is kept, as text."""

import pytest

from zab.simulator.world.scope import Kept, ScopeError


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (Kept(12, (3, 5, 6, 7), {2: (), 1: (1, 2, 3, 4, 9)}), "t12 f3,5-7 c1:1-4,9 c2:"),
        (Kept(0, (), {}), "t0 f"),
        (Kept(1, (1,), {12: (5,)}), "t1 f1 c12:5"),
    ],
)
def test_a_part_is_the_same_after_it_was_text(kept: Kept, text: str) -> None:
    assert str(kept) == text
    assert Kept.parse(text) == kept


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "how many ticks"),
        ("t3", "which faults"),
        ("f3", "how many ticks"),
        ("t3 f1 x", "'x' is none of"),
        ("t3 f1 c1", "'c1' is none of"),
        ("t3 f1-", "'1-' is neither"),
        ("t3 f1,,2", "'' is neither"),
        ("t3 f1-99999999", "neither"),
        ("t9999999 f", "more than"),
        ("t3 f c1:1-9999999", "more than"),
    ],
)
def test_text_that_is_no_part_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ScopeError, match=reason):
        Kept.parse(text)
