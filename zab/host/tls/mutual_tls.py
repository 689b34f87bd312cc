"""TLS between the servers of a service: this server's certificate, the trusted authorities, and the servers for which a
peer's certificate is valid.

Both ends of every connection show a certificate, and each trusts only the authorities in its own trust store. A
certificate is valid for the servers whose lines have its hosts (`certificate_names`).

New stores are tried before they are used: this member does a handshake with itself. So a certificate that others would
refuse, since it has expired, is for another host, or has no trusted issuer, stops the start; and changed stores that
are unusable do not replace the old ones.

Limits, as for clients (`zab.tls.contexts`): only full handshakes, one group, so that no step takes long.

Not here: handshakes on sockets (`zab.host.loop`), when files are checked (`zab.host.files.watched_file`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Iterable
from functools import partial
from hashlib import blake2b
from typing import Final

import attrs
import trio

from zab.host.tls.engine import TlsError, TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_stores import PortTls
from zab.host.tls.tls_stream import TlsStream, accepted_tls, dialled_tls
from zab.tls.certificate_names import is_for_host
from zab.tls.stores import StoreError

_NAME_BYTES: Final = 8
"""As long as the name of a secret."""


@attrs.frozen
class Contexts:
    """The contexts for both ends of links."""

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext
    trusted: frozenset[bytes]
    """The trusted authorities, and their revocation lists, in DER."""


class MutualTls:
    """The TLS of one server with the others."""

    def __init__(
        self,
        settings: PortTls,
        own_hosts: Iterable[str],
        certified: Callable[[Callable[[str], bool]], Collection[int]],
        *,
        dials: bool,
        takes_plain: bool,
    ) -> None:
        """`certified` returns the servers for which a certificate is valid, given a check of its hosts. `dials`:
        connections to others also use TLS. `takes_plain`: inbound connections may be without. Raises StoreError."""
        self._settings = settings
        self._own_hosts = tuple(own_hosts)
        self._certified = certified
        self.dials = dials
        self.takes_plain = takes_plain
        self.watched = settings.stores.watched(self._read)
        self.policy = TlsPolicy(self.watched.content.accepting, self.takes_plain)
        self._steps = trio.Lock()

    def take_new(self) -> None:
        """Use the stores that were read again for new handshakes."""
        self.policy.context = self.watched.content.accepting

    @property
    def trusted_name(self) -> bytes:
        """A name that changes when an authority is added or removed, or a certificate is revoked."""
        trusted = b"".join(sorted(self.watched.content.trusted))
        return blake2b(trusted, digest_size=_NAME_BYTES, person=b"zab quorum trust").digest()

    def servers_of(self, certificate: bytes) -> Collection[int]:
        """The servers for which a certificate is valid."""
        return self._certified(partial(is_for_host, certificate))

    async def dialled(self, stream: trio.SocketStream, host: str) -> TlsStream:
        """Do the handshake of a stream that we dialled to this host. Raises OSError; then the stream is closed."""
        secured = await dialled_tls(stream, self.watched.content.dialling)
        try:
            _check_host(secured.side, host)
        except TlsError:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    async def accepted(self, stream: trio.SocketStream) -> TlsStream:
        """Do the handshake of an inbound stream. Raises OSError; then the stream is closed."""
        return await accepted_tls(stream, self.policy.context, self._steps)

    def _read(self) -> Contexts:
        accepting, trusted = self._context(ssl.PROTOCOL_TLS_SERVER)
        dialling, _ = self._context(ssl.PROTOCOL_TLS_CLIENT)
        contexts = Contexts(accepting, dialling, trusted)
        try:
            _shake_with_itself(contexts, self._own_hosts)
        except TlsError as error:
            key = self._settings.stores.key
            reason = f"the other members would refuse it, as this one does by its own trust store: {error}"
            raise StoreError(f"{key.keys.location}: {key.path}: {reason}") from None
        return contexts

    def _context(self, protocol: int) -> tuple[ssl.SSLContext, frozenset[bytes]]:
        """A context, and its trusted authorities."""
        context = self._settings.context(protocol)
        # Both ends check hosts by the same rule; OpenSSL only checks them when dialling.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        return context, self._settings.stores.load_trusted(context)


def _check_host(side: TlsSide, host: str) -> None:
    """Raises TlsError."""
    certificate = side.peer_certificate
    if certificate is None or not is_for_host(certificate, host):
        raise TlsError(f"its certificate is not for the host {host}")


def _shake_with_itself(contexts: Contexts, hosts: Iterable[str]) -> None:
    """Raises TlsError."""
    accepted, dialled = TlsSide(contexts.accepting), TlsSide(contexts.dialling, has_dialled=True)
    _, to_accepted = dialled.feed(b"", 0)
    while not (accepted.is_ready and dialled.is_ready):
        _, to_dialled = accepted.feed(to_accepted, 0)
        if not dialled.is_ready:
            _, to_accepted = dialled.feed(to_dialled, 0)
    for host in hosts:
        _check_host(dialled, host)
