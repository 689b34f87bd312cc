"""The keys that are made from the password of a ledger.

The **master key** travels with every add, fence and explicit LAC; a bookie keeps that of the first request and refuses
others. It protects from mistakes: the password is in the metadata, in clear. The **HMAC key** never travels.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

KEY_BYTES: Final = 20

NO_KEY: Final = bytes(KEY_BYTES)
"""What a client sends that knows no password. No password has it as its key, not even the empty one."""


def master_key(password: bytes) -> bytes:
    """The 20 bytes that prove to a bookie that a client knows the password."""
    return sha1(b"ledger" + password, usedforsecurity=False).digest()


def hmac_key(password: bytes) -> bytes:
    """The 20 bytes that are the key of the digests of type HMAC."""
    return sha1(b"mac" + password, usedforsecurity=False).digest()
