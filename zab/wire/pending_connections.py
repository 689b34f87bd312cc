"""Pending connections: inbound ones that have not greeted. A service holds at most so many.

One more than that takes the place of another one: of the host with the most of them the oldest. So who opens
connections and says nothing keeps nobody out: from another host, whoever greets at all is let in; from the same one,
whoever greets before that many others come.

Not here: how long a greeting may take, and how a connection is closed.
"""

from collections import Counter
from typing import Generic, TypeVar

Pending = TypeVar("Pending")
"""A connection; hashed by identity."""


class PendingConnections(Generic[Pending]):
    """Those of one port."""

    __slots__ = ("_hosts", "count_max")

    def __init__(self, count_max: int) -> None:
        assert count_max > 0
        self.count_max = count_max
        self._hosts: dict[Pending, str] = {}
        """Where each comes from, the oldest first."""

    def admit(self, stranger: Pending, host: str) -> Pending | None:
        """One more has connected. Returned is the one that has to be closed for it, if any."""
        assert stranger not in self._hosts
        crowded_out = self._one_too_many(host) if len(self._hosts) >= self.count_max else None
        if crowded_out is not None:
            del self._hosts[crowded_out]
        self._hosts[stranger] = host
        return crowded_out

    def _one_too_many(self, host: str) -> Pending:
        counts = Counter([*self._hosts.values(), host])
        return max(self._hosts, key=lambda stranger: counts[self._hosts[stranger]])

    def leave(self, stranger: Pending) -> None:
        """It has greeted, or is closed. Of one that is not here any more this is no news."""
        self._hosts.pop(stranger, None)
