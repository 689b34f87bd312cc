"""TLS, on one side of one connection: bytes in, bytes out, and no socket.

    feed(data, limit)   bytes of the other side: (what they say in clear, at most `limit`; what is to be sent)
    seal(piece, …)      what is to be sent in place of the pieces, each of which begins a record
    finish()            the same for the end: nothing follows

Until `is_ready` only the handshake goes on, and one call takes one step of it: that is at most one use of the private
key, and one check of the other side's certificate. Whatever is wrong, and a handshake that fails, is a `TlsError`; what
its `farewell` holds tells the other side, and is sent before the connection is closed. The side that dialled begins: it
is fed nothing first.

`has_more`: a call left something behind, at its limit. No socket will announce that: call again, with no data.

Records that bring no data, as KeyUpdates, cost far more than their bytes. So TLS is given one record after the other,
and a side that sends more than `RECORDS_MAX` of them beside its data is over.

Limits: what waits inside is one record that is not whole, and what was fed and not taken yet.

Not here: sockets, deadlines (`handshakes`), whom to believe: the context has the certificates.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Final

from zab.tls.subjects import SubjectError, subject_of

RECORD_BYTES_MAX: Final = 16 << 10
RECORDS_MAX: Final = 32
"""Without data. A KeyUpdate, of 27 bytes, costs some 50 µs."""
DATA_PER_RECORD: Final = 8
"""So many pieces of data make up for one record without any: an honest side has very few of these."""
_HEAD_BYTES: Final = 5
"""Of a record: its type, its version, and the length of the rest."""
_LENGTH_AT: Final = 3
_SEALED_BYTES_MAX: Final = _HEAD_BYTES + RECORD_BYTES_MAX + 2048
FIRST_BYTE: Final = b"\x16"
"""Of a TLS connection: its first record is of a handshake. A client without TLS begins with 0, as the length of its
first frame does, or with the letter of a word."""
NO_TLS: Final = b"\x15\x03\x01\x00\x02\x02\x46"
"""A record of type alert, fatal, protocol_version: by it whoever does not speak TLS learns that this port does."""

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
        "it does not believe this server's certificate",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this server's certificate has expired",
}


class TlsError(ConnectionError):
    """The connection is over; the text says what was wrong with it."""

    def __init__(self, reason: str, farewell: bytes = b"") -> None:
        super().__init__(reason)
        self.farewell = farewell
        """What tells the other side, if anything does."""


class TlsSide:
    """One connection. After a `TlsError` nothing more is done with it."""

    __slots__ = (
        *("_at", "_has_begun", "_idle", "_incoming", "_outgoing", "_tls", "_waiting"),
        *("has_more", "is_closed", "is_ready", "subject"),
    )

    def __init__(self, context: ssl.SSLContext, *, has_dialled: bool = False) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not has_dialled)
        self._has_begun = has_dialled
        self._waiting = b""
        self._at = 0
        """What came after the handshake, and from where on TLS does not have it yet."""
        self._idle = 0
        """Records without data, less what data has made up for; in units of `DATA_PER_RECORD`."""
        self.is_ready = False
        """The handshake is done: the other side is whom its certificate names, and bytes may go both ways."""
        self.is_closed = False
        """The other side has said that nothing follows."""
        self.has_more = False
        self.subject = ""
        """Whom the client's certificate names; empty: it showed none, or one without a subject."""

    @property
    def peer_certificate(self) -> bytes | None:
        """In DER; None: it showed none."""
        return self._tls.getpeercert(binary_form=True) if self.is_ready else None

    def feed(self, data: bytes, limit_bytes: int) -> tuple[bytes, bytes]:
        """The other side's bytes in clear, and what is to be sent. Raises TlsError."""
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
            raise TlsError(sentence_of(error), self._outgoing.read()) from None

    def _go_on(self) -> bytes:
        """One step of the handshake: what it sends."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.subject = self._verified_subject()
            self.is_ready = True
            # With its last message a client may send its first request.
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
        """Where the next record ends; 0: it is not all there. TLS finds out what is none."""
        waiting, at = self._waiting, self._at
        if len(waiting) < at + _HEAD_BYTES:
            return 0
        end = at + _HEAD_BYTES + int.from_bytes(waiting[at + _LENGTH_AT : at + _HEAD_BYTES], "big")
        return end if end <= len(waiting) or end - at > _SEALED_BYTES_MAX else 0

    def _give_record(self) -> bool:
        """Whether there was one."""
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
        """What is to be sent in place of the pieces. Raises TlsError."""
        assert self.is_ready
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[self._tls.write(view) :]
        except ssl.SSLError as error:
            raise TlsError(sentence_of(error), self._outgoing.read()) from None
        return self._outgoing.read()

    def finish(self) -> bytes:
        """What tells the other side that nothing follows; it may say more, which nobody can read any more."""
        # The other side has not said so itself, or breaks the rules while it is told.
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
