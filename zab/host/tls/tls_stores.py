"""The TLS stores of a service's ports (`zab.tls.stores`), and the contexts made from them.

    NamedStores     the key store and the trust store, as named in the settings
    PortTls         stores, with the versions and suites of a port
    accepting       a context for a port; `watched_context` reads it again when a file changes

New handshakes use the stores as last read. Existing connections stay.

Stores are read again in another thread; PKCS#12 as `zab certs` writes it blocks the loop for 12 ms, PEM for 1 ms.

A key that other users may read is refused, like any other secret (`zab.host.files.private_file`).

Not here: handshakes (`zab.host.loop.handshakes`), the contexts themselves (`zab.tls.contexts`), the keys of settings
(`zab.configuration.blocks.tls`), TLS between servers (`mutual_tls`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TypeVar

from attrs import Factory, field, frozen

from zab.configuration.blocks.cipher_suites import of_openssl
from zab.configuration.blocks.tls import TlsSettings
from zab.host.files.private_file import PrivateFileError, demand_private
from zab.host.files.watched_file import WatchedFile
from zab.tls.contexts import context_of_client, context_of_server, limit_versions
from zab.tls.stores import PASSWORD_BYTES_MAX, Store, StoreError, StoreKeys, read_password

Content = TypeVar("Content")


@frozen
class NamedStore:
    """A store, as named in the settings."""

    prefix: str
    path: str | None
    kind: str | None
    password: str | None = field(repr=False)
    password_path: str | None
    keys: StoreKeys = field(default=Factory(lambda self: StoreKeys.beginning(self.prefix), takes_self=True))
    """The names of its settings, for errors; by default ZooKeeper's."""
    certificate: str | None = None
    """The file with the certificate, where the store has only the key."""

    @property
    def files(self) -> list[str]:
        """The files it depends on."""
        return [path for path in (self.path, self.password_path, self.certificate) if path is not None]

    def named(self) -> str:
        """Its path. Raises StoreError."""
        if self.path is None:
            raise StoreError(f"{self.keys.location}: it is not set")
        return self.path

    def opened(self) -> Store:
        """Open the store. The password file has priority, as in ZooKeeper. Raises StoreError."""
        keys, password = self.keys, self.password or ""
        if self.password_path is not None:
            password = read_password(self.password_path, keys.password)
        elif len(password.encode()) > PASSWORD_BYTES_MAX:
            raise StoreError(f"{self.prefix}.password: the password has more than {PASSWORD_BYTES_MAX} bytes")
        return Store(keys, self.named(), self.kind, password, self.certificate)


@frozen
class NamedStores:
    """The key store and the trust store."""

    key: NamedStore
    trust: NamedStore
    with_lists: bool

    def watched(self, read: Callable[[], Content]) -> WatchedFile[Content]:
        """The result of `read`, which is called again when a file changes. Both raise StoreError."""
        first, *others = [self.key.named(), *self.key.files, *self.trust.files]
        return WatchedFile(first, lambda _: read(), *others)

    def load_key(self, context: ssl.SSLContext) -> None:
        """Load the key, which is a secret: if it is not encrypted, its file must be private; otherwise its password
        file. Raises StoreError."""
        is_encrypted = self.key.opened().load_key(context)
        keys = self.key.keys
        secret, key = (self.key.password_path, keys.password) if is_encrypted else (self.key.path, keys.location)
        if secret is not None:
            try:
                demand_private(secret)
            except PrivateFileError as error:
                raise StoreError(f"{key}: {error}") from None

    def load_trusted(self, context: ssl.SSLContext) -> frozenset[bytes]:
        """Load the trusted authorities, like `Store.load_trusted`."""
        return self.trust.opened().load_trusted(context, with_lists=self.with_lists)


@frozen
class PortTls:
    """The stores, versions and suites of a kind of port."""

    stores: NamedStores
    versions: frozenset[str]
    ciphers: tuple[str, ...]
    """Suites of TLS 1.2, by OpenSSL's names; empty: OpenSSL's choice."""

    def context(self, protocol: int) -> ssl.SSLContext:
        """A context with the key, without trusted authorities yet. Raises StoreError."""
        context = context_of_server(protocol, self.versions, self.ciphers)
        self.stores.load_key(context)
        return context


def port_tls(settings: TlsSettings, prefix: str, versions: frozenset[str]) -> PortTls:
    """The TLS of a port from its settings, whose keys begin with `prefix`."""
    key = NamedStore(
        f"{prefix}.keyStore",
        settings.key_store,
        settings.key_store_type,
        settings.key_store_password,
        settings.key_store_password_path,
    )
    trust = NamedStore(
        f"{prefix}.trustStore",
        settings.trust_store,
        settings.trust_store_type,
        settings.trust_store_password,
        settings.trust_store_password_path,
    )
    ciphers = of_openssl(settings.cipher_suites)
    return PortTls(NamedStores(key, trust, settings.crl), versions, ciphers)


def accepting(settings: PortTls, client_auth: ssl.VerifyMode) -> ssl.SSLContext:
    """The context for a port of clients. Raises StoreError."""
    context = settings.context(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = client_auth
    if client_auth != ssl.CERT_NONE:
        settings.stores.load_trusted(context)
    return context


def dialling(settings: PortTls, *, checks_host: bool, shows_key: bool) -> ssl.SSLContext:
    """The context for connections to other servers as their client, which trusts the authorities of the trust store;
    without one, those of this machine. Raises StoreError."""
    context = context_of_client()
    limit_versions(context, settings.versions)
    if settings.ciphers:
        context.set_ciphers(":".join(settings.ciphers))
    context.check_hostname = checks_host
    if settings.stores.trust.path is None:
        context.load_default_certs()
    else:
        settings.stores.load_trusted(context)
    if shows_key:
        settings.stores.load_key(context)
    return context


def watched_context(settings: PortTls, client_auth: ssl.VerifyMode) -> WatchedFile[ssl.SSLContext]:
    """The context for a port of clients, made again when a file changes. Both raise StoreError."""
    return settings.stores.watched(lambda: accepting(settings, client_auth))
