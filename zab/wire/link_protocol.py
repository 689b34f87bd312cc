"""What the servers of one service say to each other on links, as far as a link has to know.

The links of a server (`zab.host.loop.links`) and those of a simulated one are handed the same protocol.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

Message = TypeVar("Message")
Input = TypeVar("Input")
"""What a service's turn takes."""


@attrs.frozen
class LinkProtocol(Generic[Message, Input]):
    """The messages, and what the service is told of its links. A link is a number, a server an id."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]
    """Raises `MessageError`."""
    frame_bytes_max: int
    joining_bytes_max: int
    """The longest frame of a server that has dialled us, until it is admitted."""
    admitting: frozenset[type[Any]]
    """The kinds of messages of which one, sent to it, admits it."""
    urgent: frozenset[type[Any]]
    """The kinds of messages that overtake others on their link."""
    secret: frozenset[type[Any]]
    """The kinds of messages that are encrypted, and left out on links whose other end has not proven who it is."""
    cut: Mapping[type[Any], Callable[[Any], Sequence[Message]]]
    """How large messages of these kinds become several."""
    uncut_bytes_max: int
    """They are large when they are longer than this."""
    up: Callable[..., Input]
    """Of a link, a server, and whether that server dialled: the link is open."""
    received: Callable[..., Input]
    """Of a link and a message: a message came on a link."""
    down: Callable[..., Input]
    """Of a link: a link that was up is no more, and the service did not close it."""
    refused: Callable[..., Input]
    """Of a server: a server was dialled in vain."""
