"""For which hosts a certificate is good: the names and addresses in it (subjectAltName), and nothing else in it.

`*.example.org` is every name with one label in the place of the star. An address is good for itself alone.

Not here: who signed it, and until when: TLS has seen to that before.
"""

from __future__ import annotations

from ipaddress import ip_address

from cryptography import x509

from zab.tls.certificate_errors import CERTIFICATE_ERRORS


def is_for_host(certificate: bytes, host: str) -> bool:
    """`certificate` in DER; `host`: a name or an address."""
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
