"""Deadlines of many items, with one timer of the loop for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zab.host.loop.loop import Loop

Item = TypeVar("Item", bound=Hashable)


class Deadlines(Generic[Item]):
    """Each item has at most one deadline; `overdue` is called with every item whose deadline has passed, and has to
    remove it or set a later one."""

    def __init__(self, loop: Loop, overdue: Callable[[Item], None]) -> None:
        self._overdue = overdue
        self._deadlines: dict[Item, int] = {}
        self._timer = loop.timer(self._check)

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, item: Item, deadline: int) -> None:
        """Set or replace the deadline of an item (ms, monotonic)."""
        self._deadlines[item] = deadline
        self._timer.set(deadline)

    def remove(self, item: Item) -> None:
        """Remove the deadline of an item, if it has one."""
        self._deadlines.pop(item, None)

    def _check(self, now: int) -> None:
        for item in [item for item, deadline in self._deadlines.items() if now >= deadline]:
            self._overdue(item)
        if self._deadlines:
            self._timer.set(min(self._deadlines.values()))
