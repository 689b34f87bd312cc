"""A limit on what all connections of a server use together, and which of them go above it.

The connections with most go: those of the address with most, so that a client with many connections loses its own; of
these, the largest.

Not here: what is counted, and how a connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heapreplace
from typing import Final, Generic, Protocol, TypeVar

SPARE: Final = 16
"""Above a limit, this fraction of it is freed, so that not every turn has to look at all connections."""


class Connection(Protocol):
    """What has to be known of a connection. Hashed by identity."""

    @property
    def host(self) -> str: ...

    @property
    def closing(self) -> int: ...


C = TypeVar("C", bound=Connection)


class Together(Generic[C]):
    """A resource that all connections use, in bytes, and which connections use most.

    A connection is noted when its use may have grown, but not when it has shrunk: so the sum is an upper bound, and
    once it is above the limit, `beyond` counts all connections again.
    """

    def __init__(self, bytes_max: int, size_of: Callable[[C], int]) -> None:
        self.bytes_max = bytes_max
        self._size_of = size_of
        self.noted: dict[C, int] = {}
        self.bytes = 0
        """The sum of what was noted."""

    def note(self, connection: C, size: int) -> None:
        self.bytes += size - self.noted.get(connection, 0)
        self.noted[connection] = size

    def forget(self, connection: C) -> None:
        self.bytes -= self.noted.pop(connection, 0)

    def beyond(self) -> Iterator[C]:
        """The connections with most that have to go for the rest to be well within the limit."""
        found = ((connection, self._size_of(connection)) for connection in self.noted)
        self.noted = {connection: size for connection, size in found if size and not connection.closing}
        self.bytes = total = sum(self.noted.values())
        if total <= self.bytes_max:
            return
        of_hosts: dict[str, list[tuple[int, C]]] = {}
        for connection, size in sorted(self.noted.items(), key=lambda item: item[1]):
            of_hosts.setdefault(connection.host, []).append((size, connection))
        most = [(-sum(size for size, _ in of_host), host) for host, of_host in of_hosts.items()]
        heapify(most)
        while total > self.bytes_max - self.bytes_max // SPARE:
            less, host = most[0]
            size, connection = of_hosts[host].pop()
            yield connection
            total -= size
            heapreplace(most, (less + size, host))
