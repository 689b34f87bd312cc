"""The hosts for which a certificate is valid: the names and addresses in its subjectAltName, and nothing else in it.

`*.example.org` matches every name with exactly one label in place of the star. An address only matches itself.

Not here: who signed it, and whether it has expired: TLS has checked that already.
"""

from __future__ import annotations

from ipaddress import ip_address

from cryptography import x509

from zab.tls.certificate_errors import CERTIFICATE_ERRORS


def is_for_host(certificate: bytes, host: str) -> bool:
    """Whether a certificate (DER) is valid for `host`, a name or an address."""
    try:
        names = x509.load_der_x509_certificate(certificate).extensions
        found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    except CERTIFICATE_ERRORS:
        return False
    try:
        return ip_address(host) in found.get_values_for_type(x509.IPAddress)
    except ValueError:
        wanted = _labels(host)
    return any(_is_same(_labels(name), wanted) for name in found.get_values_for_type(x509.DNSName))


def _labels(name: str) -> list[str]:
    return name.lower().removesuffix(".").split(".")


def _is_same(labels: list[str], wanted: list[str]) -> bool:
    if labels[0] == "*":
        return len(wanted) > 2 and labels[1:] == wanted[1:]
    return labels == wanted
