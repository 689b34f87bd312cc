"""What a port with TLS asks of those who connect."""

from __future__ import annotations

import ssl

import attrs


@attrs.define
class TlsPolicy:
    """What a listener asks of who comes in."""

    context: ssl.SSLContext
    """For handshakes that begin from now on; it may be replaced at any time. It keeps clients from choosing groups
    that make a step long (`zab.tls.contexts`)."""
    takes_plain: bool = False
