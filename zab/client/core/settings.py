"""The settings of a client: its limits, each with its unit, its default and what happens at the limit; TLS; the
login."""

from attrs import field, frozen, validators

__all__ = ["SaslLogin", "Settings", "Tls", "encoded"]

_positive = validators.gt(0)


@frozen(kw_only=True)
class Settings:
    """Read once when the client is made.

    session_timeout_ms: how long the session survives without its client. The server may clamp it.
    connect_wait_ms: how long `connect` waits for the first server that takes the session; then NotConnectedError.
        It is enough even if a minority of the servers never answers. None: the session timeout.
    request_wait_ms: how long a request waits for a server; then NotConnectedError, never sent.
        None: the session timeout.
    close_wait_ms: how long leaving the block waits for the server to close the session; then its ephemerals go when
        the session expires.
    in_flight_count_max: requests sent and not answered; further ones wait. A server reads at most 1,000 ahead.
    waiting_count_max: requests that wait for a server or for room in flight; then ThrottledError, never sent.
    unsent_bytes_max: bytes that wait for the socket; further requests wait.
    request_bytes_max: size of one request; then BadArgumentsError, never sent. The default is ZooKeeper's
        jute.maxbuffer, above which a server closes the connection.
    reply_bytes_max: size of one reply; above it the connection is closed as broken. Children's lists may be larger
        than any request.
    event_count_max: events that wait in one watcher; then the watcher ends with WatchOverflowError.
    changes_bytes_max: size of the page of changes that a `changes()` iterator requests and keeps; the server may have a
        smaller limit. A change is never cut.
    changes_wait_ms: how long a server may delay its answer while nothing changes.
    state_count_max: state changes that wait in one `states()` iterator; then the oldest are dropped.
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
    """The trusted authorities, and the client's own certificate. Stores are PEM files, PKCS#12
    (`.p12`, `.pfx`) or Java key stores (`.jks`).

    trust_store: the certificates of authorities; None: those that this machine trusts.
    key_store: key and certificates, for servers that require a certificate of the client.
    password_file: its first line is the password of the encrypted stores.
    check_host: a server's certificate has to name the host that was dialled. Without it, anyone with a certificate of
        the authority can pose as any server.
    """

    trust_store: str | None = None
    key_store: str | None = None
    password_file: str | None = None
    check_host: bool = True


@frozen
class SaslLogin:
    """User and password for SASL DIGEST-MD5. An eavesdropper does not see the password, but can try passwords against
    what it recorded: use TLS as well.
    """

    user: str = field(validator=validators.min_len(1))
    password: str = field(repr=False, validator=validators.min_len(1))


def encoded(credentials: str | bytes) -> bytes:
    """The credentials of an identity, as they are sent."""
    return credentials.encode() if isinstance(credentials, str) else credentials
