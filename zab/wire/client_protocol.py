"""What a client socket has to know about its service.

The server's client sockets (`zab.host.loop.sockets`) and the simulator's use the same protocol object.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs


class Connection(Protocol):
    """One client, as its service sees it. Hashed by identity."""

    unsent_bytes: int
    """Bytes taken out of `out` that the socket has not accepted yet; the socket sets this."""

    @property
    def out(self) -> list[bytes]:
        """What to send, in order."""
        ...

    @property
    def out_bytes(self) -> int:
        """The size of `out`."""
        ...

    def take_output(self) -> list[bytes]:
        """Empty `out` and return what was in it; the caller owns it."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the socket should read nothing from this client now."""
        ...

    @property
    def closing(self) -> int:
        """0: stay open; `ClientProtocol.at_once`: close now; any other value: close once the output is sent."""
        ...


C = TypeVar("C", bound=Connection)
Input = TypeVar("Input")
"""The type of inputs to the service's turn."""


@attrs.frozen
class ClientProtocol(Generic[C, Input]):
    """How a service creates connections, and what it is told about them."""

    connect: Callable[[str, int, str], C]
    """Takes the client's numeric address, its port, and the subject of its certificate, which is empty if it presented
    none."""
    connected: Callable[[C], Input]
    received: Callable[[C, bytes], Input]
    closed: Callable[[C], Input]
    """The client closed the connection, or it broke. No input about a connection follows this one, nor the service's
    own close."""
    at_once: int
    """The value of `closing` for which pending output is dropped."""
