"""The stores, versions and suites of a member's ports, from `zoo.cfg`. The admin server uses those of the ports for
members, as in ZooKeeper."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from typing import Final

from zab.host.files.watched_file import WatchedFile
from zab.host.tls.mutual_tls import MutualTls
from zab.host.tls.tls_stores import PortTls, port_tls, watched_context
from zab.member.settings.config import Config

_CLIENT_AUTH: Final = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def client_port_stores(config: Config) -> WatchedFile[ssl.SSLContext]:
    """Raises StoreError, as does reading them again."""
    return watched_context(client_tls(config), _CLIENT_AUTH[config.clients.certificates])


def admin_stores(config: Config) -> WatchedFile[ssl.SSLContext]:
    """Raises StoreError, as does reading them again."""
    auth = ssl.CERT_REQUIRED if config.admin.needs_client_auth else ssl.CERT_NONE
    return watched_context(quorum_tls(config), auth)


def tls_of_members(config: Config, certified: Callable[[Callable[[str], bool]], Collection[int]]) -> MutualTls:
    """TLS between members. `certified`: see `MutualTls`. Raises StoreError."""
    return MutualTls(
        quorum_tls(config),
        config.own_line.hosts if config.own_line is not None else (),  # a check need not know which member it is
        certified,
        dials=config.quorum.tls_enabled,
        takes_plain=config.quorum.takes_plain,
    )


def client_tls(config: Config) -> PortTls:
    """The TLS of client ports."""
    return port_tls(config.client_tls, "ssl", config.client_tls_versions)


def quorum_tls(config: Config) -> PortTls:
    """The TLS of the ports for members, and of the admin server."""
    return port_tls(config.quorum_tls, "ssl.quorum", config.quorum_tls_versions)
