"""Strangers: inbound connections that have not greeted. A service holds at most so many.

One more than that takes the place of the oldest. So who opens connections and says nothing keeps nobody out: whoever
greets at once is let in, unless that many others come within the time that its greeting takes.

Not here: how long a greeting may take, and how a connection is closed.
"""

from typing import Generic, TypeVar

Stranger = TypeVar("Stranger")
"""A connection; hashed by identity."""


class Strangers(Generic[Stranger]):
    """Those of one port, the oldest first."""

    __slots__ = ("_present", "count_max")

    def __init__(self, count_max: int) -> None:
        assert count_max > 0
        self.count_max = count_max
        self._present: dict[Stranger, None] = {}

    def admit(self, stranger: Stranger) -> Stranger | None:
        """One more has connected. Returned is the one that has to be closed for it, if any."""
        assert stranger not in self._present
        crowded_out = next(iter(self._present)) if len(self._present) >= self.count_max else None
        if crowded_out is not None:
            del self._present[crowded_out]
        self._present[stranger] = None
        return crowded_out

    def leave(self, stranger: Stranger) -> None:
        """It has greeted, or is closed. Of one that is not here any more this is no news."""
        self._present.pop(stranger, None)
