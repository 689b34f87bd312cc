"""What the library raises when a certificate, a revocation list or a store is malformed.

Whoever has the certificate signed, or can write the file, controls its contents. The library raises its own errors for
many malformations, and Python's for others, in places where nobody expects them: so readers catch all of these.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm

__all__ = ["CERTIFICATE_ERRORS"]

CERTIFICATE_ERRORS: Final[tuple[type[Exception], ...]] = (
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.ExtensionNotFound, x509.AttributeNotFound),
    *(x509.UnsupportedGeneralNameType, UnsupportedAlgorithm, InternalError),
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, NotImplementedError),
)
