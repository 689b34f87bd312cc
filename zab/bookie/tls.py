"""TLS at a bookie's port and of auto-recovery: the stores, the contexts made of them, and new ones while it runs.

    tls = open_tls(settings)        None: there is no TLS. Raises ServerFailedError
    tls.policy                      what clients that begin TLS get
    tls.dialling()                  the context for a connection to a bookie
    async with rereading(tls): …    the files are looked at again in this block

Not here: keys of the settings (`tls_settings`), stores (`zab.tls.stores`), handshakes.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

from zab.bookie.tls_settings import BookieTlsSettings
from zab.client.nursery import hidden_nursery
from zab.configuration.blocks.cipher_suites import of_openssl
from zab.host.files.watched_file import CERTIFICATES_KEPT, Reread
from zab.host.journal.journal import Journal
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_stores import NamedStore, NamedStores, PortTls, accepting, dialling
from zab.service.failure import CONFIG_ERROR, ServerFailedError
from zab.tls.stores import StoreError, StoreKeys, kind_of

_KEY: Final = StoreKeys("tlsKeyStore", "tlsKeyStorePasswordPath", "tlsKeyStoreType")
_TRUST: Final = StoreKeys("tlsTrustStore", "tlsTrustStorePasswordPath", "tlsTrustStoreType")

journal = Journal("bookie")


@attrs.frozen
class Contexts:
    """The contexts for both ends of a connection."""

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext


class BookieTls:
    """The TLS of one bookie."""

    def __init__(self, settings: BookieTlsSettings) -> None:
        """Raises StoreError."""
        self._settings = settings
        self._stores = _stores_of(settings)
        self._watched = self._stores.watched(self._read)
        self.policy = TlsPolicy(self._watched.content.accepting)

    def _read(self) -> Contexts:
        settings, stores = self._settings, self._stores
        ciphers = of_openssl(settings.cipher_suites)
        port = PortTls(stores, settings.enabled_protocols, ciphers)
        return Contexts(
            accepting(port, ssl.CERT_REQUIRED if settings.client_auth else ssl.CERT_NONE),
            dialling(port, checks_host=settings.checks_host, shows_key=settings.client_auth),
        )

    def dialling(self) -> ssl.SSLContext:
        """The context for a new connection to a bookie, with the stores as last read."""
        return self._watched.content.dialling

    def reread(self) -> Reread:
        """The stores, as files that are looked at again."""
        return Reread(self._watched, self._take, CERTIFICATES_KEPT)

    def _take(self) -> None:
        journal.info("there are other certificates")
        self.policy.context = self._watched.content.accepting


def open_tls(settings: BookieTlsSettings) -> BookieTls | None:
    """The TLS of a bookie that starts. Raises ServerFailedError."""
    try:
        return BookieTls(settings) if settings.is_enabled else None
    except StoreError as error:
        raise ServerFailedError(CONFIG_ERROR, str(error)) from error


@asynccontextmanager
async def rereading(tls: BookieTls | None) -> AsyncIterator[None]:
    """The stores are looked at again in this block, for as long as it lasts."""
    async with hidden_nursery() as nursery:
        if tls is not None:
            nursery.start_soon(tls.reread().run)
        yield
        nursery.cancel_scope.cancel()


def _stores_of(settings: BookieTlsSettings) -> NamedStores:
    key = NamedStore(
        "tlsKeyStore",
        settings.key_store,
        _kind(settings.key_store, settings.key_store_type, settings.certificate),
        None,
        settings.key_store_password_path,
        keys=_KEY,
        certificate=settings.certificate,
    )
    trust = NamedStore(
        "tlsTrustStore",
        settings.trust_store,
        _kind(settings.trust_store, settings.trust_store_type),
        None,
        settings.trust_store_password_path,
        keys=_TRUST,
    )
    return NamedStores(key, trust, with_lists=False)


def _kind(path: str | None, named: str | None, certificate: str | None = None) -> str:
    """A store is JKS, as with BookKeeper, unless the settings or its name say otherwise."""
    return named or ("pem" if certificate else path and kind_of(path)) or "jks"
