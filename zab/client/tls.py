"""What a TLS failure of a client's connection means, in words.

A failed handshake tells something about the server, or about this client's settings, that trying again does not change:
`fault` distinguishes such a failure from a connection that broke. A connection that ends during the handshake is no
such failure: a port without TLS does that, but so may a server that does not serve at the moment.

After a TLS 1.3 handshake the server may still refuse: it verifies the client's certificate last. So `fault` is also
asked about errors that end a connection later.

Limits: TLS 1.2 at least.

Not here: the stores (`zab.tls.stores`), what is done about a fault (`zab.client.core.failures`).
"""

import ssl
from typing import Final

__all__ = ["ENDED", "fault"]

# As OpenSSL numbers them (X509_V_ERR_…).
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 24, 27})
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = frozenset({62, 63, 64})

_REASONS: Final = {
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"),
        "it does not speak TLS on this port",
    ),
    **dict.fromkeys(
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        "it wants a certificate of the client, which a key store has",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_DECRYPT_ERROR", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
        "it does not trust the authority that signed the client's certificate",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that the client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it says that the client's certificate was revoked",
    **dict.fromkeys(
        ("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "TLSV1_ALERT_ACCESS_DENIED"),
        # Java sends this even if there is no certificate.
        "it refuses the client's certificate, or wants one, which a key store has",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"),
        "it has no version of TLS in common with this client",
    ),
}


ENDED: Final = "it closed the connection within the handshake, as a port without TLS does"


def fault(error: BaseException | None) -> str | None:
    """Why TLS failed on the connection that ended with `error`; None if it ended for another reason."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__
    if error is None:
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error)
    known = _REASONS.get(error.reason or "")
    return f"{known} ({_words(error)})" if known is not None else f"the TLS connection failed: {_words(error)}"


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    code, message = error.verify_code, error.verify_message
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: compare the clocks"
    if code in _OTHER_NAME:
        return f"its certificate is for another host: {message}"
    if code in _UNKNOWN_AUTHORITY:
        return f"no authority that this client trusts signed its certificate ({message}): see the trust store"
    return f"its certificate is refused: {message}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or type(error).__name__).lower().replace("_", " ")
