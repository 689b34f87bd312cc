"""What tasks and threads have for the next turn of a server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Mail = TypeVar("Mail")


class Mailbox(Generic[Mail]):
    """A queue, first in first out. `wake` makes the loop take a turn soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        # A deque, not a list that is swapped: a thread could still append to the list that was taken away.
        self.items: deque[Mail] = deque()
        """What is there. Only the loop's task takes from it."""

    def put(self, item: Mail) -> None:
        """From any thread."""
        self.items.append(item)
        self.wake()

    def leave(self, item: Mail) -> None:
        """From any thread: for the next turn, whenever that is."""
        self.items.append(item)
