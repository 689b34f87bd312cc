"""Key and trust stores: files with a key and its certificates, and with those of authorities.

    Store(keys, path, kind, password)
        load_key(context)       the key, its certificate, and those between it and its authority
        load_trusted(context)   the authorities who are believed, and, if asked for, their lists of revoked ones
    read_password(path, key)    the file that has a store's password: its first line

A store is PEM (`.pem`; the key, encrypted or not, and its certificates in one file) or PKCS#12 (`.p12`, `.pfx`). Java's
own formats are refused, with the command that makes PKCS#12 of them. OpenSSL takes a key from a file only: one out of
PKCS#12 goes through a temporary file of its owner's alone, encrypted under a password made for that moment.

Limits: `STORE_BYTES_MAX` and `PASSWORD_BYTES_MAX`. Files are read where this is called: a store of the greatest size
takes seconds, so a loop that serves calls it from another thread.

Not here: versions, ciphers and whether the other side needs a certificate, which are the context's.
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from zab.tls.certificate_errors import CERTIFICATE_ERRORS
from zab.tls.revocation import RevocationError, current_lists, lists_in

__all__ = ["PASSWORD_BYTES_MAX", "STORE_BYTES_MAX", "Store", "StoreError", "StoreKeys", "kind_of", "read_password"]

STORE_BYTES_MAX: Final = 4 << 20
PASSWORD_BYTES_MAX: Final = 1023
"""OpenSSL's, for PEM."""

_KINDS: Final = {".pem": "pem", ".p12": "pkcs12", ".pfx": "pkcs12", ".jks": "jks", ".bcfks": "bcfks"}


class StoreError(ValueError):
    """A store cannot be used; the text says which, why, and what to do. It never shows what is in it."""


@frozen
class StoreKeys:
    """What the settings of a store are called where they are made: keys of a file, or arguments."""

    location: str
    password: str
    """Which says where its password is."""
    kind: str

    @classmethod
    def beginning(cls, prefix: str) -> StoreKeys:
        """As ZooKeeper calls them: `ssl.keyStore` and the like."""
        return cls(f"{prefix}.location", f"{prefix}.passwordPath", f"{prefix}.type")


def kind_of(path: str) -> str | None:
    """What a file's name says of it: `pem`, `pkcs12`, `jks`, `bcfks`; None: nothing."""
    return _KINDS.get(Path(path).suffix)


