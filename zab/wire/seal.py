"""Seals: what shows that a frame is of the one who proved himself when the connection began, and of this place in it.

A sealed payload is the payload, and after it 16 bytes: BLAKE2b, keyed with the key of this connection and direction, of
the payload, with the number of the frame as salt. So a frame that is changed, left out, said twice, or taken from
elsewhere ends the connection.

Seals hide nothing: who can listen reads what is sealed. What has to be hidden is encrypted besides (`Secrecy`), and
links as a whole with TLS.

Not here: where the keys come from (`handshake`), and frames (`frames`).
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from zab.wire.frames import LENGTH_BYTES, frame
from zab.wire.records import MessageError

SEAL_BYTES: Final = 16
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16


class Seal:
    """The frames of one direction of one connection, in their order: of whoever sends them, or of whoever receives."""

    __slots__ = ("_count", "_key")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key
        self._count = 0

    def put(self, payload: bytes) -> bytes:
        """The next payload, sealed."""
        return payload + self._next(payload)

    def put_frame(self, framed: bytes) -> bytes:
        """The next frame, sealed; it is handed in without its seal."""
        return frame(self.put(framed[LENGTH_BYTES:]))

    def take(self, sealed: bytes) -> bytes:
        """The payload of the next sealed one. Raises `MessageError`."""
        payload, seal = sealed[:-SEAL_BYTES], sealed[-SEAL_BYTES:]
        if not compare_digest(self._next(payload), seal):
            raise MessageError("the seal of a frame is wrong")
        return payload

    def _next(self, payload: bytes) -> bytes:
        number = self._count
        self._count = number + 1
        salt = number.to_bytes(_SALT_BYTES, "big")
        return blake2b(payload, digest_size=SEAL_BYTES, key=self._key, salt=salt).digest()


class Secrecy:
    """What only the two ends may read, of one direction of one connection, in its order."""

    __slots__ = ("_cipher", "_count")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._cipher = ChaCha20Poly1305(key)
        self._count = 0

    def encrypt(self, plain: bytes) -> bytes:
        """The next secret."""
        return self._cipher.encrypt(self._nonce(), plain, None)

    def decrypt(self, encrypted: bytes) -> bytes:
        """What the next encrypted secret is. Raises `MessageError`."""
        try:
            return self._cipher.decrypt(self._nonce(), encrypted, None)
        except InvalidTag:
            raise MessageError("a secret cannot be decrypted") from None

    def _nonce(self) -> bytes:
        number = self._count
        self._count = number + 1
        return number.to_bytes(_NONCE_BYTES, "big")
