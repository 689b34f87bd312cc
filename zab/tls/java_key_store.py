"""Java key stores (JKS): the keys and certificates in the bytes of one. Pure.

    read_java_key_store(data, password) -> JavaKeyStore
    is_java_key_store(data)                 by its first bytes

Numbers are big-endian, a text has a length of two bytes, anything else that varies one of four:

    FEEDFEED | version4 | count4 | entries | SHA-1 of the password, "Mighty Aphrodite" and all bytes before
    entry        tag4 | alias, text | date8, ms | tag 1: protected key | count4 | certificates; tag 2: certificate
    certificate  type, text (version 2 only) | DER

A protected key is an EncryptedPrivateKeyInfo in DER of an algorithm that is Sun's own: 20 bytes of salt, the key
(PKCS#8) XOR a stream, and SHA-1 of the password and the key. The stream is SHA-1 of the password and the salt, then of
the password and the 20 bytes before, and so on. A password is written in UTF-16.

This is cheap to guess at: the file of a weak password is as good as open.

It is read here since no library for it is kept up: the last `pyjks` is of 2020, and needs another one of 2013 that
Python 3.12 cannot load.

Limits: nothing is built that the bytes only announce; the size of a file is its reader's (`stores`).

Not here: JCEKS and BCFKS, which are other formats; PKCS#12, which keytool has written for years, whatever the file is
called; what the certificates say.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from attrs import field, frozen

__all__ = [
    "JavaKeyStore",
    "JavaKeyStoreError",
    "JceksError",
    "ProtectedKey",
    "WrongPasswordError",
    "is_java_key_store",
    "read_java_key_store",
]

_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_WHITENING: Final = b"Mighty Aphrodite"
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES: Final = 20
_SEQUENCE, _OCTETS = 0x30, 0x04
_ALGORITHM: Final = bytes.fromhex("060a2b060104012a02110101")
"""The identifier 1.3.6.1.4.1.42.2.17.1.1."""


class JavaKeyStoreError(ValueError):
    """The bytes are no Java key store that can be read; the text says why, and shows nothing of what is in it."""


class JceksError(JavaKeyStoreError):
    """It is of another format, JCEKS."""


class WrongPasswordError(JavaKeyStoreError):
    """What was read does not agree with the password."""


@frozen
class ProtectedKey:
    """A key with its certificates in DER, its own first."""

    alias: str
    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)

    def opened(self, password: str) -> bytes:
        """PKCS#8 in DER. Raises JavaKeyStoreError."""
        sealed = _sealed(self.protected)
        salt, hidden, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
        written = _written(password)
        stream, last = bytearray(), salt
        while len(stream) < len(hidden):
            last = _digest(written, last)
            stream += last
        key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
        if len(sealed) < 2 * _DIGEST_BYTES or _digest(written, key) != check:
            raise WrongPasswordError("the key has another password")
        return key


@frozen
class JavaKeyStore:
    """What is in one, in its order."""

    keys: tuple[ProtectedKey, ...]
    trusted: tuple[bytes, ...] = field(repr=False)
    """Certificates of those whom its owner trusts, in DER."""


def is_java_key_store(data: bytes) -> bool:
    """Also of one in JCEKS, which `read_java_key_store` refuses."""
    return data[:4] in (_MAGIC, _JCEKS)


def read_java_key_store(data: bytes, password: str) -> JavaKeyStore:
    """All of it but the keys, which open with a password of their own. Raises JavaKeyStoreError."""
    if data[:4] == _JCEKS:
        raise JceksError("it is JCEKS")
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    found = _Bytes(content)
    if found.take(4) != _MAGIC:
        raise JavaKeyStoreError("it does not begin as one")
    version = found.number(4)
    if version not in (1, 2):
        raise JavaKeyStoreError(f"its version is {version}, and not 1 or 2")
    keys: list[ProtectedKey] = []
    trusted: list[bytes] = []
    for _ in range(found.number(4)):
        tag, alias = found.number(4), found.block(2).decode(errors="replace")
        found.take(8)
        if tag == _KEY:
            protected = found.block(4)
            chain = tuple(_certificate(found, version) for _ in range(found.number(4)))
            keys.append(ProtectedKey(alias, protected, chain))
        elif tag == _TRUSTED:
            trusted.append(_certificate(found, version))
        else:
            raise JavaKeyStoreError(f"an entry of kind {tag} is neither a key nor a certificate")
    found.end()
    if _digest(_written(password), _WHITENING, content) != digest:
        raise WrongPasswordError("its digest is of another password or content")
    return JavaKeyStore(tuple(keys), tuple(trusted))


def _certificate(found: _Bytes, version: int) -> bytes:
    if version == 2 and (kind := found.block(2)) not in (b"X.509", b"X509"):
        raise JavaKeyStoreError(f"a certificate of kind {kind[:16].decode(errors='replace')!r} is no X.509")
    return found.block(4)


def _sealed(protected: bytes) -> bytes:
    """What is in the structure of a protected key: salt, key, check."""
    whole = _Bytes(protected)
    info = _Bytes(whole.der(_SEQUENCE))
    whole.end()
    if not info.der(_SEQUENCE).startswith(_ALGORITHM):
        raise JavaKeyStoreError("its key is protected in a way that JKS does not know")
    sealed = info.der(_OCTETS)
    info.end()
    return sealed


def _written(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _digest(*parts: bytes) -> bytes:
    # The format's own, and old: also where a policy of the machine forbids it for what is new.
    return sha1(b"".join(parts), usedforsecurity=False).digest()


class _Bytes:
    """Read from front to back. All of it raises JavaKeyStoreError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        begin, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise JavaKeyStoreError("it ends too early")
        return self._data[begin : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def block(self, width: int) -> bytes:
        """Bytes after their length."""
        return self.take(self.number(width))

    def der(self, tag: int) -> bytes:
        """What is in a value of DER."""
        if self.number(1) != tag:
            raise JavaKeyStoreError("its key is not in DER")
        length = self.number(1)
        return self.take(length if length < 0x80 else self.number(length - 0x80))

    def end(self) -> None:
        if self._at != len(self._data):
            raise JavaKeyStoreError("it goes on after its end")
