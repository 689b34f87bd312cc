"""Lists of revoked certificates (RFC 5280), as they stand in a trust store in PEM beside who has signed them.

    lists_in(pem)                        the lists in a file
    current_lists(believed, lists, now)  of each authority that is believed, the newest list that counts

Whoever looks at lists has one of every authority that he believes: without it, OpenSSL refuses all of its certificates.
So what lacks is said before, with a reason. A list counts if the authority signed it, from its begin to its end.

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
"""One in PEM."""


LISTS_BYTES_MAX: Final = 1 << 20
"""Of all lists in a file: some 20,000 certificates. Each handshake goes through the list's signature, and the first one
sorts it: at that size that step takes 4 ms, and later ones 2."""


class RevocationError(ValueError):
    """Nobody could look at what an authority has revoked; the text says why."""


def lists_in(pem: bytes) -> list[x509.CertificateRevocationList]:
    """Raises RevocationError."""
    found = LIST.findall(pem)
    if sum(map(len, found)) > LISTS_BYTES_MAX:
        raise RevocationError(f"its lists of revoked certificates have more than {LISTS_BYTES_MAX} bytes")
    try:
        return [x509.load_pem_x509_crl(each) for each in found]
    except ValueError:
        raise RevocationError("what stands in it as a list of revoked certificates is none") from None


def current_lists(
    believed: Iterable[x509.Certificate], lists: Iterable[x509.CertificateRevocationList], now: datetime
) -> list[x509.CertificateRevocationList]:
    """One for each. `now` has a time zone. Raises RevocationError."""
    lists = list(lists)
    current = []
    for authority in believed:
        name = authority.subject.rfc4514_string()
        own = [each for each in lists if _is_signed_by(each, authority)]
        if not own:
            raise RevocationError(f"there is no list of revoked certificates in it that {name} has signed")
        counting = [each for each in own if _counts(each, now)]
        if not counting:
            raise RevocationError(f"the list of revoked certificates of {name} does not count now: another one is due")
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
    """Greater is newer: times are whole seconds, and numbers need not be there."""
    try:
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        number = 0
    return found.last_update_utc, number
