"""The subject of a certificate: whom it names, in the form that ACLs of the scheme x509 use.

That is the text of Java's `X500Principal.getName()` (RFC 2253): the last part first, parts separated by commas; a type
that is not in `KEYWORDS` is written as its number, and its value as hexadecimal bytes.

Limit: `SUBJECT_BYTES_MAX`.

Not here: whether to trust the certificate: TLS has decided that before.
"""

from __future__ import annotations

from typing import Any, Final

from cryptography import x509

from zab.tls.certificate_errors import CERTIFICATE_ERRORS

__all__ = ["SUBJECT_BYTES_MAX", "SubjectError", "subject_of"]

SUBJECT_BYTES_MAX: Final = 4096

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


class SubjectError(ValueError):
    """It cannot be determined whom the certificate names; the text says why."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER; empty if it only has alternative names. Raises SubjectError."""
    try:
        name = x509.load_der_x509_certificate(certificate).subject
        text = ",".join("+".join(map(_part, each)) for each in reversed(name.rdns))
    except CERTIFICATE_ERRORS:
        raise SubjectError("its certificate has a subject that cannot be read") from None
    if len(text.encode()) > SUBJECT_BYTES_MAX:
        raise SubjectError(f"its certificate has a subject of more than {SUBJECT_BYTES_MAX} bytes")
    return text


def _part(part: x509.NameAttribute[Any]) -> str:
    keyword = KEYWORDS.get(part.oid.dotted_string)
    if keyword is not None and isinstance(part.value, str):
        return f"{keyword}={_escaped(part.value)}"
    return f"{keyword or part.oid.dotted_string}=#{_value(part).hex()}"


def _escaped(value: str) -> str:
    begin = len(value) - len(value.lstrip(_BLANK))
    end = len(value.rstrip(_BLANK))
    pieces = []
    for at, char in enumerate(value):
        if char == "\0":
            pieces.append("\\00")
        elif char in _ESCAPED or not begin <= at < end:
            pieces.append(f"\\{char}")
        else:
            pieces.append(char)
    return "".join(pieces)


def _value(part: x509.NameAttribute[Any]) -> bytes:
    """The value in DER, with tag and length: it follows the number, inside three nested elements."""
    der = x509.Name([part]).public_bytes()
    for _ in range(3):
        der = der[_header_bytes(der) :]
    return der[_header_bytes(der) + der[1] :]


def _header_bytes(der: bytes) -> int:
    """The length of tag and length."""
    return 2 if der[1] < 0x80 else 2 + (der[1] & 0x7F)
