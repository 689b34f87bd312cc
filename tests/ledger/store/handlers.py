"""Handlers run at once, against a simulated tree, with answers that are lost."""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from zab.coordination.operations import Operation, Result, ZooKeeperError
from zab.coordination.steps import Pause, Steps
from zab.simulator.coordination.znode_tree import ZnodeTree

T = TypeVar("T")
LOST = Result(ZooKeeperError.CONNECTIONLOSS)


class Coordination:
    """A tree, and one session. `lost`: for each operation that comes, whether its answer is lost, and if so whether it
    was done before; what is left out is answered. `before`: called with each operation."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.session = self.tree.begin_session()
        self.lost: deque[str] = deque()
        self.before: Callable[[Operation], None] = lambda _operation: None
        self.asked: list[Operation] = []

    def apply(self, operation: Operation) -> Result:
        self.before(operation)
        self.asked.append(operation)
        fate = self.lost.popleft() if self.lost else "answered"
        if fate == "not done":
            return LOST
        result = self.tree.apply(self.session, operation)
        return LOST if fate == "done" else result

    def run(self, steps: Steps[T]) -> T:
        """What the handler returns."""
        asked = next_of(steps)
        for _ in range(10_000):
            if isinstance(asked, Done):
                return asked.value  # type: ignore[no-any-return]
            results = () if isinstance(asked, Pause) else tuple(map(self.apply, asked))
            asked = next_of(steps, results)
        raise AssertionError("the handler does not end")


class Done:
    def __init__(self, value: object) -> None:
        self.value = value


def next_of(steps: Steps[T], results: tuple[Result, ...] | None = None) -> tuple[Operation, ...] | Pause | Done:
    try:
        return next(steps) if results is None else steps.send(results)
    except StopIteration as end:
        return Done(end.value)
