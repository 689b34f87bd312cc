"""Which sockets are ready: one wait for all of them, as the system has it.

    register(descriptor, interest), modify(…), unregister(descriptor)
    poll(seconds, …)    pairs of a descriptor and what it is ready for: READ, WRITE, or BROKEN
    fileno()            readable as soon as one of them is ready

On Linux this is `select.epoll` itself: a wait is one call of C, and the interests are its own. Elsewhere it is made of
what `selectors` chooses.
"""

from __future__ import annotations

import select
import selectors
from typing import Final, Protocol

READ: Final = 1
WRITE: Final = 4
"""As EPOLLIN and EPOLLOUT."""
BROKEN: Final = 8 | 16
"""As EPOLLERR and EPOLLHUP: the socket is ready for everything that it is waited for."""

_EVENTS: Final = {
    READ: selectors.EVENT_READ,
    WRITE: selectors.EVENT_WRITE,
    READ | WRITE: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
_INTERESTS: Final = {events: interest for interest, events in _EVENTS.items()}


class Poller(Protocol):
    """See the module."""

    def register(self, descriptor: int, interest: int, /) -> object: ...

    def modify(self, descriptor: int, interest: int, /) -> object: ...

    def unregister(self, descriptor: int, /) -> object: ...

    def poll(self, seconds: float, count_max: int, /) -> list[tuple[int, int]]:
        """Wait so long at most; 0 does not wait. So many pairs at most, of which epoll would give no more than 1023
        without a number."""
        ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class SelectorPoller:
    """Made of what `selectors` chooses for this system; where trio runs, that has a descriptor. It says nothing of
    broken sockets: they are ready for what they are waited for."""

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
    """The one of this system."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoller()
