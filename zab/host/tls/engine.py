"""One side of a TLS connection: bytes in, bytes out, without a socket.

    feed(data, limit)   takes bytes of the peer; returns the plain bytes, at most `limit`, and the bytes to be sent
    seal(piece, …)      the bytes to send for the pieces, each of which begins a record
    finish()            the bytes to send at the end

Until `is_ready`, each call takes one step of the handshake: at most one use of the private key, and one check of the
peer's certificate. Any error, including a failed handshake, is a `TlsError`; its `farewell` tells the peer, and is to
be sent before the connection is closed. The side that dialled begins, with an empty feed.

`has_more`: a call stopped at its limit. No socket will announce the rest: call again, with no data.

Records without data, such as KeyUpdates, cost far more than their bytes. So TLS gets one record at a time, and a peer
that sends more than `RECORDS_MAX` of them besides its data is disconnected.

Limits: it keeps one incomplete record, and bytes that were fed and not handled yet.

Not here: sockets, deadlines (`handshakes`), trust: the context has the certificates.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Final

from zab.tls.subjects import SubjectError, subject_of

RECORD_BYTES_MAX: Final = 16 << 10
RECORDS_MAX: Final = 32
"""The limit for records without data. A KeyUpdate, of 27 bytes, costs some 50 µs."""
DATA_PER_RECORD: Final = 8
"""How many records with data offset one without: an honest peer has very few of the latter."""
_HEAD_BYTES: Final = 5
"""The head of a record: its type, its version, and the length of the rest."""
_LENGTH_AT: Final = 3
_SEALED_BYTES_MAX: Final = _HEAD_BYTES + RECORD_BYTES_MAX + 2048
FIRST_BYTE: Final = b"\x16"
"""The first byte of a TLS connection, whose first record is a handshake. A client without TLS begins with 0, the first
byte of a frame length, or with a letter of a four-letter word."""
NO_TLS: Final = b"\x15\x03\x01\x00\x02\x02\x46"
"""A fatal alert, protocol_version: it tells a client without TLS that this port speaks TLS."""

_REASONS: Final = {
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "RECORD_TOO_SMALL"),
        "it does not speak TLS",
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    **dict.fromkeys(
        ("UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "NO_PROTOCOLS_AVAILABLE"),
        "it has no version of TLS in common with this server",
    ),
    "NO_SHARED_CIPHER": "it has no cipher in common with this server",
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_BAD_CERTIFICATE"),
        "it does not trust this server's certificate",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this server's certificate has expired",
}


class TlsError(ConnectionError):
    """The connection is over; the text says what was wrong."""

    def __init__(self, reason: str, farewell: bytes = b"") -> None:
        super().__init__(reason)
        self.farewell = farewell
        """The bytes that tell the peer; may be empty."""


class TlsSide:
    """One side of a connection. It must not be used after a `TlsError`."""

    __slots__ = (
        *("_at", "_has_begun", "_idle", "_incoming", "_outgoing", "_tls", "_waiting"),
        *("has_more", "is_closed", "is_ready", "subject"),
    )

    def __init__(self, context: ssl.SSLContext, *, has_dialled: bool = False, host: str | None = None) -> None:
        """`host`: the one that was dialled, for contexts that check it."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not has_dialled, server_hostname=host)
        self._has_begun = has_dialled
        self._waiting = b""
        self._at = 0
        """Bytes received after the handshake, and the offset up to which TLS has them."""
        self._idle = 0
        """Records without data, less those offset by data; in units of `DATA_PER_RECORD`."""
        self.is_ready = False
        """Whether the handshake is done: the peer has proven its certificate, and data may flow both ways."""
        self.is_closed = False
        """Whether the peer has said that nothing follows."""
        self.has_more = False
        self.subject = ""
        """The subject of the client's certificate; empty: it showed none, or one without a subject."""

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER; None: it showed none."""
        return self._tls.getpeercert(binary_form=True) if self.is_ready else None

    def feed(self, data: bytes, limit_bytes: int) -> tuple[bytes, bytes]:
        """Take bytes of the peer; returns the plain bytes, and the bytes to be sent. Raises TlsError."""
        if data and not self._has_begun:
            self._has_begun = True
            if data[:1] != FIRST_BYTE:
                raise TlsError("it does not speak TLS", NO_TLS)
        try:
            if not self.is_ready:
                self._incoming.write(data)
                return b"", self._go_on()
            self._waiting, self._at = self._waiting[self._at :] + data, 0
            return b"".join(self._read(limit_bytes)), self._outgoing.read()
        except ssl.SSLError as error:
            raise TlsError(sentence_of(error), self._outgoing.read()) from error

    def _go_on(self) -> bytes:
        """Take one step of the handshake; returns the bytes to be sent."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.subject = self._verified_subject()
            self.is_ready = True
            # A client may send its first request with its last handshake message.
            self._waiting = self._incoming.read()
            self.has_more = self._next_record() > 0
        return self._outgoing.read()

    def _verified_subject(self) -> str:
        """Raises TlsError."""
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None or self._tls.context.verify_mode == ssl.CERT_NONE:
            return ""
        try:
            return subject_of(certificate)
        except SubjectError as error:
            raise TlsError(str(error), self._outgoing.read()) from None

    def _read(self, limit_bytes: int) -> Iterator[bytes]:
        self.has_more = False
        tls = self._tls
        while limit_bytes > 0 and (tls.pending() or self._give_record()):
            try:
                piece = tls.read(min(limit_bytes, RECORD_BYTES_MAX))
            except ssl.SSLWantReadError:
                self._count_idle()
                continue
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.is_closed = True
                return
            limit_bytes -= len(piece)
            if self._idle:
                self._idle -= 1
            yield piece
        self.has_more = bool(tls.pending() or self._next_record())

    def _next_record(self) -> int:
        """The end of the next record; 0: it is incomplete. TLS itself detects invalid records."""
        waiting, at = self._waiting, self._at
        if len(waiting) < at + _HEAD_BYTES:
            return 0
        end = at + _HEAD_BYTES + int.from_bytes(waiting[at + _LENGTH_AT : at + _HEAD_BYTES], "big")
        return end if end <= len(waiting) or end - at > _SEALED_BYTES_MAX else 0

    def _give_record(self) -> bool:
        """Hand TLS the next record. False: there was none."""
        end = self._next_record()
        if end:
            self._incoming.write(self._waiting[self._at : end])
            self._at = min(end, len(self._waiting))
        return end > 0

    def _count_idle(self) -> None:
        """Raises TlsError."""
        self._idle += DATA_PER_RECORD
        if self._idle > RECORDS_MAX * DATA_PER_RECORD:
            raise TlsError("it sends records of TLS without data", self._outgoing.read())

    def seal(self, *pieces: bytes | memoryview) -> bytes:
        """The bytes to send for the pieces. Raises TlsError."""
        assert self.is_ready
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[self._tls.write(view) :]
        except ssl.SSLError as error:
            raise TlsError(sentence_of(error), self._outgoing.read()) from error
        return self._outgoing.read()

    def finish(self) -> bytes:
        """The bytes that tell the peer that nothing follows. Bytes that it still sends can no longer be read."""
        # The peer has not closed yet, or violates the protocol meanwhile.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        return self._outgoing.read()


def sentence_of(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = error.reason or type(error).__name__
    words = reason.lower().replace("_", " ")
    known = _REASONS.get(reason)
    return f"{known} ({words})" if known is not None else f"TLS failed: {words}"
