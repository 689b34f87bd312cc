"""The TLS policy of a port."""

from __future__ import annotations

import ssl

import attrs


@attrs.define
class TlsPolicy:
    """The TLS policy of a listener."""

    context: ssl.SSLContext
    """The context for new handshakes; it may be replaced at any time. It keeps clients from choosing groups that make a
    step long (`zab.tls.contexts`)."""
    takes_plain: bool = False
