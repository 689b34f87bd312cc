"""Which stores, versions and suites the ports of a member have, as `zoo.cfg` says it. The admin server has those of the
ports for members, as ZooKeeper's does."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from typing import Final

from zab.host.files.watched import Watched
from zab.host.tls.mutual_tls import MutualTls
from zab.host.tls.tls_stores import NamedStore, NamedStores, TlsSettings, watched_context
from zab.member.settings.cipher_suites import TLS_1_2
from zab.member.settings.config import Config

_CLIENT_AUTH: Final = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def client_port_stores(config: Config) -> Watched[ssl.SSLContext]:
    """Raises StoreError, as does reading them again."""
    return watched_context(client_tls(config), _CLIENT_AUTH[config.ssl_client_auth])


def admin_stores(config: Config) -> Watched[ssl.SSLContext]:
    """Raises StoreError, as does reading them again."""
    auth = ssl.CERT_REQUIRED if config.admin_needs_client_auth else ssl.CERT_NONE
    return watched_context(quorum_tls(config), auth)


def tls_of_members(config: Config, certified: Callable[[Callable[[str], bool]], Collection[int]]) -> MutualTls:
    """`certified`: see `MutualTls`. Raises StoreError."""
    line = config.own_line
    assert line is not None
    return MutualTls(
        quorum_tls(config), line.hosts, certified, dials=config.ssl_quorum, takes_plain=config.takes_plain_members
    )


def client_tls(config: Config) -> TlsSettings:
    """The client port."""
    key = NamedStore(
        "ssl.keyStore",
        config.ssl_key_store,
        config.ssl_key_store_type,
        config.ssl_key_store_password,
        config.ssl_key_store_password_path,
    )
    trust = NamedStore(
        "ssl.trustStore",
        config.ssl_trust_store,
        config.ssl_trust_store_type,
        config.ssl_trust_store_password,
        config.ssl_trust_store_password_path,
    )
    stores = NamedStores(key, trust, config.ssl_crl)
    return TlsSettings(stores, config.tls_versions, _ciphers(config.ssl_cipher_suites))


def quorum_tls(config: Config) -> TlsSettings:
    """The ports for other members, and of the admin server."""
    key = NamedStore(
        "ssl.quorum.keyStore",
        config.ssl_quorum_key_store,
        config.ssl_quorum_key_store_type,
        config.ssl_quorum_key_store_password,
        config.ssl_quorum_key_store_password_path,
    )
    trust = NamedStore(
        "ssl.quorum.trustStore",
        config.ssl_quorum_trust_store,
        config.ssl_quorum_trust_store_type,
        config.ssl_quorum_trust_store_password,
        config.ssl_quorum_trust_store_password_path,
    )
    stores = NamedStores(key, trust, config.ssl_quorum_crl)
    return TlsSettings(stores, config.quorum_versions_of_tls, _ciphers(config.ssl_quorum_cipher_suites))


def _ciphers(suites: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([TLS_1_2[name] for name in suites if name in TLS_1_2])
