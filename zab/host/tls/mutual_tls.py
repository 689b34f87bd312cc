"""TLS between the servers of a service: what this one shows, whom it believes, and for which servers a certificate is
good.

Both ends of every connection show a certificate, and both believe only the authorities of their own trust store. A
certificate is good for the servers in whose lines its hosts stand (`certificate_names`).

Before anything of this is used, it is tried: this member shakes hands with itself. So a certificate that the others
would refuse, as it has expired, or is for another host, or nobody vouches for it, refuses the start; and stores that
have changed and are of no use leave those before in their place.

Limits: as for clients (`zab.tls.contexts`): whole handshakes only, one group, so that no step of one is long.

Not here: handshakes on sockets (`zab.host.loop`), when the files are looked at (`zab.host.files.watched_file`).
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
"""As the name of a secret has."""


@attrs.frozen
class Contexts:
    """For both ends of links."""

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext
    trusted: frozenset[bytes]
    """The authorities who are believed, and their lists, in DER."""


class MutualTls:
    """What one server shows to the others."""

    def __init__(
        self,
        settings: PortTls,
        own_hosts: Iterable[str],
        certified: Callable[[Callable[[str], bool]], Collection[int]],
        *,
        dials: bool,
        takes_plain: bool,
    ) -> None:
        """`certified` says which servers a certificate is good for that is for these hosts. `dials`: connections to
        others are inside of TLS, too. `takes_plain`: those of others may be without. Raises StoreError."""
        self._settings = settings
        self._own_hosts = tuple(own_hosts)
        self._certified = certified
        self.dials = dials
        self.takes_plain = takes_plain
        self.watched = settings.stores.watched(self._read)
        self.policy = TlsPolicy(self.watched.content.accepting, self.takes_plain)
        self._steps = trio.Lock()

    def take_new(self) -> None:
        """What was read again is for handshakes from now on."""
        self.policy.context = self.watched.content.accepting

    @property
    def trusted_name(self) -> bytes:
        """Of those who are believed: with another authority, or another one revoked, it is another name."""
        trusted = b"".join(sorted(self.watched.content.trusted))
        return blake2b(trusted, digest_size=_NAME_BYTES, person=b"zab quorum trust").digest()

    def servers_of(self, certificate: bytes) -> Collection[int]:
        """Those for which it is good."""
        return self._certified(partial(is_for_host, certificate))

    async def dialled(self, stream: trio.SocketStream, host: str) -> TlsStream:
        """The handshake of a stream that we dialled to this host. Raises OSError; then the stream is closed."""
        secured = await dialled_tls(stream, self.watched.content.dialling)
        try:
            _check_host(secured.side, host)
        except TlsError:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    async def accepted(self, stream: trio.SocketStream) -> TlsStream:
        """The same of a stream from somebody who has dialled us."""
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
            raise StoreError(f"{key.prefix}.location: {key.path}: {reason}") from None
        return contexts

    def _context(self, protocol: int) -> tuple[ssl.SSLContext, frozenset[bytes]]:
        """And who is believed in it."""
        context = self._settings.context(protocol)
        # Hosts are checked by one rule on both ends, which OpenSSL has for who dials only.
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
