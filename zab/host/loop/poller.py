"""Waits for all sockets at once, by the facility of the system.

    register(descriptor, interest), modify(…), unregister(descriptor)
    poll(seconds, …)    pairs of a descriptor and its readiness: READ, WRITE, or BROKEN
    fileno()            a descriptor that is readable as soon as one of the sockets is ready

On Linux this is `select.epoll` itself: a wait is one call of C, and the interests are epoll's. Elsewhere it uses what
`selectors` chooses.
"""

from __future__ import annotations

import select
import selectors
from typing import Final, Protocol

READ: Final = 1
WRITE: Final = 4
"""Equal to EPOLLIN and EPOLLOUT."""
BROKEN: Final = 8 | 16
"""Equal to EPOLLERR and EPOLLHUP: the socket is ready for everything of interest."""

_EVENTS: Final = {
    READ: selectors.EVENT_READ,
    WRITE: selectors.EVENT_WRITE,
    READ | WRITE: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
_INTERESTS: Final = {events: interest for interest, events in _EVENTS.items()}


class Poller(Protocol):
    """The interface of `select.epoll` that the loop uses."""

    def register(self, descriptor: int, interest: int, /) -> object: ...

    def modify(self, descriptor: int, interest: int, /) -> object: ...

    def unregister(self, descriptor: int, /) -> object: ...

    def poll(self, seconds: float, count_max: int, /) -> list[tuple[int, int]]:
        """Wait at most `seconds`; 0 does not wait. Returns at most `count_max` pairs; without a number, epoll would
        return at most 1023."""
        ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class SelectorPoller:
    """A poller over the selector of this system; where trio runs, it has a descriptor. It does not report BROKEN:
    broken sockets are ready for their interest."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.unregister = self._selector.unregister
        self.close = self._selector.close

    def register(self, descriptor: int, interest: int, /) -> None:
        self._selector.register(descriptor, _EVENTS[interest])

    def modify(self, descriptor: int, interest: int, /) -> None:
        self._selector.modify(descriptor, _EVENTS[interest])

    def poll(self, seconds: float, count_max: int, /) -> list[tuple[int, int]]:
        return [(key.fd, _INTERESTS[events]) for key, events in self._selector.select(seconds)][:count_max]

    def fileno(self) -> int:
        return self._selector.fileno()


def make_poller() -> Poller:
    """The poller for this system."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoller()
