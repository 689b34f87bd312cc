"""SASL GSSAPI (RFC 4752): the messages that follow once the security context is established, without the context. Pure.

    client                                     server
    token of Kerberos   ─────────────────────>
                        <─────────────────────  token of Kerberos, if the client asks for one
    (nothing)           ─────────────────────>
                        <─────────────────────  `offer`, wrapped
    the choice, wrapped ─────────────────────>  `chosen`: whom the client acts for

No integrity or confidentiality layer is offered: the login authenticates the client, and TLS protects what follows.

Limits: TOKEN_BYTES_MAX. Not here: Kerberos itself (`zab.server.kerberos`), names (`zab.member.clients.kerberos`).
"""

from __future__ import annotations

from typing import Final

TOKEN_BYTES_MAX: Final = 1 << 16
"""The largest ticket that Windows makes has 48,000 bytes."""
NAME_BYTES_MAX: Final = 256

_NO_LAYER: Final = 1
_HEAD_BYTES: Final = 4
"""A bit for each layer, and the maximum size of a message in one."""


class GssapiError(Exception):
    """What the other side sent is wrong, or proves nothing. The message never shows a secret."""


def offer() -> bytes:
    """The server's offer: no layer."""
    return bytes((_NO_LAYER, 0, 0, 0))


def chosen(message: bytes) -> str:
    """The name that the client wants to act as; empty: its own. Raises `GssapiError`."""
    if len(message) > _HEAD_BYTES + NAME_BYTES_MAX or message[:_HEAD_BYTES] != offer():
        raise GssapiError("it chooses a layer, and none was offered")
    try:
        return message[_HEAD_BYTES:].decode()
    except UnicodeDecodeError:
        raise GssapiError("the name is not UTF-8") from None
