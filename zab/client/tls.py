"""TLS under a client's connection: its settings, the handshake, and what its failure means in words.

A handshake that fails says something of the server, or of this client's own settings, that another try does not change:
`fault` tells such a failure from a connection that broke. The end of a connection within the handshake is none: a port
without TLS answers so, but a server that does not serve at the moment may, too.

After the handshake of TLS 1.3 the server may still refuse: it judges the client's certificate last. So `fault` reads
what ends a connection later, too.

Limits: TLS 1.2 at least.

Not here: the stores (`zab.tls.stores`), what is done about a fault (`zab.client.runtime`).
"""

import ssl
from typing import Final

import trio

from zab.client.hosts import Host
from zab.client.link import Dial
from zab.client.settings import Tls
from zab.tls.stores import Store, StoreKeys, kind_of, read_password

__all__ = ["context_of", "fault", "tcp"]

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
        "it does not believe who vouches for the client's certificate",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that the client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it says that the client's certificate was revoked",
    **dict.fromkeys(
        ("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "TLSV1_ALERT_ACCESS_DENIED"),
        # Java says so where there is none, too.
        "it refuses the client's certificate, or wants one, which a key store has",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"),
        "it has no version of TLS in common with this client",
    ),
}


_ENDED: Final = "it closed the connection within the handshake, as a port without TLS does"


def context_of(tls: Tls) -> ssl.SSLContext:
    """Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_host
    password = "" if tls.password_file is None else read_password(tls.password_file, "the password file")
    if tls.trust_store is None:
        context.load_default_certs()
    else:
        _store("the trust store", tls.trust_store, password).load_trusted(context)
    if tls.key_store is not None:
        _store("the key store", tls.key_store, password).load_key(context)
    return context


def _store(name: str, path: str, password: str) -> Store:
    """What is not named as something else is PEM: certificates have many names."""
    return Store(StoreKeys(name, "the password file", "its name"), path, kind_of(path) or "pem", password)


def fault(error: BaseException | None) -> str | None:
    """What TLS has against the connection that ended with `error`; None where it ended for another reason."""
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
        return f"nobody whom this client believes vouches for its certificate ({message}): see the trust store"
    return f"its certificate is refused: {message}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or type(error).__name__).lower().replace("_", " ")


def tcp(context: ssl.SSLContext | None) -> Dial:
    """Dials a server over TCP, or TLS when there is a context: then the handshake is done when the stream is there."""

    async def dial(host: Host) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(host.name, host.port)
        if context is None:
            return stream
        secured = trio.SSLStream(stream, context, server_hostname=host.name, https_compatible=True)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error.__cause__, ssl.SSLError) and not isinstance(error.__cause__, ssl.SSLEOFError):
                raise
            raise ConnectionAbortedError(_ENDED) from None
        except trio.Cancelled:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    return dial
