"""A message on a link that is held until something is durable: the acknowledgement of a write.

    held()              sends it, by `Links.send_now`
    held.prepared()     its frame, as it would leave now, to be sent without the interpreter's lock
    held.left(link)     the gate of its link has the rest of the frame

The thread that makes the bytes durable sends it at once: in Python by calling it, natively by `write_then_send` of
`zab.native.durable`, which takes a prepared frame through the `gate` if nothing else was sent on the link meanwhile.

Not here: writing (`zab.host.storage.disk`).
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from zab.host.loop.link import Link, Prepared

Message = TypeVar("Message")
Message_contra = TypeVar("Message_contra", contravariant=True)


class Sender(Protocol[Message_contra]):
    """What is used of `zab.host.loop.links.Links`, from any thread."""

    def send_now(self, number: int, message: Message_contra) -> None: ...

    def prepared(self, number: int, message: Message_contra) -> Prepared | None: ...

    def left(self, link: Link) -> None: ...


class HeldMessage(Generic[Message]):
    """See above."""

    __slots__ = ("_links", "_message", "_number", "left")

    def __init__(self, links: Sender[Message], number: int, message: Message) -> None:
        self._links = links
        self._number = number
        self._message = message
        self.left = links.left

    def __call__(self) -> None:
        self._links.send_now(self._number, self._message)

    def prepared(self) -> Prepared | None:
        return self._links.prepared(self._number, self._message)
