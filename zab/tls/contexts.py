"""The one place where an `ssl.SSLContext` is made: by servers and by clients.

Every handshake of a server is a whole one: without tickets, nobody comes back on what was believed before the stores
changed.

Limits: a server agrees on keys in `GROUP` alone, which every client has. With those that OpenSSL takes by itself, a
client that computes nothing could cost the loop 170 ms a step: it sends a ClientHello for ffdhe8192, again and again. A
client that guesses another group first is asked once more (HelloRetryRequest).

Not here: stores (`stores`), and whether the other side has to show a certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final

GROUP: Final = "prime256v1"

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def context_of_client() -> ssl.SSLContext:
    """For connections to servers; it has no stores yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def limit_versions(context: ssl.SSLContext, versions: Iterable[str]) -> None:
    """Speak only these versions, and those between them."""
    known = [_VERSIONS[name] for name in versions]
    context.minimum_version, context.maximum_version = min(known), max(known)


def context_of_server(protocol: int, versions: Iterable[str], ciphers: Iterable[str]) -> ssl.SSLContext:
    """For one end of a server's connections. `ciphers`: as OpenSSL names suites of TLS 1.2; none: its own choice. It
    has no stores yet."""
    context = ssl.SSLContext(protocol)
    limit_versions(context, versions)
    chosen = list(ciphers)
    if chosen:
        context.set_ciphers(":".join(chosen))
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    context.set_ecdh_curve(GROUP)
    return context
