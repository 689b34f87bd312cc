"""Certificate revocation lists (CRLs, RFC 5280), as in a PEM trust store, beside the authorities that signed them.

    lists_in(pem)                        the lists in a file
    current_lists(believed, lists, now)  the newest valid list of each trusted authority

If lists are checked, every trusted authority must have one: without it, OpenSSL refuses all of the authority's
certificates. So a missing list is reported beforehand, with the reason. A list is valid if the authority signed it,
between its two dates.

Limits: LISTS_BYTES_MAX. Not here: the file (`stores`), and making lists (`zab.cli.servers.authority`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

__all__ = ["LIST", "LISTS_BYTES_MAX", "RevocationError", "current_lists", "lists_in"]

LIST: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----\r?\n?", re.DOTALL)
"""One list in PEM."""


LISTS_BYTES_MAX: Final = 1 << 20
"""The size of all lists in a file: some 20,000 certificates. Each handshake verifies the list's signature, and the
first one sorts the list: at this size the first takes 4 ms, later ones 2."""


class RevocationError(ValueError):
    """It cannot be determined what an authority has revoked; the text says why."""


def lists_in(pem: bytes) -> list[x509.CertificateRevocationList]:
    """The lists in a PEM file. Raises RevocationError."""
    found = LIST.findall(pem)
    if sum(map(len, found)) > LISTS_BYTES_MAX:
        raise RevocationError(f"its lists of revoked certificates have more than {LISTS_BYTES_MAX} bytes")
    try:
        return [x509.load_pem_x509_crl(each) for each in found]
    except ValueError:
        raise RevocationError("a list of revoked certificates in it cannot be read") from None


def current_lists(
    believed: Iterable[x509.Certificate], lists: Iterable[x509.CertificateRevocationList], now: datetime
) -> list[x509.CertificateRevocationList]:
    """The newest valid list of each trusted authority. `now` has a time zone. Raises RevocationError."""
    lists = list(lists)
    current = []
    for authority in believed:
        name = authority.subject.rfc4514_string()
        own = [each for each in lists if _is_signed_by(each, authority)]
        if not own:
            raise RevocationError(f"it has no list of revoked certificates signed by {name}")
        counting = [each for each in own if _counts(each, now)]
        if not counting:
            raise RevocationError(f"the list of revoked certificates of {name} is not valid now: it needs a newer one")
        current.append(max(counting, key=_age))
    return current


def _is_signed_by(found: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    if found.issuer != authority.subject:
        return False
    try:
        return found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _counts(found: x509.CertificateRevocationList, now: datetime) -> bool:
    until = found.next_update_utc
    return found.last_update_utc <= now and (until is None or now < until)


def _age(found: x509.CertificateRevocationList) -> tuple[datetime, int]:
    """Sort key: greater is newer. Dates are whole seconds, and list numbers are optional."""
    try:
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        number = 0
    return found.last_update_utc, number