def read_password(path: str, key: str) -> str:
    """The first line of a file. `key`: the setting that names it. Raises StoreError."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
        password = line.decode()
    except OSError as error:
        raise StoreError(f"{key}: {path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise StoreError(f"{key}: {path}: it is not UTF-8") from None
    except ValueError as error:
        raise StoreError(f"{key}: {path}: it is no path: {error}") from None
    if len(line) > PASSWORD_BYTES_MAX:
        raise StoreError(f"{key}: {path}: the password has more than {PASSWORD_BYTES_MAX} bytes")
    return password


class Store:
    """One file."""

    def __init__(self, keys: StoreKeys, path: str, kind: str | None, password: str) -> None:
        """`kind`: as `kind_of` says it, or None: by the name. Raises StoreError."""
        self._keys = keys
        self._path = path
        self._kind = kind or kind_of(path)
        self._password = password
        if self._kind is None:
            raise self._error(f"its name does not end in .pem or .p12, so {keys.kind} has to say what it is")
        if self._kind in ("jks", "bcfks"):
            target = f"{Path(path).with_suffix('.p12')}"
            command = f"keytool -importkeystore -srckeystore {path} -destkeystore {target} -deststoretype PKCS12"
            raise self._error(f"a Java key store cannot be read here: `{command}` makes one of it that can")

    def _error(self, reason: str) -> StoreError:
        return StoreError(f"{self._keys.location}: {self._path}: {reason}")

    def _read(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                data = file.read(STORE_BYTES_MAX + 1)
        except OSError as error:
            raise self._error(f"it cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise self._error(f"it is no path: {error}") from None
        if len(data) > STORE_BYTES_MAX:
            raise self._error(f"it has more than {STORE_BYTES_MAX} bytes")
        return data

    def _open(self, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
        try:
            return pkcs12.load_pkcs12(data, self._password.encode() or None)
        except (ValueError, TypeError):
            told = "the password does not open it" if self._password else "it needs a password"
            raise self._error(f"{told}, or it is no PKCS#12: see {self._keys.password}") from None

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """Whatever is wrong in here is a StoreError: a running server keeps the stores that it has."""
        try:
            yield
        except StoreError:
            raise
        except ssl.SSLError as error:
            words = (error.reason or "it is none of its certificates").lower().replace("_", " ")
            raise self._error(f"OpenSSL cannot read what is in it: {words}") from None
        except OSError as error:
            raise self._error(f"it cannot be handed to OpenSSL in a file: {error.strerror or error}") from None
        except CERTIFICATE_ERRORS:
            raise self._error("there is something in it that cannot be read") from None

    # ----------------------------------------------------------------------------------------------------------- keys

    def load_key(self, context: ssl.SSLContext) -> bool:
        """The key, its certificate, and those between it and its authority; whether whoever reads the file needs a
        password to have the key. Raises StoreError."""
        with self._refused():
            return self._load_key(context)

    def _load_key(self, context: ssl.SSLContext) -> bool:
        data = self._read()
        if self._kind == "pem":
            return self._load_pem(context, self._path, self._password)
        store = self._open(data)
        if store.key is None or store.cert is None:
            raise self._error("there is no key with its certificate in it")
        passing = secrets.token_hex(32)
        chain = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
        # mkstemp's mode is 0600, and the file is gone with the block.
        with tempfile.NamedTemporaryFile(prefix="zab-") as file:
            encrypted = BestAvailableEncryption(passing.encode())
            file.write(store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))
            file.write(b"".join(each.public_bytes(Encoding.PEM) for each in chain))
            file.flush()
            self._load_pem(context, file.name, passing)
        return bool(self._password)

    def _load_pem(self, context: ssl.SSLContext, path: str, password: str) -> bool:
        """Whether the key is encrypted."""
        is_encrypted = False

        def give() -> str:
            nonlocal is_encrypted
            is_encrypted = True
            return password

        try:
            # Without a password of ours, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=give)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = "the key in it is not that of its certificate"
            elif is_encrypted:
                told = "the password does not open its key" if password else "its key is encrypted"
                reason = f"{told}: see {self._keys.password}"
            else:
                reason = "there is no key with its certificate in it"
            raise self._error(reason) from None
        return is_encrypted

    # ------------------------------------------------------------------------------------------------------- trusted

    def load_trusted(self, context: ssl.SSLContext, *, with_lists: bool = False) -> frozenset[bytes]:
        """The authorities who are believed; they are returned, with their lists, in DER. Raises StoreError.

        with_lists: of each there is the list of certificates that it has revoked, and none of these is believed."""
        with self._refused():
            return self._load_trusted(context, with_lists=with_lists)

    def _load_trusted(self, context: ssl.SSLContext, *, with_lists: bool) -> frozenset[bytes]:
        data = self._read()
        found: list[x509.Certificate] = []
        if self._kind == "pem":
            try:
                found = x509.load_pem_x509_certificates(data)
            except ValueError:
                raise self._error("there is no certificate in it") from None
        else:
            store = self._open(data)
            if store.key is not None:
                raise self._error("there is a key in it, so it is no trust store")
            found = [each.certificate for each in store.additional_certs]
        if not found:
            raise self._error("there is no certificate in it")
        lists = self._load_lists(context, data, found) if with_lists else []
        authorities = [each.public_bytes(Encoding.DER) for each in found]
        context.load_verify_locations(cadata=b"".join(authorities))
        return frozenset([*authorities, *(each.public_bytes(Encoding.DER) for each in lists)])

    def _load_lists(
        self, context: ssl.SSLContext, data: bytes, believed: list[x509.Certificate]
    ) -> list[x509.CertificateRevocationList]:
        """Raises StoreError."""
        if self._kind != "pem":
            raise self._error("lists of revoked certificates are taken out of PEM only")
        try:
            lists = current_lists(believed, lists_in(data), datetime.now(UTC))
        except RevocationError as error:
            raise self._error(str(error)) from None
        # OpenSSL takes lists from a file only.
        with tempfile.NamedTemporaryFile(prefix="zab-") as file:
            file.write(b"".join(each.public_bytes(Encoding.PEM) for each in lists))
            file.flush()
            context.load_verify_locations(cafile=file.name)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
        return lists
