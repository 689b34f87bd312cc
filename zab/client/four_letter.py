"""Four-letter words, asked as `nc` would: no session, one server, one answer.

    servers_of("h1:2181,h2")        the servers of a connection string, in their order
    await ask("h1:2181", "srvr")    the answer as text; "" if the server does not know the word

Raises OSError, or a subclass of it for TLS, if the server cannot be reached or closes the connection early.
"""

import ssl
import struct
from typing import Final

import trio

from zab.client.core.hosts import Host, parse_hosts
from zab.client.core.settings import Tls
from zab.client.on_trio import tcp
from zab.client.tls import fault
from zab.client.tls_context import context_of

__all__ = ["ANSWER_BYTES_MAX", "ask", "servers_of"]

ANSWER_BYTES_MAX: Final = 1 << 30
"""The largest answer: `wchp` of some millions of watches. A longer one raises OSError."""

_PIECE_BYTES: Final = 1 << 16
_MASK: Final = struct.Struct(">q")


def servers_of(hosts: str) -> tuple[Host, ...]:
    """Raises ValueError, as `connect` does."""
    servers, _chroot = parse_hosts(hosts)
    return servers


async def ask(server: Host, word: str, *, mask: int | None = None, tls: Tls | None = None) -> str:
    """The answer to a word. mask: only for `stmk`."""
    said = word.encode("ascii") + (b"" if mask is None else _MASK.pack(mask))
    pieces = bytearray()
    try:
        stream = await tcp(None if tls is None else context_of(tls))(server)
        async with stream:
            await stream.send_all(said)
            while piece := await stream.receive_some(_PIECE_BYTES):
                pieces += piece
                if len(pieces) > ANSWER_BYTES_MAX:
                    raise OSError(f"it answers more than {ANSWER_BYTES_MAX} bytes")
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        raise OSError(fault(error) or "it broke off") from None
    return pieces.decode("utf-8", "replace")
