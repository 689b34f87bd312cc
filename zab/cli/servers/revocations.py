"""The certificates that the two authorities have signed and revoked, in the directory of their keys.

    DIR/ca/members.issued, clients.issued   a line for each certificate: its serial number, its last day, and for whom
    DIR/ca/members.crl, clients.crl         the list of those that are revoked (RFC 5280), in PEM

A certificate is noted before it is handed out, so revoking a member or client revokes all certificates that it ever
got. Servers have the list in the trust store, after the certificate of its authority (`ssl.crl`, `ssl.quorum.crl`).

Not here: signing (`authority.py`), the directories of members and clients (`certificate_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from zab.cli.servers.authority import Authority, AuthorityError
from zab.host.files.private_file import append_private, replace_private
from zab.tls.revocation import LIST

__all__ = ["Given", "Lists", "list_of", "new_files", "note", "replace_list", "revoke"]


@frozen
class Given:
    """A certificate, and the name of the directory that has it."""

    name: str
    certificate: x509.Certificate

    @property
    def line(self) -> str:
        return f"{self.certificate.serial_number:x} {self.certificate.not_valid_after_utc:%Y-%m-%d} {self.name}\n"


Lists: TypeAlias = Mapping[str, x509.CertificateRevocationList]
"""The revocation list of each authority, by kind."""


def new_files(kind: str, given: Iterable[Given], revoked: x509.CertificateRevocationList) -> dict[str, bytes]:
    """The two files of a new authority, by their names. `kind`: members or clients."""
    return {
        f"{kind}.issued": "".join(each.line for each in given).encode(),
        f"{kind}.crl": revoked.public_bytes(Encoding.PEM),
    }


def note(directory: Path, kind: str, given: Iterable[Given]) -> None:
    """Note certificates before they are handed out. Raises OSError."""
    append_private(directory / f"{kind}.issued", "".join(each.line for each in given).encode())


def list_of(directory: Path, kind: str) -> x509.CertificateRevocationList:
    """The current revocation list. Raises AuthorityError and OSError."""
    path = directory / f"{kind}.crl"
    try:
        return x509.load_pem_x509_crl(path.read_bytes())
    except ValueError:
        raise AuthorityError(f"{path}: it is no list of revoked certificates") from None


def revoke(
    directory: Path, kind: str, authority: Authority, names: Iterable[str], now: datetime
) -> tuple[x509.CertificateRevocationList, dict[str, int]]:
    """Revoke all certificates of these names so far; returns the list, and how many are new for each name. Raises
    AuthorityError and OSError."""
    before = list_of(directory, kind)
    revoked = {each.serial_number: each.revocation_date_utc for each in before}
    noted = _noted(directory / f"{kind}.issued")
    counts: dict[str, int] = {}
    for name in names:
        serials = [serial for serial, its_name in noted if its_name == name]
        if not serials:
            raise AuthorityError(f"{kind.removesuffix('s')} {name}: nothing was ever made for it")
        new = [serial for serial in serials if serial not in revoked]
        revoked.update(dict.fromkeys(new, now))
        counts[name] = counts.get(name, 0) + len(new)
    number = before.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    after = authority.revoked(revoked, number + 1, now)
    replace_private(directory / f"{kind}.crl", after.public_bytes(Encoding.PEM))
    return after, counts


def replace_list(store: Path, current: x509.CertificateRevocationList) -> None:
    """Replace the list of this authority in a PEM trust store. Raises OSError."""

    def kept(found: bytes) -> bytes:
        return b"" if x509.load_pem_x509_crl(found).issuer == current.issuer else found

    rest = LIST.sub(lambda match: kept(match[0]), store.read_bytes())
    replace_private(store, rest + current.public_bytes(Encoding.PEM))


def _noted(path: Path) -> list[tuple[int, str]]:
    """(serial number, name) of each line. Raises AuthorityError and OSError."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            serial, _, name = line.split(" ", 2)
            found.append((int(serial, 16), name))
        except ValueError:
            raise AuthorityError(f"{path}:{number}: it is no serial number, day and name") from None
    return found
