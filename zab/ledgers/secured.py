"""TLS on a connection to a bookie, from bytes to bytes.

    tls = SecuredBytes(context, host)
    tls.request                 what to send first, in clear
    tls.take(data)              (bytes within TLS, bytes to send). Raises TlsError, ProtocolError
    tls.is_ready                from now on, `seal` has what to send

Not here: what both ends allow before TLS (`zab.ledger.wire.tls_start`), TLS itself (`zab.host.tls.engine`).
"""

from __future__ import annotations

import ssl
from typing import Final

from zab.host.tls.engine import TlsSide
from zab.ledger.wire.tls_start import ClientStart

PLAIN_BYTES_MAX: Final = 1 << 20
"""What the engine returns at a time."""


class SecuredBytes:
    """See the docstring of the module. `host`: the one that was dialled."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._context = context
        self._host = host if context.check_hostname else None
        self._start = ClientStart()
        self._side: TlsSide | None = None

    @property
    def request(self) -> bytes:
        """The first thing to send."""
        return self._start.request

    @property
    def is_ready(self) -> bool:
        return self._side is not None and self._side.is_ready

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """What these bytes of the bookie contain, and what to send now. Raises TlsError, ProtocolError."""
        side = self._side
        if side is None:
            if not self._start.take(data):
                return b"", b""
            self._side = TlsSide(self._context, has_dialled=True, host=self._host)
            return self._side.feed(b"", 0)
        plain, out = side.feed(data, PLAIN_BYTES_MAX)
        if not side.has_more:
            return plain, out
        pieces, outs = [plain], [out]
        while side.has_more and not side.is_closed:
            plain, out = side.feed(b"", PLAIN_BYTES_MAX)
            pieces.append(plain)
            outs.append(out)
        return b"".join(pieces), b"".join(outs)

    def seal(self, data: bytes) -> bytes:
        """The bytes to send for these. Raises TlsError."""
        assert self._side is not None
        return self._side.seal(data)
