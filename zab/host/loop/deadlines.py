"""Deadlines: what happens to each of many when its time has come, with one timer of the loop for all."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zab.host.loop.loop import Loop

Item = TypeVar("Item", bound=Hashable)


class Deadlines(Generic[Item]):
    """Each item has one deadline at most; `overdue` is called with every item whose deadline has passed, and removes
    its deadline or sets a later one."""

    def __init__(self, loop: Loop, overdue: Callable[[Item], None]) -> None:
        self._overdue = overdue
        self._deadlines: dict[Item, int] = {}
        self._timer = loop.timer(self._check)

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, item: Item, deadline: int) -> None:
        """The deadline of an item (ms, monotonic), in place of an earlier one."""
        self._deadlines[item] = deadline
        self._timer.set(deadline)

    def remove(self, item: Item) -> None:
        """The item has none. Not an error if it had none before."""
        self._deadlines.pop(item, None)

    def _check(self, now: int) -> None:
        for item in [item for item, deadline in self._deadlines.items() if now >= deadline]:
            self._overdue(item)
        if self._deadlines:
            self._timer.set(min(self._deadlines.values()))
