"""Key and trust stores: files with a key and its certificates, and with those of authorities.

    Store(keys, path, kind, password)
        load_key(context)       the key, its certificate, and those between it and its authority
        load_trusted(context)   the authorities who are believed, and, if asked for, their lists of revoked ones
        certificate()           the one that the key is shown with
    read_password(path, key)    the file that has a store's password: its first line

A store is PEM (`.pem`; the key, encrypted or not, and its certificates in one file), PKCS#12 (`.p12`, `.pfx`) or a Java
key store (`.jks`). Which of the last two it is, its first bytes say, as in Java: keytool writes PKCS#12 into files with
the name `.jks`. Java's other formats are refused, with the command that makes PKCS#12 of them. OpenSSL takes a key from
a file only: one out of PKCS#12 or JKS goes through a temporary file of its owner's alone, encrypted under a password
made for that moment.

Limits: `STORE_BYTES_MAX`, `PASSWORD_BYTES_MAX`, and `ROUNDS_MAX` of PKCS#12. JKS has no rounds, and OpenSSL lets Python
go on while it opens PEM. Files are read where this is called: a store of the greatest size takes seconds, so a loop
that serves calls it from another thread.

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
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
    pkcs12,
)

from zab.tls.certificate_errors import CERTIFICATE_ERRORS
from zab.tls.java_key_store import (
    JavaKeyStore,
    JavaKeyStoreError,
    JceksError,
    WrongPasswordError,
    is_java_key_store,
    read_java_key_store,
)
from zab.tls.key_derivation import rounds_of
from zab.tls.revocation import RevocationError, current_lists, lists_in

__all__ = [
    "PASSWORD_BYTES_MAX",
    "ROUNDS_MAX",
    "STORE_BYTES_MAX",
    "Store",
    "StoreError",
    "StoreKeys",
    "kind_of",
    "read_password",
]

STORE_BYTES_MAX: Final = 4 << 20
PASSWORD_BYTES_MAX: Final = 1023
"""OpenSSL's, for PEM."""
ROUNDS_MAX: Final = 1_000_000
"""In which the keys of PKCS#12 are derived, of all its parts together: 100 ms. For a store of one key openssl takes
6,144 by itself, keytool 30,000, and that of Java 8 to 15 200,000."""

_KINDS: Final = {".pem": "pem", ".p12": "pkcs12", ".pfx": "pkcs12", ".jks": "jks", ".bcfks": "bcfks"}

_NO_KEY: Final = "there is no key with its certificate in it"
_NO_CERTIFICATE: Final = "there is no certificate in it"
_ALIASES_SHOWN: Final = 5


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
        if self._kind == "bcfks":
            raise self._foreign("BCFKS")

    def _error(self, reason: str) -> StoreError:
        return StoreError(f"{self._keys.location}: {self._path}: {reason}")

    def _foreign(self, kind: str) -> StoreError:
        target = Path(self._path).with_suffix(".p12")
        places = f"-srckeystore {self._path} -srcstoretype {kind} -destkeystore {target} -deststoretype PKCS12"
        return self._error(
            f"{kind} cannot be read here: `keytool -importkeystore {places}` makes a store of it that can"
        )

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
            if rounds_of(data) <= ROUNDS_MAX:
                return pkcs12.load_pkcs12(data, self._password.encode() or None)
        except (ValueError, TypeError):
            told = "the password does not open it" if self._password else "it needs a password"
            wanted = "no PKCS#12" if self._kind == "pkcs12" else "neither JKS nor PKCS#12"
            raise self._error(f"{told}, or it is {wanted}: see {self._keys.password}") from None
        raise self._error(
            f"its keys are derived in more than {ROUNDS_MAX} rounds, in which a server would stand still: write it "
            "with fewer, as `openssl pkcs12 -export` and keytool do by themselves"
        )

    def _open_java(self, data: bytes) -> JavaKeyStore:
        try:
            return read_java_key_store(data, self._password)
        except JceksError:
            raise self._foreign("JCEKS") from None
        except WrongPasswordError:
            told = "the password does not open it" if self._password else "it needs a password"
            raise self._error(f"{told}, or it was changed by somebody else: see {self._keys.password}") from None
        except JavaKeyStoreError as error:
            raise self._error(f"it is a damaged Java key store: {error}") from None

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
        key, chain = self._key_in(data)
        passing = secrets.token_hex(32)
        # mkstemp's mode is 0600, and the file is gone with the block.
        with tempfile.NamedTemporaryFile(prefix="zab-") as file:
            encrypted = BestAvailableEncryption(passing.encode())
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))
            file.write(b"".join(each.public_bytes(Encoding.PEM) for each in chain))
            file.flush()
            self._load_pem(context, file.name, passing)
        return bool(self._password)

    def _key_in(self, data: bytes) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
        """Of PKCS#12 or JKS: the key, and its certificates, its own first."""
        if not is_java_key_store(data):
            store = self._open(data)
            if store.key is None or store.cert is None:
                raise self._error(_NO_KEY)
            return store.key, [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
        keys = self._open_java(data).keys
        if not keys or not keys[0].chain:
            raise self._error(_NO_KEY)
        if len(keys) > 1:
            aliases = ", ".join(sorted(key.alias for key in keys)[:_ALIASES_SHOWN])
            raise self._error(f"there are {len(keys)} keys in it ({aliases}): leave one, with `keytool -delete`")
        [found] = keys
        try:
            pkcs8 = found.opened(self._password)
        except WrongPasswordError:
            command = f"keytool -keypasswd -keystore {self._path} -alias {found.alias}"
            raise self._error(f"the password of its key is not that of the store: `{command}` changes it") from None
        except JavaKeyStoreError as error:
            raise self._error(f"its key cannot be read: {error}") from None
        return load_der_private_key(pkcs8, None), [x509.load_der_x509_certificate(each) for each in found.chain]

    def certificate(self) -> x509.Certificate:
        """The one that the key is shown with. Raises StoreError."""
        with self._refused():
            data = self._read()
            return self._in_pem(data)[0] if self._kind == "pem" else self._key_in(data)[1][0]

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
                reason = _NO_KEY
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
        found = self._in_pem(data) if self._kind == "pem" else self._authorities_in(data)
        lists = self._load_lists(context, data, found) if with_lists else []
        authorities = [each.public_bytes(Encoding.DER) for each in found]
        context.load_verify_locations(cadata=b"".join(authorities))
        return frozenset([*authorities, *(each.public_bytes(Encoding.DER) for each in lists)])

    def _in_pem(self, data: bytes) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(data)
        except ValueError:
            raise self._error(_NO_CERTIFICATE) from None

    def _authorities_in(self, data: bytes) -> list[x509.Certificate]:
        """In PKCS#12 or JKS. JKS says which certificates are trusted; beside a key, PKCS#12 does not."""
        if is_java_key_store(data):
            java = self._open_java(data)
            has_key, found = bool(java.keys), [x509.load_der_x509_certificate(each) for each in java.trusted]
        else:
            store = self._open(data)
            has_key = store.key is not None
            found = [] if has_key else [each.certificate for each in store.additional_certs]
        if not found:
            raise self._error("there is a key in it, so it is no trust store" if has_key else _NO_CERTIFICATE)
        return found

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
