"""Messages that nobody else may read: how they go over a link, and on which links they do not.

On a link with a secret they are encrypted, each by itself. On a link that is inside of TLS and has no secret they go as
they are. On any other link, whose other end has proven nothing, they are neither sent nor accepted.
"""

from __future__ import annotations

from typing import Any, TypeVar

from zab.wire.handshake import Agreed
from zab.wire.link_protocol import LinkProtocol
from zab.wire.records import MessageError

Message = TypeVar("Message")

ENCRYPTED = b"\xff"
"""In front of an encrypted message. No message begins with it."""


def hides_all(agreed: Agreed) -> bool:
    """Whether the connection itself hides what nobody else may read: it is inside of TLS, and there is no secret."""
    return agreed.is_certified and agreed.encrypting is None


def encrypted(agreed: Agreed | None, payload: bytes) -> bytes | None:
    """What is sent for a payload that nobody else may read; None: it stays here."""
    if agreed is None:
        return None
    if agreed.encrypting is not None:
        return ENCRYPTED + agreed.encrypting.encrypt(payload)
    return payload if hides_all(agreed) else None


def decrypted(protocol: LinkProtocol[Message, Any], agreed: Agreed, payload: bytes) -> Message:
    """What an encrypted frame says. Raises MessageError."""
    if agreed.decrypting is None:
        raise MessageError("a secret on a link without proof")
    message = protocol.decode(agreed.decrypting.decrypt(payload[len(ENCRYPTED) :]))
    if type(message) not in protocol.secret or hides_all(agreed):
        raise MessageError(f"{type(message).__name__} is encrypted")
    return message
