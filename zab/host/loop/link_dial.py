"""Opening a link to another server: a task beside the loop, whose outcome the links report.

Not here: the handshake (`greeting`), what a link does once it is open (`links`).
"""

from __future__ import annotations

from typing import Any

import trio

from zab.host.journal.journal import Journal
from zab.host.loop.conversation import FAILURES, Greeted, reason_of
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting, Stream
from zab.host.loop.links import Links
from zab.host.tls.tls_stream import TlsStream

journal = Journal("links")


async def dial_link(
    links: Links[Any, Any], greeting: Greeting, sid: int, address: Address, timeout_seconds: float
) -> None:
    """Open a link to server `sid`, or report to `links` that the dial failed. Wake the loop afterwards."""
    greeted: Greeted[Stream] | None = None
    try:
        with trio.fail_after(timeout_seconds):
            if address.others:
                # Only the answer shows which of them is the server; with one address the links do the handshake.
                greeted = await greeting.greet(address, greeting.purposes.link, sid)
            stream = await greeting.dial(address) if greeted is None else greeted.stream
    except (*FAILURES, trio.TooSlowError) as error:
        journal.info("a server cannot be reached", sid=sid, reason=reason_of(error))
        links.dial_failed(sid)
    else:
        side, plain = (stream.side, stream.stream) if isinstance(stream, TlsStream) else (None, stream)
        links.adopt_descriptor(plain.socket.detach(), sid, side, greeted)
