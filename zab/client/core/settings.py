"""What a client is told when it is made: its limits, each with its unit, its default and what happens at the limit, and
who logs in."""

from attrs import field, frozen, validators

__all__ = ["SaslLogin", "Settings", "Tls", "encoded"]

_positive = validators.gt(0)


@frozen(kw_only=True)
class Settings:
    """Read once when the client is made.

    session_timeout_ms: how long the session survives without its client. The server may clamp it.
    connect_wait_ms: how long `connect` waits for the first server that takes the session; then NotConnectedError.
        Of several, a minority may keep it waiting and never answer. None: the session timeout.
    request_wait_ms: how long a request waits for a server while there is none; then NotConnectedError, never sent.
        None: the session timeout.
    close_wait_ms: how long leaving the block waits for the server to close the session; then its ephemerals go when
        the session expires.
    in_flight_count_max: requests sent and not answered; further ones wait. A server reads no more than 1,000 ahead.
    waiting_count_max: requests that wait for a server or for room in flight; then ThrottledError, never sent.
    unsent_bytes_max: bytes that wait for the socket; further requests wait.
    request_bytes_max: size of one request; then BadArgumentsError, never sent. The default is ZooKeeper's
        jute.maxbuffer, above which a server closes the connection.
    reply_bytes_max: size of one reply; above it the connection is closed as broken. Children's lists may be larger
        than any request.
    event_count_max: events that wait in one watcher; then the watcher ends with WatchOverflowError.
    changes_bytes_max: the page of changes that a `changes()` iterator holds, and asks for when it has given it out; the
        server may have a smaller limit. One change is never cut.
    changes_wait_ms: how long a server may wait with an answer while nothing changes, before it is asked again.
    state_count_max: state changes that wait in one `states()` iterator; then the oldest are left out.
    """

    session_timeout_ms: int = field(default=10_000, validator=_positive)
    connect_wait_ms: int | None = field(default=None, validator=validators.optional(_positive))
    request_wait_ms: int | None = field(default=None, validator=validators.optional(_positive))
    close_wait_ms: int = field(default=2_000, validator=_positive)
    in_flight_count_max: int = field(default=1_000, validator=_positive)
    waiting_count_max: int = field(default=10_000, validator=_positive)
    unsent_bytes_max: int = field(default=4 * 1024 * 1024, validator=_positive)
    request_bytes_max: int = field(default=0xFFFFF, validator=_positive)
    reply_bytes_max: int = field(default=64 * 1024 * 1024, validator=_positive)
    event_count_max: int = field(default=10_000, validator=_positive)
    changes_bytes_max: int = field(default=256 * 1024, validator=_positive)
    changes_wait_ms: int = field(default=10_000, validator=_positive)
    state_count_max: int = field(default=64, validator=_positive)


@frozen(kw_only=True)
class Tls:
    """Who vouches for servers, and the client's own certificate. Stores are PEM files, PKCS#12
    (`.p12`, `.pfx`) or Java key stores (`.jks`).

    trust_store: the certificates of authorities; None: those that this machine believes.
    key_store: key and certificates, for servers that want to know who the client is.
    password_file: one line, which opens the stores that are encrypted.
    check_host: a server's certificate has to name the host that was dialled. Without it, whoever has any certificate of
        the authority passes for any server.
    """

    trust_store: str | None = None
    key_store: str | None = None
    password_file: str | None = None
    check_host: bool = True


@frozen
class SaslLogin:
    """Who logs in by SASL DIGEST-MD5. It hides the password from who listens, but not from who tries many on what he
    heard: use it with TLS.
    """

    user: str = field(validator=validators.min_len(1))
    password: str = field(repr=False, validator=validators.min_len(1))


def encoded(credentials: str | bytes) -> bytes:
    """Credentials of an identity, as they are sent."""
    return credentials.encode() if isinstance(credentials, str) else credentials
