"""Session ids, passwords and timeouts: what server and client agree on when a session begins.

An id is 64 bits, signed as jute has it:

    bits 63-56  the low byte of the server's id
    bits 55-16  wall-clock ms at the start of the server, low 40 bits
    bits 15-0   a counter from 0; it carries into the time

The time is wall-clock time, so that a reboot does not repeat ids (a monotonic clock starts over). If an id exists
nevertheless, the leader refuses it and the server takes the next one.

Top bytes 80 and ff are never used: a stored owner with these marks a container or a TTL znode. Servers whose own id
ends in one of these use 00, which no other server has. If an ensemble has two such servers, they may generate the same
session id; the leader refuses the later one, as above.

The password is BLAKE2b-128 of the id (8 bytes, big-endian) under a key that all members share. So every member can
verify it without storing anything, and a password from another ensemble does not match. The passwords of local
sessions, which only one member knows, use a key derived from that one: every member can tell that such a session was
never a global one.

Not here: the clock, the keys (`zab.protocol.session_keys`), and whether a session is alive (`session.tracker`).
"""

from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, NewType

__all__ = [
    "NO_SESSION",
    "PASSWORD_BYTES",
    "SessionId",
    "SessionIds",
    "is_of_server",
    "local_key",
    "negotiate",
    "password",
    "valid_password",
]

SessionId = NewType("SessionId", int)
"""The id of a session, for the type checker. Transactions (`datatree`) and messages carry it as an `int`.

An `int` is converted when a session begins, moves or ends, but not for each write or read.
"""

NO_SESSION: Final = SessionId(0)
"""In a handshake it asks for a new session; in a transaction it stands for the ensemble itself."""

PASSWORD_BYTES: Final = 16

_KEY_BYTES: Final = 32
_LOW_MASK: Final = (1 << 56) - 1
_TIME_MASK: Final = (1 << 40) - 1
# The top bytes of a stored owner that mark a container and a TTL znode.
_TAKEN_TOPS: Final = frozenset({0x80, 0xFF})


class SessionIds:
    """The ids that one server assigns, one after the other. `wall_ms` is when the server started (ms since 1970)."""

    def __init__(self, server_id: int, wall_ms: int) -> None:
        assert server_id >= 0
        assert wall_ms >= 0
        self._top = _top_of(server_id)
        self._low = (wall_ms & _TIME_MASK) << 16

    def next(self) -> SessionId:
        """An id that this server has not assigned before; never 0, which asks for a new session."""
        low = self._low
        self._low = (low + 1) & _LOW_MASK
        unsigned = self._top << 56 | low
        if unsigned == 0:
            return self.next()
        return SessionId(unsigned - (1 << 64) if self._top & 0x80 else unsigned)


def is_of_server(session: SessionId, server_id: int) -> bool:
    """Whether a server with this id assigns such session ids."""
    return session >> 56 & 0xFF == _top_of(server_id)


def _top_of(server_id: int) -> int:
    top = server_id & 0xFF
    return 0 if top in _TAKEN_TOPS else top


def local_key(key: bytes) -> bytes:
    """The key for the passwords of local sessions, derived from the shared one."""
    return blake2b(b"local sessions", digest_size=_KEY_BYTES, key=key).digest()


def password(key: bytes, session: SessionId) -> bytes:
    """The 16 bytes that prove that the client was given this session. The key is 32 bytes."""
    assert len(key) == _KEY_BYTES
    return blake2b(session.to_bytes(8, "big", signed=True), digest_size=PASSWORD_BYTES, key=key).digest()


def valid_password(keys: Sequence[bytes], session: SessionId, offered: bytes) -> bool:
    """Whether the client may attach to the session: its password was made with one of the keys. No password is valid
    for session 0."""
    fits = [compare_digest(password(key, session), offered) for key in keys]
    return session != NO_SESSION and any(fits)


def negotiate(timeout_ms: int, least_ms: int, most_ms: int) -> int:
    """The session timeout that the client gets when it asks for `timeout_ms`, which may be any number."""
    assert 0 < least_ms <= most_ms
    return min(max(timeout_ms, least_ms), most_ms)
