"""Three owners take a log over from each other at random, while bookies end, links are slow, and sessions expire. The
judges look at everything; at the end all that was acknowledged is in the log, once and in order."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulator.ledgers.log_story import LogStory, StoryOwner
from tests.simulator.ledgers.story import Hold, is_add
from zab.ledger.managed.cursor_events import CursorAcknowledge, CursorFlush, CursorOpen
from zab.ledger.managed.events import LogAppended, LogRoll, LogTrim, OwnerState

STEPS = 60


class Owners:
    """One run. A cursor is moved over everything that is acknowledged, so that ledgers are trimmed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.story = LogStory(5, log={"max_entries": 5, "retention_ms": 1_000, "trim_ms": 500, "wait_ms": 60_000})
        self.owners = [self.story.owner() for _ in range(3)]
        self.down: int | None = None
        self.holds: list[Hold] = []
        self.cut: set[int] = set()
        self.count = 0

    def run(self) -> None:
        self.owners[0].take_over()
        for _ in range(STEPS):
            self.rng.choice(
                (
                    self._append,
                    self._append,
                    self._append,
                    self._take_over,
                    self._bookie,
                    self._hold,
                    self._cut,
                    self._ask,
                )
            )()
            self.story.pass_time(self.rng.choice((0, 1, 5, 50, 500, 4_000)))
        self._calm()

    def _writing(self) -> list[StoryOwner]:
        return [each for each in self.owners if each.owner is not None and not each.owner.is_over]

    def _append(self) -> None:
        for owner in self._writing():
            texts = [f"{self.count + each}" for each in range(self.rng.randint(1, 4))]
            self.count += len(texts)
            owner.append(*texts)

    def _take_over(self) -> None:
        owner = self.rng.choice(self.owners)
        if owner not in self._writing():
            owner.take_over(wait=False, settings={"watches": self.rng.random() < 0.5})

    def _bookie(self) -> None:
        if self.down is None:
            self.down = self.rng.choice(list(self.story.cluster.bookies))
            (self.story.kill if self.rng.random() < 0.5 else self.story.power)(self.down)
        else:
            self.story.start(self.down)
            self.down = None

    def _hold(self) -> None:
        if self.holds and self.rng.random() < 0.7:
            self.story.release(self.holds.pop())
        else:
            self.holds.append(self.story.hold(self.rng.choice(self.owners), self.rng.randint(1, 5), is_add))

    def _cut(self) -> None:
        at = self.rng.randrange(3)
        if at in self.cut:
            self.story.reconnect(self.owners[at])
            self.cut.discard(at)
        else:
            self.story.cut(self.owners[at])
            self.cut.add(at)

    def _ask(self) -> None:
        for owner in self._writing():
            self.count += 1
            asked = (LogRoll, LogTrim)[self.rng.randrange(2)](f"ask {self.count}")
            owner.ask(asked, CursorOpen(f"open {self.count}", "c"))
            for outcome in list(owner.outcomes.values()):
                if isinstance(outcome, LogAppended):
                    ledger, entry = outcome.position
                    owner.ask(CursorAcknowledge("c", ledger, entry, entry))
            owner.ask(CursorFlush(f"flush {self.count}", "c"))

    def _calm(self) -> None:
        story = self.story
        story.release(*self.holds)
        for at in self.cut:
            story.reconnect(self.owners[at])
        if self.down is not None:
            story.start(self.down)
        story.pass_time(5_000)
        last = story.owner()
        last.take_over()
        last.write("last")
        for owner in self._writing():
            # One that does not watch the list notices with its next append.
            owner.append(f"late {owner.name}")
        story.until(lambda: all(each.owner is None or each.owner.is_over or each is last for each in self.owners))
        story.finish()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(8), 149, 444, *(pytest.param(seed, marks=pytest.mark.longest) for seed in range(8, 60))]
)
def test_owners_at_random(seed: int) -> None:
    owners = Owners(seed)
    owners.run()
    assert OwnerState.OPEN not in {each.state for each in owners.owners if each.owner is not None}
    texts = owners.story.texts()
    assert texts[-1] == "last"
    assert len(set(texts)) == len(texts)
