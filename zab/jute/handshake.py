"""The handshake: the first payload of a client, and the server's answer to it.

Format, in jute's types:

    ConnectRequest     protocol int (0, ignored), last zxid seen long, session timeout int (ms), session id long,
                       password buffer, [read-only bool]
    ConnectResponse    protocol int (0), negotiated timeout int (ms), session id long, password buffer (16 bytes),
                       [read-only bool]

ZooKeeper 3.4 added the read-only byte. If a request lacks it, the server assumes false and leaves it out of the answer,
because such a client does not expect it. A session id of 0 asks for a new session. A timeout of 0 in the answer means
that the session is not (or no longer) valid; id and password are zero then.

Invariants: a request may end before or after the read-only byte; bytes after it are ignored, and a request that is too
short raises `JuteError`. A null password reads as an empty one, which no session has.

Not here: what to accept when (`zab.server`), ids and passwords (`session.identity`).
"""

from struct import Struct
from typing import Final

from attrs import define

from datatree.jute import JuteError, Reader, Writer

__all__ = ["PASSWORD_BYTES", "ConnectRequest", "ConnectResponse"]

PASSWORD_BYTES: Final = 16
NO_PASSWORD: Final = bytes(PASSWORD_BYTES)

_REQUEST = Struct(">iqiq")
"""A request up to its password."""
_RESPONSE = Struct(">iiqi16s")
"""An answer up to the read-only byte."""


@define
class ConnectRequest:
    """`has_read_only` says whether the request has the read-only byte."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool = False
    has_read_only: bool = True
    protocol: int = 0

    def encode(self) -> bytes:
        """The payload, without the frame's length."""
        writer = Writer().int(self.protocol).long(self.last_zxid).int(self.timeout_ms).long(self.session_id)
        writer.buffer(self.password)
        if self.has_read_only:
            writer.bool(self.read_only)
        return writer.getvalue()

    @classmethod
    def decode(cls, payload: bytes) -> "ConnectRequest":
        """Raises JuteError."""
        if len(payload) < _REQUEST.size:
            raise JuteError(f"{len(payload)} bytes are no handshake")
        protocol, last_zxid, timeout_ms, session_id = _REQUEST.unpack_from(payload)
        reader = Reader(payload, _REQUEST.size)
        password = reader.buffer() or b""
        has_read_only = reader.remaining > 0
        read_only = reader.bool() if has_read_only else False
        return cls(last_zxid, timeout_ms, session_id, password, read_only, has_read_only, protocol)


@define
class ConnectResponse:
    """`timeout_ms` is 0 when the session is not valid."""

    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool = False
    has_read_only: bool = True
    protocol: int = 0

    @classmethod
    def invalid(cls, *, read_only: bool = False, has_read_only: bool = True) -> "ConnectResponse":
        """The answer if the session does not exist, is over, or has a different password."""
        return cls(0, 0, NO_PASSWORD, read_only, has_read_only)

    def encode(self) -> bytes:
        """The payload, without the frame's length."""
        assert len(self.password) == PASSWORD_BYTES
        start = _RESPONSE.pack(self.protocol, self.timeout_ms, self.session_id, PASSWORD_BYTES, self.password)
        return start + bytes((self.read_only,)) if self.has_read_only else start

    @classmethod
    def decode(cls, payload: bytes) -> "ConnectResponse":
        """Raises JuteError."""
        reader = Reader(payload)
        protocol, timeout_ms, session_id, password = reader.int(), reader.int(), reader.long(), reader.buffer()
        if password is None:
            raise JuteError("null password in the answer to the handshake")
        has_read_only = reader.remaining > 0
        read_only = reader.bool() if has_read_only else False
        return cls(timeout_ms, session_id, password, read_only, has_read_only, protocol)
