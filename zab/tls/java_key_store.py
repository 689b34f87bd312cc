"""Java key stores (JKS): reads the keys and certificates in one. Pure.

    read_java_key_store(data, password) -> JavaKeyStore
    is_java_key_store(data)                 by its first bytes

Numbers are big-endian. A text is preceded by a length of two bytes, any other variable part by one of four:

    FEEDFEED | version4 | count4 | entries | SHA-1 of the password, "Mighty Aphrodite" and all bytes before
    entry        tag4 | alias, text | date8, ms | tag 1: protected key | count4 | certificates; tag 2: certificate
    certificate  type, text (version 2 only) | DER

A protected key is an EncryptedPrivateKeyInfo in DER with Sun's proprietary algorithm: 20 bytes of salt, the key
(PKCS#8) XOR a stream, and SHA-1 of the password and the key. The stream is SHA-1 of the password and the salt, then of
the password and the previous 20 bytes, and so on. Passwords are encoded as UTF-16.

Guessing passwords is cheap: a file with a weak password is as good as open.

This project has its own reader because no library for it is maintained: the last `pyjks` is from 2020, and depends on
one from 2013 that Python 3.12 cannot load.

Limits: nothing is allocated on the word of a length in the file; the caller bounds the file's size (`stores`).

Not here: JCEKS and BCFKS, which are other formats; PKCS#12, which keytool has written for years, whatever the file's
name; the contents of certificates.
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
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1."""


class JavaKeyStoreError(ValueError):
    """The bytes are not a readable Java key store; the text says why, and shows none of its contents."""


class JceksError(JavaKeyStoreError):
    """It is JCEKS, a different format."""


class WrongPasswordError(JavaKeyStoreError):
    """The password does not match."""


@frozen
class ProtectedKey:
    """A key with its certificates in DER, its own first."""

    alias: str
    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)

    def opened(self, password: str) -> bytes:
        """The key as PKCS#8 in DER. Raises JavaKeyStoreError."""
        sealed = _sealed(self.protected)
        salt, hidden, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
        written = _written(password)
        stream, last = bytearray(), salt
        while len(stream) < len(hidden):
            last = _digest(written, last)
            stream += last
        key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
        if len(sealed) < 2 * _DIGEST_BYTES or _digest(written, key) != check:
            raise WrongPasswordError("the key has a different password")
        return key


@frozen
class JavaKeyStore:
    """The entries of one store, in order."""

    keys: tuple[ProtectedKey, ...]
    trusted: tuple[bytes, ...] = field(repr=False)
    """The certificates that its owner trusts, in DER."""


def is_java_key_store(data: bytes) -> bool:
    """Whether the bytes begin like a Java key store; also true for JCEKS, which `read_java_key_store` refuses."""
    return data[:4] in (_MAGIC, _JCEKS)


def read_java_key_store(data: bytes, password: str) -> JavaKeyStore:
    """Read everything but the keys, which have passwords of their own. Raises JavaKeyStoreError."""
    if data[:4] == _JCEKS:
        raise JceksError("it is JCEKS")
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    found = _Bytes(content)
    if found.take(4) != _MAGIC:
        raise JavaKeyStoreError("it does not begin like one")
    version = found.number(4)
    if version not in (1, 2):
        raise JavaKeyStoreError(f"its version is {version}, not 1 or 2")
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
        raise WrongPasswordError("its digest does not match the password and content")
    return JavaKeyStore(tuple(keys), tuple(trusted))


def _certificate(found: _Bytes, version: int) -> bytes:
    if version == 2 and (kind := found.block(2)) not in (b"X.509", b"X509"):
        raise JavaKeyStoreError(f"a certificate of kind {kind[:16].decode(errors='replace')!r} is not X.509")
    return found.block(4)


def _sealed(protected: bytes) -> bytes:
    """The contents of a protected key: salt, key, check."""
    whole = _Bytes(protected)
    info = _Bytes(whole.der(_SEQUENCE))
    whole.end()
    if not info.der(_SEQUENCE).startswith(_ALGORITHM):
        raise JavaKeyStoreError("its key is protected with an algorithm that JKS does not have")
    sealed = info.der(_OCTETS)
    info.end()
    return sealed


def _written(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _digest(*parts: bytes) -> bytes:
    # The format prescribes SHA-1, so it is used even if a policy of the machine forbids it for security.
    return sha1(b"".join(parts), usedforsecurity=False).digest()


class _Bytes:
    """Reads bytes from front to back. Every method raises JavaKeyStoreError if too few are left."""

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
        """The bytes after a length."""
        return self.take(self.number(width))

    def der(self, tag: int) -> bytes:
        """The contents of a DER value."""
        if self.number(1) != tag:
            raise JavaKeyStoreError("its key is not DER")
        length = self.number(1)
        return self.take(length if length < 0x80 else self.number(length - 0x80))

    def end(self) -> None:
        if self._at != len(self._data):
            raise JavaKeyStoreError("bytes follow its end")
