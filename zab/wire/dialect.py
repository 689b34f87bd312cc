"""A dialect: what the servers of one service say to each other on links, as far as a link has to know.

The links of a server (`zab.host.links`) and those of a simulated one are handed the same dialect.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

Message = TypeVar("Message")
Input = TypeVar("Input")
"""What a service's turn takes."""


@attrs.frozen
class Dialect(Generic[Message, Input]):
    """The messages, and what the service is told of its links. A link is a number, a server an id."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]
    """Raises `MessageError`."""
    frame_bytes_max: int
    urgent: frozenset[type[Any]]
    """The kinds of messages that overtake others on their link."""
    cut: Mapping[type[Any], Callable[[Any], Sequence[Message]]]
    """How large messages of these kinds become several."""
    up: Callable[[int, int, bool], Input]
    """A link to a server is open; that server dialled, or this one did."""
    received: Callable[[int, Message], Input]
    """A message came on a link."""
    down: Callable[[int], Input]
    """A link that was up is no more, and the service did not close it."""
    refused: Callable[[int], Input]
    """A server was dialled in vain."""
