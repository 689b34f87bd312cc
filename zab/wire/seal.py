"""Seals prove that a frame comes from the peer that authenticated when the connection began, and arrives in sequence.

A sealed payload is the payload followed by 16 bytes: BLAKE2b of the payload, keyed with the key of this connection and
direction, with the number of the frame as salt. So a frame that was changed, left out, repeated, or taken from
elsewhere ends the connection.

Seals hide nothing: an eavesdropper can read what is sealed. Secrets are encrypted as well (`Secrecy`), and whole links
with TLS.

Not here: where the keys come from (`handshake`), and frames (`frames`).
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Final, Protocol

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from zab.wire.frames import LENGTH_BYTES, frame
from zab.wire.records import MessageError

SEAL_BYTES: Final = 16
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16


class Counter(Protocol):
    """Counts the frames of one direction."""

    number: int
    """The number of the next frame."""


@attrs.define
class _OwnCounter:
    number: int = 0


class Seal:
    """Seals, or checks, the frames of one direction of one connection, in order."""

    __slots__ = ("_counter", "_key")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key
        self._counter: Counter = _OwnCounter()

    def count_in(self, counter: Counter) -> None:
        """Go on counting there."""
        counter.number = self._counter.number
        self._counter = counter

    def put(self, payload: bytes) -> bytes:
        """The next payload, sealed."""
        return payload + self._next(payload)

    def put_frame(self, framed: bytes) -> bytes:
        """The next frame, sealed; pass it without a seal."""
        return frame(self.put(framed[LENGTH_BYTES:]))

    def preview(self, framed: bytes) -> bytes:
        """The next frame, sealed, as `put_frame` gives it, but not counted."""
        payload = framed[LENGTH_BYTES:]
        return frame(payload + self._of(self._counter.number, payload))

    def take(self, sealed: bytes) -> bytes:
        """The payload of the next sealed one. Raises `MessageError`."""
        payload, seal = sealed[:-SEAL_BYTES], sealed[-SEAL_BYTES:]
        if not compare_digest(self._next(payload), seal):
            raise MessageError("the seal of a frame is wrong")
        return payload

    def _next(self, payload: bytes) -> bytes:
        number = self._counter.number
        self._counter.number = number + 1
        return self._of(number, payload)

    def _of(self, number: int, payload: bytes) -> bytes:
        salt = number.to_bytes(_SALT_BYTES, "big")
        return blake2b(payload, digest_size=SEAL_BYTES, key=self._key, salt=salt).digest()


class Secrecy:
    """Encrypts, or decrypts, the secrets of one direction of one connection, in order."""

    __slots__ = ("_cipher", "_count")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._cipher = ChaCha20Poly1305(key)
        self._count = 0

    def encrypt(self, plain: bytes) -> bytes:
        """Encrypt the next secret."""
        return self._cipher.encrypt(self._nonce(), plain, None)

    def decrypt(self, encrypted: bytes) -> bytes:
        """Decrypt the next secret. Raises `MessageError`."""
        try:
            return self._cipher.decrypt(self._nonce(), encrypted, None)
        except InvalidTag:
            raise MessageError("a secret cannot be decrypted") from None

    def _nonce(self) -> bytes:
        number = self._count
        self._count = number + 1
        return number.to_bytes(_NONCE_BYTES, "big")
