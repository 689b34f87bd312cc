"""Each point at which a takeover can cut a roll in two, and each at which the roll cuts the takeover: real cores, two
switches between them. a appends and rolls up to one of its batches for the coordination service; b takes over up to
one of its own; a goes on to its end, then b."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.simulator.ledgers.log_story import LogStory, StoryOwner
from zab.ledger.managed.events import Done, LogAppended, LogRoll, OwnerState

BATCHES_OF_A = range(1, 8)
BATCHES_OF_B = range(1, 20)


def _from(number: int) -> Callable[[Any], bool]:
    """The operations from this one on, as they are submitted."""
    counter = count(1)
    return lambda _operation: next(counter) >= number


def _play(of_a: int, of_b: int) -> tuple[LogStory, StoryOwner, StoryOwner]:
    story = LogStory(3)
    a, b = story.owner(), story.owner()
    a.take_over()
    a.write("before")
    held_a = story.hold_writes(a, _from(of_a))
    a.append("x")
    a.ask(LogRoll("roll"))
    a.append("y")
    story.until(lambda: bool(held_a.waiting) or "y" in a.outcomes)
    held_b = story.hold_writes(b, _from(of_b))
    b.take_over(wait=False)
    story.until(lambda: bool(held_b.waiting) or b.state is OwnerState.OPEN)
    held_a.release()
    story.until(lambda: "y" in a.outcomes and "roll" in a.outcomes)
    held_b.release()
    story.until(lambda: b.state is OwnerState.OPEN)
    return story, a, b


@pytest.mark.slow
@pytest.mark.parametrize("of_a", BATCHES_OF_A)
def test_a_roll_and_a_takeover_in_each_other(of_a: int) -> None:
    for of_b in BATCHES_OF_B:
        story, a, b = _play(of_a, of_b)
        b.write("after")
        story.finish()
        texts = story.texts()
        assert texts[0] == "before"
        assert texts[-1] == "after"
        assert texts == sorted(set(texts), key=["before", "x", "y", "after"].index)
        if a.outcomes["roll"] == Done():
            assert "x" in texts
        for text in "xy":
            assert text in texts or not isinstance(a.outcomes[text], LogAppended)
