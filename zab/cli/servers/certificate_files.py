"""The directory that `zab certs` makes and keeps: authorities, members, clients.

    DIR/ca/members.pem, members.key         the authority of members; or elsewhere (--ca)
    DIR/ca/clients.pem, clients.key         the authority of clients
    DIR/members/HOST/…, DIR/clients/NAME/…  one directory each, to be copied to its machine as it is:

        keystore.pem, keystore.p12                      key, certificate, and the certificate of its authority
        truststore.pem, truststore.p12                  who is believed: by a member the clients, by them the members
        quorum.truststore.pem, quorum.truststore.p12    of a member only: who is a member
        password                                        of the .p12 files, one line

PEM is for members, for `zab` and for kazoo, PKCS#12 for Java. The keys in PEM are not encrypted: who can read them can
read `password`.

Directories have mode 0700 and files 0600. A new directory is written aside and synced, and gets its name at the end, so
that what has it is whole; a file that is renewed is replaced as one. Nothing else is overwritten.

Not here: what a certificate says (`authority.py`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from zab.cli.servers.authority import Authority, AuthorityError, Issued

__all__ = [
    "KEY_STORE",
    "PASSWORD",
    "QUORUM_TRUST_STORE",
    "TRUST_STORE",
    "Authorities",
    "holders",
    "new_directory",
    "read_authorities",
    "renew_holder",
    "write_authorities",
    "write_holder",
]

KEY_STORE: Final = "keystore"
TRUST_STORE: Final = "truststore"
QUORUM_TRUST_STORE: Final = "quorum.truststore"
PASSWORD: Final = "password"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


@frozen
class Authorities:
    """Who signs for members, and who for clients."""

    members: Authority
    clients: Authority


def write_authorities(directory: Path, authorities: Authorities) -> None:
    """`directory` is not there yet. Raises OSError."""
    with new_directory(directory) as aside:
        for name, authority in (("members", authorities.members), ("clients", authorities.clients)):
            _write(aside / f"{name}.pem", authority.certificate.public_bytes(Encoding.PEM))
            _write(aside / f"{name}.key", _key_pem(authority.key))


def read_authorities(directory: Path) -> Authorities:
    """Raises AuthorityError and OSError."""
    return Authorities(_authority(directory, "members"), _authority(directory, "clients"))


def _authority(directory: Path, name: str) -> Authority:
    certificate_path, key_path = directory / f"{name}.pem", directory / f"{name}.key"
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
    except ValueError:
        raise AuthorityError(f"{certificate_path}: it is no certificate") from None
    try:
        key = load_pem_private_key(key_path.read_bytes(), None)
    except (ValueError, TypeError):
        raise AuthorityError(f"{key_path}: it is no key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise AuthorityError(f"{key_path}: it is not the key of {certificate_path}")
    return Authority(key, certificate)


def write_holder(directory: Path, issued: Issued, trusted: Mapping[str, Authority]) -> None:
    """All that a member or client needs, in a directory that is not there yet. Raises OSError.

    trusted: the stores of whom it believes, by the name of the file without its ending."""
    password = secrets.token_urlsafe(32).encode()
    files = _key_stores(issued, password)
    for name, authority in trusted.items():
        certificate = authority.certificate
        alias = certificate.subject.rfc4514_string().encode()
        entries = [pkcs12.PKCS12Certificate(certificate, alias)]
        files[f"{name}.pem"] = certificate.public_bytes(Encoding.PEM)
        files[f"{name}.p12"] = pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(password))
    files[PASSWORD] = password + b"\n"
    with new_directory(directory) as aside:
        for file_name, content in files.items():
            _write(aside / file_name, content)


def renew_holder(directory: Path, authority: Authority, now: datetime, days: int) -> Issued:
    """Replace key and certificate, and leave the rest. Raises AuthorityError and OSError."""
    path = directory / f"{KEY_STORE}.pem"
    try:
        before = x509.load_pem_x509_certificate(_certificates(path.read_bytes()))
        password = (directory / PASSWORD).read_bytes().strip()
        issued = authority.again(before, now, days)
    except ValueError:
        raise AuthorityError(f"{path}: there is no certificate in it") from None
    except AuthorityError as error:
        raise AuthorityError(f"{path}: {error}") from None
    for name, content in _key_stores(issued, password).items():
        aside = directory / f".{name}.{secrets.token_hex(8)}"
        _write(aside, content)
        os.replace(aside, directory / name)
    _sync(directory)
    return issued


def holders(directory: Path) -> list[Path]:
    """The directories of members, or of clients, that were made in one."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))


@contextlib.contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A directory aside, which becomes `directory` at the end. FileExistsError where there is something."""
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} is there already, and is not overwritten")
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
    aside.mkdir(mode=0o700)
    try:
        yield aside
        _sync(aside)
        os.rename(aside, directory)
        _sync(directory.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _key_stores(issued: Issued, password: bytes) -> dict[str, bytes]:
    chain = [issued.certificate, issued.issuer]
    encryption = BestAvailableEncryption(password)
    p12 = pkcs12.serialize_key_and_certificates(b"zab", issued.key, issued.certificate, [issued.issuer], encryption)
    pem = _key_pem(issued.key) + b"".join(each.public_bytes(Encoding.PEM) for each in chain)
    return {f"{KEY_STORE}.pem": pem, f"{KEY_STORE}.p12": p12}


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificates(pem: bytes) -> bytes:
    """What comes after the key."""
    return pem[max(pem.find(_CERTIFICATE), 0) :]


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
