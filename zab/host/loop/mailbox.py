"""A queue of items from tasks and threads for the next turn of a server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Mail = TypeVar("Mail")


class Mailbox(Generic[Mail]):
    """A queue, first in first out. `wake` makes the loop take a turn soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        # A deque, not a list that is swapped: a thread could still append to the list that was taken.
        self.items: deque[Mail] = deque()
        """The queued items. Only the loop's task takes from it."""

    def put(self, item: Mail) -> None:
        """Queue an item and wake the loop. Called from any thread."""
        self.items.append(item)
        self.wake()

    def leave(self, item: Mail) -> None:
        """Queue an item for the next turn without waking the loop. Called from any thread."""
        self.items.append(item)
