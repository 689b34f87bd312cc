"""What a client in TLS 1.3 seals by itself: records that its library would not send, as KeyUpdates without end."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

SUITE = "TLS_AES_256_GCM_SHA384"
_APPLICATION_DATA, _HANDSHAKE = b"\x17", b"\x16"
_KEY_UPDATE = b"\x18\0\0\x01"


def client_secret(key_log: Path) -> bytes:
    """The secrets of the newest connection in a key log of Python's `ssl`."""
    lines = [line.split() for line in key_log.read_text().splitlines()]
    return bytes.fromhex([words[2] for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0"][-1])


class Sealer:
    """The client's side of a connection of `SUITE` that has said nothing yet."""

    def __init__(self, secret: bytes) -> None:
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self._secret = secret
        self._key, self._iv = _expand(secret, b"key", 32), _expand(secret, b"iv", 12)
        self._number = 0

    def data(self, said: bytes) -> bytes:
        """A record of application data."""
        return self._record(said, _APPLICATION_DATA)

    def key_update(self, *, wants_answer: bool = False) -> bytes:
        record = self._record(_KEY_UPDATE + bytes([wants_answer]), _HANDSHAKE)
        self._begin(_expand(self._secret, b"traffic upd", hashes.SHA384.digest_size))
        return record

    def _record(self, said: bytes, kind: bytes) -> bytes:
        head = b"\x17\3\3" + (len(said) + 1 + 16).to_bytes(2, "big")
        nonce = int.from_bytes(self._iv, "big") ^ self._number
        self._number += 1
        return head + AESGCM(self._key).encrypt(nonce.to_bytes(12, "big"), said + kind, head)


def _expand(secret: bytes, name: bytes, length: int) -> bytes:
    label = b"tls13 " + name
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    return HKDFExpand(hashes.SHA384(), length, info).derive(secret)
