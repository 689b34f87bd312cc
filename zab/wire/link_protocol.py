"""What a link has to know about the messages of its service.

The server's links (`zab.host.loop.links`) and the simulator's use the same protocol object.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

Message = TypeVar("Message")
Input = TypeVar("Input")
"""The type of inputs to the service's turn."""
TakeAtOnce: TypeAlias = Callable[[int, bytes], bool]
"""Takes the payload of a frame that came on this link straight into the state of the service. False: it is to be
decoded, and becomes an input."""


def take_nothing(link: int, payload: bytes) -> bool:
    """The `TakeAtOnce` of a service that only takes inputs."""
    return False


@attrs.frozen(kw_only=True)
class LinkProtocol(Generic[Message, Input]):
    """The messages of a service, and the inputs that tell it about its links. A link is a number, a server an id."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]
    """Raises `MessageError`."""
    frame_bytes_max: int
    joining_bytes_max: int
    """The longest frame accepted from a server that has dialled this one, until it is admitted."""
    admitting: frozenset[type[Any]]
    """Sending a message of one of these types to a server admits it."""
    urgent: frozenset[type[Any]] = frozenset()
    """Messages of these types overtake others on their link."""
    secret: frozenset[type[Any]] = frozenset()
    """Messages of these types are encrypted, and not sent on links whose other end is not authenticated."""
    cut: Mapping[type[Any], Callable[[Any], Sequence[Message]]] = MappingProxyType({})
    """Splits large messages of these types."""
    uncut_bytes_max: int
    """Messages longer than this are large."""
    up: Callable[..., Input]
    """Takes a link, a server, and whether that server dialled: the link is open."""
    received: Callable[..., Input]
    """Takes a link and a message: the message arrived on that link."""
    down: Callable[..., Input]
    """Takes a link: it broke; the service did not close it."""
    refused: Callable[..., Input]
    """Takes a server: dialling it failed."""
