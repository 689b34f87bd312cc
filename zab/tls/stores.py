"""Key and trust stores: files with a key and its certificates, and files with the certificates of trusted authorities.

    Store(keys, path, kind, password)
        load_key(context)       the key, its certificate, and the intermediate ones
        load_trusted(context)   the trusted authorities, and, if asked for, their CRLs
        certificate()           the key's own certificate
    read_password(path, key)    the first line of a file: a store's password

A store is PEM (`.pem`; the key, encrypted or not, and its certificates in one file), PKCS#12 (`.p12`, `.pfx`) or a Java
key store (`.jks`). Its first bytes tell the last two apart, as in Java: keytool writes PKCS#12 into files named `.jks`.
Java's other formats are refused, with the command that converts them to PKCS#12. OpenSSL only reads keys from files:
one from PKCS#12 or JKS goes through a temporary file that only its owner can read, encrypted under a one-time password.

Limits: `STORE_BYTES_MAX`, `PASSWORD_BYTES_MAX`, and `ROUNDS_MAX` of PKCS#12. JKS has no rounds, and OpenSSL releases
Python's lock while it opens PEM. These calls block on files: a store of the maximum size takes seconds, so a server
loop calls them from another thread.

Not here: versions, ciphers, and whether the other side needs a certificate: the context decides those.
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
"""OpenSSL's limit, for PEM."""
ROUNDS_MAX: Final = 1_000_000
"""The most rounds in which the keys of PKCS#12 may be derived, of all its parts together: 100 ms. For a store with one
key, openssl uses 6,144 by default, keytool 30,000, and the keytool of Java 8 to 15 200,000."""

_KINDS: Final = {".pem": "pem", ".p12": "pkcs12", ".pfx": "pkcs12", ".jks": "jks", ".bcfks": "bcfks"}

_NO_KEY: Final = "it contains no key with its certificate"
_NO_CERTIFICATE: Final = "it contains no certificate"
_ALIASES_SHOWN: Final = 5


class StoreError(ValueError):
    """A store cannot be used; the text says which, why, and what to do. It never shows what is in it."""


@frozen
class StoreKeys:
    """The names of a store's settings, as its user knows them: keys of a file, or arguments."""

    location: str
    password: str
    """The setting for the password."""
    kind: str

    @classmethod
    def beginning(cls, prefix: str) -> StoreKeys:
        """ZooKeeper's names: `ssl.keyStore` and so on."""
        return cls(f"{prefix}.location", f"{prefix}.passwordPath", f"{prefix}.type")


def kind_of(path: str) -> str | None:
    """The type that a file's name implies: `pem`, `pkcs12`, `jks`, `bcfks`; None if none."""
    return _KINDS.get(Path(path).suffix)


