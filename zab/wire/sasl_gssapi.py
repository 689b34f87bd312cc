"""SASL GSSAPI (RFC 4752): what the two ends say once there is a security context, without the context. Pure.

    client                                     server
    token of Kerberos   ─────────────────────>
                        <─────────────────────  token of Kerberos, where the client asks for one
    (nothing)           ─────────────────────>
                        <─────────────────────  `offer`, wrapped
    the choice, wrapped ─────────────────────>  `chosen`: whom the client acts for

There is no layer of integrity or secrecy: the login proves who somebody is, and TLS protects what follows.

Limits: TOKEN_BYTES_MAX. Not here: Kerberos itself (`zab.server.kerberos`), names (`zab.member.clients.kerberos`).
"""

from __future__ import annotations

from typing import Final

TOKEN_BYTES_MAX: Final = 1 << 16
"""The largest ticket that Windows makes has 48,000 bytes."""
NAME_BYTES_MAX: Final = 256

_NO_LAYER: Final = 1
_HEAD_BYTES: Final = 4
"""A bit for each layer, and how large a message of one may be."""


class GssapiError(Exception):
    """The other side said something that is wrong, or proves nothing. The text never shows a secret."""


def offer() -> bytes:
    """What the server offers: no layer."""
    return bytes((_NO_LAYER, 0, 0, 0))


def chosen(message: bytes) -> str:
    """Whom the client wants to be; empty: who it is. Raises `GssapiError`."""
    if len(message) > _HEAD_BYTES + NAME_BYTES_MAX or message[:_HEAD_BYTES] != offer():
        raise GssapiError("it chooses another layer than none")
    try:
        return message[_HEAD_BYTES:].decode()
    except UnicodeDecodeError:
        raise GssapiError("the name is not UTF-8") from None
