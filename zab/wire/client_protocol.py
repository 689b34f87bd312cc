"""What a client socket has to know about its service.

The server's client sockets (`zab.host.loop.sockets`) and the simulator's use the same protocol object.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import attrs


class Connection(Protocol):
    """One client, as its service sees it. Hashed by identity."""

    unsent_bytes: int
    """Bytes taken out of `out` that the socket has not accepted yet; the socket sets this."""

    @property
    def out(self) -> list[Any]:
        """What to send, in order: bytes, and `FileSlice`s where the service sends files."""
        ...

    @property
    def out_bytes(self) -> int:
        """The size of `out`."""
        ...

    def take_output(self) -> list[Any]:
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


@attrs.frozen
class ClientProtocol(Generic[C]):
    """How a service creates connections, and lets go of them."""

    connect: Callable[[str, int, str], C]
    """Takes the client's numeric address, its port, and the subject of its certificate, which is empty if it presented
    none."""
    at_once: int
    """The value of `closing` for which pending output is dropped."""
    secured: Callable[[str, int, str], C] | None = None
    """As `connect`, for clients that speak TLS; None: `connect` is for all."""


# What a service is told about its clients: inputs to its turns.


@attrs.define
class ClientConnected(Generic[C]):
    """A client's socket is open."""

    connection: C


@attrs.define
class ClientBytes(Generic[C]):
    """A client sent these bytes."""

    connection: C
    data: bytes


@attrs.define
class ClientClosed(Generic[C]):
    """A client closed its connection, or it broke. No input about a connection follows this one, nor the service's own
    close."""

    connection: C