def read_password(path: str, key: str) -> str:
    """The first line of a file. `key` is the setting that names the file. Raises StoreError."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
        password = line.decode()
    except OSError as error:
        raise StoreError(f"{key}: {path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise StoreError(f"{key}: {path}: it is not UTF-8") from None
    except ValueError as error:
        raise StoreError(f"{key}: {path}: it is not a path: {error}") from None
    if len(line) > PASSWORD_BYTES_MAX:
        raise StoreError(f"{key}: {path}: the password has more than {PASSWORD_BYTES_MAX} bytes")
    return password


class Store:
    """One store file."""

    def __init__(
        self, keys: StoreKeys, path: str, kind: str | None, password: str, certificate: str | None = None
    ) -> None:
        """`kind`: as from `kind_of`, or None to go by the name. `certificate`: the file with the certificate of a key
        in PEM; None: it is in the same one. Raises StoreError."""
        self._certificate = certificate
        self._keys = keys
        self._path = path
        self._kind = kind or kind_of(path)
        self._password = password
        if self._kind is None:
            raise self._error(f"its name does not end in .pem or .p12, so set {keys.kind}")
        if self._kind == "bcfks":
            raise self._foreign("BCFKS")

    def _error(self, reason: str) -> StoreError:
        return StoreError(f"{self._keys.location}: {self._path}: {reason}")

    def _foreign(self, kind: str) -> StoreError:
        target = Path(self._path).with_suffix(".p12")
        places = f"-srckeystore {self._path} -srcstoretype {kind} -destkeystore {target} -deststoretype PKCS12"
        return self._error(f"{kind} cannot be read here: convert it with `keytool -importkeystore {places}`")

    def _read(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                data = file.read(STORE_BYTES_MAX + 1)
        except OSError as error:
            raise self._error(f"it cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise self._error(f"it is not a path: {error}") from None
        if len(data) > STORE_BYTES_MAX:
            raise self._error(f"it has more than {STORE_BYTES_MAX} bytes")
        return data

    def _open(self, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
        try:
            if rounds_of(data) <= ROUNDS_MAX:
                return pkcs12.load_pkcs12(data, self._password.encode() or None)
        except (ValueError, TypeError):
            told = "the password does not open it" if self._password else "it needs a password"
            wanted = "not PKCS#12" if self._kind == "pkcs12" else "neither JKS nor PKCS#12"
            raise self._error(f"{told}, or it is {wanted}: see {self._keys.password}") from None
        raise self._error(
            f"its keys are derived in more than {ROUNDS_MAX} rounds, during which a server would stall: write it "
            "with fewer, as `openssl pkcs12 -export` and keytool do by default"
        )

    def _open_java(self, data: bytes) -> JavaKeyStore:
        try:
            return read_java_key_store(data, self._password)
        except JceksError:
            raise self._foreign("JCEKS") from None
        except WrongPasswordError:
            told = "the password does not open it" if self._password else "it needs a password"
            raise self._error(f"{told}, or it was tampered with: see {self._keys.password}") from None
        except JavaKeyStoreError as error:
            raise self._error(f"it is a damaged Java key store: {error}") from None

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn any failure in the block into a StoreError, so that a running server keeps the stores that it has."""
        try:
            yield
        except StoreError:
            raise
        except ssl.SSLError as error:
            words = (error.reason or "not one of its certificates").lower().replace("_", " ")
            raise self._error(f"OpenSSL cannot read its contents: {words}") from None
        except OSError as error:
            raise self._error(f"it cannot be passed to OpenSSL in a file: {error.strerror or error}") from None
        except CERTIFICATE_ERRORS:
            raise self._error("part of it cannot be read") from None

    # ----------------------------------------------------------------------------------------------------------- keys

    def load_key(self, context: ssl.SSLContext) -> bool:
        """Load the key, its certificate, and the intermediate ones. Returns whether reading the key from the file
        requires a password. Raises StoreError."""
        with self._refused():
            return self._load_key(context)

    def _load_key(self, context: ssl.SSLContext) -> bool:
        data = self._read()
        if self._kind == "pem":
            return self._load_pem(context, self._path, self._password, self._certificate)
        key, chain = self._key_in(data)
        passing = secrets.token_hex(32)
        # mkstemp's mode is 0600, and the file is removed when the block ends.
        with tempfile.NamedTemporaryFile(prefix="zab-") as file:
            encrypted = BestAvailableEncryption(passing.encode())
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))
            file.write(b"".join(each.public_bytes(Encoding.PEM) for each in chain))
            file.flush()
            self._load_pem(context, file.name, passing)
        return bool(self._password)

    def _key_in(self, data: bytes) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
        """The key in PKCS#12 or JKS, and its certificates, its own first."""
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
            raise self._error(f"it contains {len(keys)} keys ({aliases}): remove all but one with `keytool -delete`")
        [found] = keys
        try:
            pkcs8 = found.opened(self._password)
        except WrongPasswordError:
            command = f"keytool -keypasswd -keystore {self._path} -alias {found.alias}"
            raise self._error(
                f"its key and the store have different passwords: change the key's with `{command}`"
            ) from None
        except JavaKeyStoreError as error:
            raise self._error(f"its key cannot be read: {error}") from None
        return load_der_private_key(pkcs8, None), [x509.load_der_x509_certificate(each) for each in found.chain]

    def certificate(self) -> x509.Certificate:
        """The key's own certificate. Raises StoreError."""
        with self._refused():
            data = self._read()
            return self._in_pem(data)[0] if self._kind == "pem" else self._key_in(data)[1][0]

    def _load_pem(self, context: ssl.SSLContext, path: str, password: str, certificate: str | None = None) -> bool:
        """Load a key and its certificate in PEM; return whether the key is encrypted."""
        is_encrypted = False

        def give() -> str:
            nonlocal is_encrypted
            is_encrypted = True
            return password

        try:
            # Without a callback, OpenSSL would ask for a password at the terminal.
            context.load_cert_chain(certificate or path, keyfile=path, password=give)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = "its key does not belong to its certificate"
            elif is_encrypted:
                told = "the password does not open its key" if password else "its key is encrypted"
                reason = f"{told}: see {self._keys.password}"
            else:
                reason = _NO_KEY
            raise self._error(reason) from None
        return is_encrypted

    # ------------------------------------------------------------------------------------------------------- trusted

    def load_trusted(self, context: ssl.SSLContext, *, with_lists: bool = False) -> frozenset[bytes]:
        """Load the trusted authorities. Returns their certificates, and their lists, in DER. Raises StoreError.

        with_lists: each authority must have a list of revoked certificates, and none of those is trusted.
        """
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
        """The authorities in PKCS#12 or JKS. JKS marks the trusted certificates; PKCS#12 with a key does not."""
        if is_java_key_store(data):
            java = self._open_java(data)
            has_key, found = bool(java.keys), [x509.load_der_x509_certificate(each) for each in java.trusted]
        else:
            store = self._open(data)
            has_key = store.key is not None
            found = [] if has_key else [each.certificate for each in store.additional_certs]
        if not found:
            raise self._error("it contains a key, so it is not a trust store" if has_key else _NO_CERTIFICATE)
        return found

    def _load_lists(
        self, context: ssl.SSLContext, data: bytes, believed: list[x509.Certificate]
    ) -> list[x509.CertificateRevocationList]:
        """Load and check the revocation lists. Raises StoreError."""
        if self._kind != "pem":
            raise self._error("lists of revoked certificates are only read from PEM")
        try:
            lists = current_lists(believed, lists_in(data), datetime.now(UTC))
        except RevocationError as error:
            raise self._error(str(error)) from None
        # OpenSSL only reads lists from a file.
        with tempfile.NamedTemporaryFile(prefix="zab-") as file:
            file.write(b"".join(each.public_bytes(Encoding.PEM) for each in lists))
            file.flush()
            context.load_verify_locations(cafile=file.name)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
        return lists
