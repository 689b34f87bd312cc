"""The directory of `zab certs`: authorities, members, clients.

    DIR/ca/members.pem, members.key         the authority of members; or elsewhere (--ca)
    DIR/ca/clients.pem, clients.key         the authority of clients
    DIR/ca/members.issued, members.crl, …   what they have signed and revoked (`revocations.py`)
    DIR/members/HOST/…, DIR/clients/NAME/…  one directory each, to be copied to its machine as it is:

        keystore.pem, keystore.p12                      key, certificate, and the certificate of its authority
        truststore.pem, truststore.p12                  the trusted authority: for a member that of clients, or vice
                                                        versa
        quorum.truststore.pem, quorum.truststore.p12    only for a member: the authority of members
        password                                        the password of the .p12 files, one line

PEM is for members, for `zab` and for kazoo, PKCS#12 for Java. The keys in PEM are not encrypted: a user who can read
them can also read `password`.

Directories have mode 0700 and files 0600 (`zab.host.files.private_file`). A new directory is written aside and
synced, and gets its name at the end, so that it is always complete. Only renewed keys and revocation lists are
replaced; nothing else is overwritten.

Not here: the content of certificates (`authority.py`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from zab.cli.servers.revocations import Given, Lists, new_files
from zab.host.files.private_file import replace_private, sync_directory, write_private

__all__ = [
    "CLIENTS",
    "KEY_STORE",
    "MEMBERS",
    "PASSWORD",
    "QUORUM_TRUST_STORE",
    "TRUST_STORE",
    "Authorities",
    "Trusted",
    "holders",
    "new_directory",
    "read_authorities",
    "renew_holder",
    "write_authorities",
    "write_holder",
]

MEMBERS: Final = "members"
CLIENTS: Final = "clients"
KEY_STORE: Final = "keystore"
TRUST_STORE: Final = "truststore"
QUORUM_TRUST_STORE: Final = "quorum.truststore"
PASSWORD: Final = "password"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


@frozen
class Authorities:
    """The authorities of members and of clients."""

    members: Authority
    clients: Authority

    def of(self, kind: str) -> Authority:
        """`kind`: MEMBERS or CLIENTS."""
        return self.members if kind == MEMBERS else self.clients


@frozen
class Trusted:
    """A trusted authority, and its revocation list, if it is checked."""

    certificate: x509.Certificate
    revoked: x509.CertificateRevocationList | None = None

    @property
    def pem(self) -> bytes:
        more = b"" if self.revoked is None else self.revoked.public_bytes(Encoding.PEM)
        return self.certificate.public_bytes(Encoding.PEM) + more


def write_authorities(
    directory: Path, authorities: Authorities, given: Mapping[str, Sequence[Given]], lists: Lists
) -> None:
    """Write the authorities to a new directory. `given`: the certificates that each has signed, by kind. Raises
    OSError."""
    with new_directory(directory) as aside:
        for kind in (MEMBERS, CLIENTS):
            authority = authorities.of(kind)
            write_private(aside / f"{kind}.pem", authority.certificate.public_bytes(Encoding.PEM))
            write_private(aside / f"{kind}.key", _key_pem(authority.key))
            for name, content in new_files(kind, given[kind], lists[kind]).items():
                write_private(aside / name, content)


def read_authorities(directory: Path) -> Authorities:
    """Read the authorities. Raises AuthorityError and OSError."""
    return Authorities(_authority(directory, MEMBERS), _authority(directory, CLIENTS))


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


def write_holder(directory: Path, issued: Issued, trusted: Mapping[str, Trusted]) -> None:
    """Write the files of a member or client to a new directory. Raises OSError.

    trusted: its trust stores, by the name of the file without its ending."""
    password = secrets.token_urlsafe(32).encode()
    files = _key_stores(issued, password)
    for name, believed in trusted.items():
        certificate = believed.certificate
        alias = certificate.subject.rfc4514_string().encode()
        entries = [pkcs12.PKCS12Certificate(certificate, alias)]
        files[f"{name}.pem"] = believed.pem
        files[f"{name}.p12"] = pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(password))
    files[PASSWORD] = password + b"\n"
    with new_directory(directory) as aside:
        for file_name, content in files.items():
            write_private(aside / file_name, content)


def renew_holder(
    directory: Path, authority: Authority, now: datetime, days: int, note: Callable[[Issued], None]
) -> Issued:
    """Replace key and certificate, and leave the rest. Raises AuthorityError and OSError.

    note: called with the new certificate before it is in the directory."""
    path = directory / f"{KEY_STORE}.pem"
    try:
        before = x509.load_pem_x509_certificate(_certificates(path.read_bytes()))
        password = (directory / PASSWORD).read_bytes().strip()
        issued = authority.again(before, now, days)
    except ValueError:
        raise AuthorityError(f"{path}: it contains no certificate") from None
    except AuthorityError as error:
        raise AuthorityError(f"{path}: {error}") from None
    note(issued)
    for name, content in _key_stores(issued, password).items():
        replace_private(directory / name, content)
    return issued


def holders(directory: Path) -> list[Path]:
    """The directories of members, or of clients, that were made in one."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))


@contextlib.contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A temporary directory, which becomes `directory` at the end. Raises FileExistsError if that exists and is not
    empty."""
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} is there already, and is not overwritten")
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
    aside.mkdir(mode=0o700)
    try:
        yield aside
        sync_directory(aside)
        os.rename(aside, directory)
        sync_directory(directory.parent)
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
    """The certificates after the key."""
    return pem[max(pem.find(_CERTIFICATE), 0) :]
