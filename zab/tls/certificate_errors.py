"""What the library raises when somebody reads a certificate, a list or a store in which something is odd.

Whoever has it signed, or may write the file, chooses what is in it. The library has an error of its own for many of the
oddities, and those of Python for others, in places where nobody awaits them: so whoever reads takes all of them.
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
