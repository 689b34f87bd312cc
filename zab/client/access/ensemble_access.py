"""How a service comes to the coordination service: over TCP or TLS, with which login, and which ACLs its znodes have.

    access = EnsembleAccess(settings)       reads the stores and the JAAS file. Raises EnsembleAccessError
    access = open_access(settings)          the same as a start does it. Raises ServerFailedError
    access.dial                             opens a connection in TLS, with the stores as last read; None: over TCP
    access.reread()                         the stores, as files that are looked at again; None: there are none
    async with access.rereading(): …        they are looked at again in this block
    access.login                            user and password for SASL; None: nobody logs in
    access.acl(path)                        the ACL of a znode that is created

A key, its password file and the JAAS file have to be private, as other secrets of servers.

Not here: keys of the settings (`zab.configuration.blocks.ensemble`), the session (`zab.client.coordination`).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from zab.client import CREATOR_ALL_ACL, OPEN_ACL, READ_ACL, Acl, SaslLogin
from zab.client.core.hosts import Host
from zab.client.nursery import hidden_nursery
from zab.client.on_trio import Dialler, tcp
from zab.configuration.blocks.cipher_suites import of_openssl
from zab.configuration.blocks.ensemble import EnsembleSettings, ZnodeAcl
from zab.configuration.jaas import FILE_BYTES_MAX, JaasError, LoginModule, parse_jaas
from zab.host.files.private_file import PrivateFileError, read_private
from zab.host.files.watched_file import CERTIFICATES_KEPT, Reread, WatchedFile
from zab.host.journal.journal import Journal
from zab.host.tls.tls_stores import NamedStore, NamedStores, PortTls, dialling
from zab.service.failure import CONFIG_ERROR, ServerFailedError
from zab.tls.stores import StoreError

DIGEST_LOGIN: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
ACLS: Final[Mapping[ZnodeAcl, Sequence[Acl]]] = {
    ZnodeAcl.OPEN: OPEN_ACL,
    ZnodeAcl.READABLE: (*CREATOR_ALL_ACL, *READ_ACL),
    ZnodeAcl.PRIVATE: CREATOR_ALL_ACL,
}

journal = Journal("coordination")


class EnsembleAccessError(ValueError):
    """A file that the settings name cannot be used; the text says which, and why."""


class EnsembleAccess:
    """See the docstring of the module."""

    def __init__(self, settings: EnsembleSettings) -> None:
        """Raises EnsembleAccessError."""
        self._settings = settings
        self._watched: WatchedFile[ssl.SSLContext] | None = None
        self._context: ssl.SSLContext | None = None
        try:
            self._read_stores()
            self.login = login_of(settings)
        except (StoreError, PrivateFileError) as error:
            raise EnsembleAccessError(str(error)) from None

    def _read_stores(self) -> None:
        settings = self._settings
        if not settings.tls_enabled:
            return
        stores = _stores_of(settings)
        files = [*stores.key.files, *stores.trust.files]
        if files:
            self._watched = WatchedFile(files[0], lambda _: _context_of(settings, stores), *files[1:])
            self._context = self._watched.content
        else:
            self._context = _context_of(settings, stores)

    @property
    def dial(self) -> Dialler | None:
        """Opens a connection to a member; None: in clear."""
        return self._dial if self._settings.tls_enabled else None

    async def _dial(self, host: Host) -> trio.abc.Stream:
        return await tcp(self._context)(host)

    def acl(self, path: str) -> Sequence[Acl]:
        """The ACL of a znode that is created; `path` is without the chroot."""
        return ACLS[self._settings.acl_of(path)]

    def reread(self) -> Reread | None:
        """The stores, as files that are looked at again."""
        return None if self._watched is None else Reread(self._watched, self._take, CERTIFICATES_KEPT)

    @asynccontextmanager
    async def rereading(self) -> AsyncIterator[None]:
        """The stores are looked at again in this block, for as long as it lasts."""
        reread = self.reread()
        async with hidden_nursery() as nursery:
            if reread is not None:
                nursery.start_soon(reread.run)
            yield
            nursery.cancel_scope.cancel()

    def _take(self) -> None:
        assert self._watched is not None
        journal.info("there are other certificates for the coordination service")
        self._context = self._watched.content


def open_access(settings: EnsembleSettings) -> EnsembleAccess:
    """How a service that starts comes to the coordination service. Raises ServerFailedError."""
    try:
        return EnsembleAccess(settings)
    except EnsembleAccessError as error:
        raise ServerFailedError(CONFIG_ERROR, str(error)) from error


def login_of(settings: EnsembleSettings) -> SaslLogin | None:
    """The login that the JAAS file has; None: there is no file. Raises EnsembleAccessError, PrivateFileError."""
    path, section = settings.jaas_file, settings.jaas_section
    if path is None:
        return None
    data = read_private(path, FILE_BYTES_MAX, "it is no JAAS file")
    try:
        modules = parse_jaas(data.decode()).get(section, ())
    except JaasError as error:
        raise EnsembleAccessError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise EnsembleAccessError(f"{path}: it is not UTF-8") from None
    if len(modules) != 1:
        found = "no section" if not modules else "several login modules in section"
        raise EnsembleAccessError(f"{path}: there is {found} {section} (zookeeper.sasl.clientconfig)")
    return _login_in(path, modules[0])


def _login_in(path: str, module: LoginModule) -> SaslLogin:
    place = f"{path}: line {module.line}"
    if module.name != DIGEST_LOGIN:
        raise EnsembleAccessError(f"{place}: of login modules only {DIGEST_LOGIN} is supported, not {module.name}")
    user, password = module.options.get("username"), module.options.get("password")
    if not (user and password):
        raise EnsembleAccessError(f"{place}: the module needs a username and a password")
    return SaslLogin(user, password)


def _stores_of(settings: EnsembleSettings) -> NamedStores:
    key = NamedStore(
        "zookeeper.ssl.keystore",
        settings.key_store,
        settings.key_store_type,
        settings.key_store_password,
        settings.key_store_password_path,
    )
    trust = NamedStore(
        "zookeeper.ssl.truststore",
        settings.trust_store,
        settings.trust_store_type,
        settings.trust_store_password,
        settings.trust_store_password_path,
    )
    return NamedStores(key, trust, settings.crl)


def _context_of(settings: EnsembleSettings, stores: NamedStores) -> ssl.SSLContext:
    """Raises StoreError."""
    port = PortTls(stores, settings.versions, of_openssl(settings.cipher_suites))
    return dialling(port, checks_host=settings.checks_host, shows_key=stores.key.path is not None)
