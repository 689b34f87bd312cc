"""How a service has clients, as far as a socket has to know.

The client sockets of a server (`zab.host.loop.sockets`) and those of a simulated one are handed the same protocol.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs


class Connection(Protocol):
    """One client, as its service sees it. Hashed by identity."""

    unsent_bytes: int
    """What was taken out of `out` and the socket did not take yet; set here."""

    @property
    def out(self) -> list[bytes]:
        """What is to be sent, in order."""
        ...

    @property
    def out_bytes(self) -> int:
        """How much that is."""
        ...

    def take_output(self) -> list[bytes]:
        """Empty `out`; whoever took it owns it."""
        ...

    @property
    def paused(self) -> bool:
        """Nothing is to be read from it now."""
        ...

    @property
    def closing(self) -> int:
        """0: it goes on; `ClientProtocol.at_once`: close it now; any other value: close it once its output is sent."""
        ...


C = TypeVar("C", bound=Connection)
Input = TypeVar("Input")
"""What a service's turn takes."""


@attrs.frozen
class ClientProtocol(Generic[C, Input]):
    """How a service has clients: how it makes a connection, and what it is told of it."""

    connect: Callable[[str, int, str], C]
    """Of the numeric address and the port of the client, and of the subject that it proved by a certificate; empty: it
    proved none."""
    connected: Callable[[C], Input]
    received: Callable[[C, bytes], Input]
    closed: Callable[[C], Input]
    """By the client, or it broke. Nothing is told of a connection after that, nor after the service closed it."""
    at_once: int
    """The value of `closing` with which output is dropped."""
