"""What trio, asyncio and threads have in common: the options of `connect`, and the runtime made from them."""

import secrets
import ssl
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any, TypedDict

from attrs import evolve

from zab.client.core.backends import Backend
from zab.client.core.hosts import HostOrder, parse_hosts
from zab.client.core.login import DigestLogin
from zab.client.core.misuse import identities, unknown_option
from zab.client.core.observer import Observer
from zab.client.core.runtime import Runtime
from zab.client.core.session import Session
from zab.client.core.settings import SaslLogin, Settings, Tls, encoded
from zab.client.tls import fault

__all__ = ["Options", "addresses_in", "connect_wait_ms", "context_of", "new_runtime"]


class Options(TypedDict, total=False):
    """Every `connect` takes `hosts`, "host:port,host:port/chroot", and these.

    session_timeout_ms: shorthand for that field of `settings`.
    auth: (scheme, credentials) shown to every server, such as ("digest", "user:password").
    tls: the trusted authorities and the client's certificate; None: no encryption.
    sasl: the user to log in as, on every connection and before any request.
    read_only: accept a server without a quorum while there is no other; writes raise NotReadOnlyError there.
    resume: `session_id` and `session_password` of a session that another client left open.
    random: decides the order of the servers and the pauses.
    observer: is told of states, lost servers and requests.

    Raised: ValueError for malformed hosts and stores that cannot be used, NotConnectedError when no server took the
    session in `connect_wait_ms`, TlsError when TLS failed with all of them, LoginRefusedError when the login failed,
    SessionExpiredError when `resume` names a session that is over.
    """

    session_timeout_ms: int | None
    auth: Iterable[tuple[str, str | bytes]]
    read_only: bool
    resume: tuple[int, bytes] | None
    settings: Settings | None
    tls: Tls | ssl.SSLContext | None
    sasl: SaslLogin | None
    random: Random | None
    observer: Observer | None


def context_of(options: Options) -> ssl.SSLContext | None:
    """Raises StoreError."""
    tls = options.get("tls")
    if not isinstance(tls, Tls):
        return tls
    # Key stores need a library that takes 60 ms to load.
    from zab.client import tls_context

    return tls_context.context_of(tls)


def new_runtime(backend: Backend, hosts: str, options: Options) -> Runtime:
    """A runtime that no backend drives yet."""
    for name in options:
        if name not in Options.__annotations__:
            raise unknown_option(name, Options.__annotations__)
    settings = options.get("settings") or Settings()
    session_timeout_ms = options.get("session_timeout_ms")
    if session_timeout_ms is not None:
        settings = evolve(settings, session_timeout_ms=session_timeout_ms)
    servers, chroot = parse_hosts(hosts)
    random = options.get("random") or Random()
    sasl = options.get("sasl")
    session = Session(
        session_timeout_ms=settings.session_timeout_ms,
        read_only=options.get("read_only", False),
        identities=[(scheme, encoded(credentials)) for scheme, credentials in identities(options.get("auth", ()))],
        chroot=chroot.encode(),
        resume=options.get("resume"),
        login=None if sasl is None else partial(DigestLogin, sasl, _nonce),
    )
    return Runtime(session, HostOrder(servers, random), settings, random, backend, fault, options.get("observer"))


def addresses_in(found: Iterable[tuple[Any, Any, Any, Any, tuple[Any, ...]]]) -> list[str]:
    """The addresses returned by `getaddrinfo`, which raises if there are none."""
    return [str(place[0]) for _, _, _, _, place in found]


def connect_wait_ms(runtime: Runtime) -> int:
    return runtime.settings.connect_wait_ms or runtime.settings.session_timeout_ms


def _nonce() -> bytes:
    return secrets.token_hex(16).encode()
