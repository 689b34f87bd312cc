"""The client port with TLS as an `ssl.SSLContext`: versions, stores (`zab.tls.stores`), whom it asks who he is. The
stores of members have their names in zoo.cfg here, too.

`client_port_stores` may be read again (`client.certReload`): handshakes that begin after that are under what is in them
then. Who is in stays in.

Every handshake is a whole one: without tickets, nobody comes back on what was believed before the stores changed.

Limits: keys are agreed on in `GROUP` alone, which every client has. With those that OpenSSL takes by itself, a client
that computes nothing could cost the loop 170 ms a step: it sends a ClientHello for ffdhe8192, again and again. Who
guesses another group first is asked once more (HelloRetryRequest). Stores are read again in another thread; PKCS#12 as
`zab certs` writes it keeps Python from the loop for 12 ms, PEM for 1 ms.

A key that others may read is refused, as any other secret (`zab.host.process.private_file`).

Not here: handshakes (`zab.host.loop.handshakes`), the keys of zoo.cfg (`zab.member.settings.config`), what members ask
of each other (`zab.server.quorum_tls`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from attrs import field, frozen

from zab.configuration.blocks.cipher_suites import TLS_1_2
from zab.host.process.private_file import PrivateFileError, Watched, demand_private
from zab.member.settings.config import Config
from zab.tls.stores import PASSWORD_BYTES_MAX, Store, StoreError, StoreKeys, read_password

GROUP: Final = "prime256v1"

Content = TypeVar("Content")

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


@frozen
class NamedStore:
    """A store, as zoo.cfg has it."""

    prefix: str
    path: str | None
    kind: str | None
    password: str | None = field(repr=False)
    password_path: str | None

    @property
    def files(self) -> list[str]:
        """On which it depends."""
        return [path for path in (self.path, self.password_path) if path is not None]

    def opened(self) -> Store:
        """The file with the password counts, as in ZooKeeper. Raises StoreError."""
        assert self.path is not None, "config.validate sees to that"
        keys, password = StoreKeys.beginning(self.prefix), self.password or ""
        if self.password_path is not None:
            password = read_password(self.password_path, keys.password)
        elif len(password.encode()) > PASSWORD_BYTES_MAX:
            raise StoreError(f"{self.prefix}.password: the password has more than {PASSWORD_BYTES_MAX} bytes")
        return Store(keys, self.path, self.kind, password)


@frozen
class NamedStores:
    """What is shown, and who is believed."""

    key: NamedStore
    trust: NamedStore
    with_lists: bool

    def watched(self, read: Callable[[], Content]) -> Watched[Content]:
        """What `read` makes of them. It raises StoreError, as does reading them again."""
        first, *others = self.key.files + self.trust.files
        return Watched(first, lambda _: read(), *others)

    def load_key(self, context: ssl.SSLContext) -> None:
        """The key is a secret: where it is not encrypted its file is for its owner alone; where it is, the file with
        its password is. Raises StoreError."""
        is_encrypted = self.key.opened().load_key(context)
        secret, key = (self.key.password_path, "passwordPath") if is_encrypted else (self.key.path, "location")
        if secret is not None:
            try:
                demand_private(secret)
            except PrivateFileError as error:
                raise StoreError(f"{self.key.prefix}.{key}: {error}") from None

    def load_trusted(self, context: ssl.SSLContext) -> frozenset[bytes]:
        """As `Store.load_trusted`."""
        return self.trust.opened().load_trusted(context, with_lists=self.with_lists)


def stores_for_clients(config: Config) -> NamedStores:
    """Of the client port."""
    key = NamedStore(
        "ssl.keyStore",
        config.client_tls.key_store,
        config.client_tls.key_store_type,
        config.client_tls.key_store_password,
        config.client_tls.key_store_password_path,
    )
    trust = NamedStore(
        "ssl.trustStore",
        config.client_tls.trust_store,
        config.client_tls.trust_store_type,
        config.client_tls.trust_store_password,
        config.client_tls.trust_store_password_path,
    )
    return NamedStores(key, trust, config.client_tls.crl)


def stores_for_members(config: Config) -> NamedStores:
    """Of the ports for other members, and of the admin server."""
    key = NamedStore(
        "ssl.quorum.keyStore",
        config.quorum_tls.key_store,
        config.quorum_tls.key_store_type,
        config.quorum_tls.key_store_password,
        config.quorum_tls.key_store_password_path,
    )
    trust = NamedStore(
        "ssl.quorum.trustStore",
        config.quorum_tls.trust_store,
        config.quorum_tls.trust_store_type,
        config.quorum_tls.trust_store_password,
        config.quorum_tls.trust_store_password_path,
    )
    return NamedStores(key, trust, config.quorum_tls.crl)


def client_port_stores(config: Config) -> Watched[ssl.SSLContext]:
    """Raises StoreError, as does reading them again."""
    return stores_for_clients(config).watched(lambda: client_port_context(config))


def client_port_context(config: Config) -> ssl.SSLContext:
    """Raises StoreError."""
    stores = stores_for_clients(config)
    context = context_that_speaks(ssl.PROTOCOL_TLS_SERVER, config.client_tls_versions, config.client_tls.cipher_suites)
    stores.load_key(context)
    context.verify_mode = _CLIENT_AUTH[config.clients.certificates]
    if context.verify_mode != ssl.CERT_NONE:
        stores.load_trusted(context)
    return context


def context_that_speaks(protocol: int, versions: Iterable[str], suites: Iterable[str]) -> ssl.SSLContext:
    """These versions and suites (none: OpenSSL's), with what is true of all handshakes here. It has no stores yet."""
    context = ssl.SSLContext(protocol)
    known = [_VERSIONS[name] for name in versions]
    context.minimum_version, context.maximum_version = min(known), max(known)
    chosen = [TLS_1_2[name] for name in suites if name in TLS_1_2]
    if chosen:
        context.set_ciphers(":".join(chosen))
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    context.set_ecdh_curve(GROUP)
    return context
