"""The lines in which clients wait until they are read from, fair to addresses.

A line serves the addresses in turn, one client of each. So a client waits for the other clients of its own address, and
for one client of each other address, however many clients these have. The clients of one address are served first come,
first served.

    line.add(client)        a client has something to read; one that waits already keeps its place
    line.take()             the next client, which waits no longer
    line.remove(client)     a client has left

Each of them takes the same time however many clients are in the line.

Not here: which line a client waits in (`sockets`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Addressed(Protocol):
    """A client, as far as a line knows it."""

    @property
    def host(self) -> str:
        """Its address, without the port."""
        ...


T = TypeVar("T", bound=Addressed)


class Line(Generic[T]):
    """Clients in the order in which they are read from."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """Address → those of its clients who wait; the next one first. No address has none."""

    def add(self, client: T) -> None:
        """Let a client wait."""
        mates = self.waiting.get(client.host)
        if mates is None:
            mates = self.waiting[client.host] = OrderedDict()
        mates[client] = None

    def take(self) -> T:
        """Remove the next client, and return it. KeyError: there is none."""
        host, mates = self.waiting.popitem(last=False)
        client, _ = mates.popitem(last=False)
        if mates:
            self.waiting[host] = mates
        return client

    def remove(self, client: T) -> bool:
        """Remove a client. False: it did not wait here."""
        mates = self.waiting.get(client.host)
        if mates is None or client not in mates:
            return False
        del mates[client]
        if not mates:
            del self.waiting[client.host]
        return True

    def take_first(self, count_max: int) -> Iterator[T]:
        """Take at most so many clients, one after the other."""
        while self.waiting and count_max > 0:
            count_max -= 1
            yield self.take()
