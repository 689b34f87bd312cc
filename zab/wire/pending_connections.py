"""Pending connections: inbound ones that have not sent their first frame. A service holds a limited number of them.

When there are too many, one is closed: the oldest from the host that has the most. So somebody who opens connections
and stays silent keeps nobody else out: from any other host, a client that greets gets in; from the same host, one gets
in that greets before that many further ones connect.

Not here: how long a greeting may take, and how to close a connection.
"""

from collections import Counter
from typing import Generic, TypeVar

Pending = TypeVar("Pending")
"""A connection; hashed by identity."""


class PendingConnections(Generic[Pending]):
    """The pending connections of one port."""

    __slots__ = ("_hosts", "count_max")

    def __init__(self, count_max: int) -> None:
        assert count_max > 0
        self.count_max = count_max
        self._hosts: dict[Pending, str] = {}
        """The host of each, the oldest first."""

    def admit(self, stranger: Pending, host: str) -> Pending | None:
        """Add a connection; return the one to close instead, if there are too many."""
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
        """Remove a connection that has greeted or is closed. No-op if it has left already."""
        self._hosts.pop(stranger, None)
