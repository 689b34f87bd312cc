"""TLS at the listeners of a broker: the stores, the contexts made of them, and new ones while it runs.

    ListenerTls(settings)       reads the stores. Raises StoreError
    policy()                    what a listener is given
    reread()                    the files, which are looked at again and again; new handshakes use what they have
    link_tls(config)            TLS of the links to other brokers, with certificates at both ends

Not here: keys of the settings (`zab.partition.settings.tls_settings`), stores (`zab.tls.stores`), handshakes.
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs

from zab.configuration.blocks.cipher_suites import of_openssl
from zab.host.files.watched_file import CERTIFICATES_KEPT, Reread
from zab.host.journal.journal import Journal
from zab.host.tls.mutual_tls import MutualTls
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_stores import NamedStore, NamedStores, PortTls, watched_context
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.listeners import WITH_TLS
from zab.partition.settings.tls_settings import ClientAuth, ListenerTlsSettings

_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
ANY_BROKER: Final = range(1 << 31)

journal = Journal("broker")


class ListenerTls:
    """The TLS of all listeners that speak it."""

    def __init__(self, settings: ListenerTlsSettings) -> None:
        self._watched = watched_context(_port_tls(settings), _MODES[settings.client_auth])
        self._policies: list[TlsPolicy] = []

    @classmethod
    def of(cls, config: BrokerConfig) -> ListenerTls | None:
        """None: no listener speaks it. Raises StoreError."""
        return cls(config.tls) if config.has_tls else None

    def policy(self) -> TlsPolicy:
        """The policy of one more listener."""
        policy = TlsPolicy(self._watched.content)
        self._policies.append(policy)
        return policy

    def reread(self) -> Reread:
        """The stores, as files that are looked at again."""
        return Reread(self._watched, self._take, CERTIFICATES_KEPT)

    def _take(self) -> None:
        journal.info("there are other certificates")
        for policy in self._policies:
            policy.context = self._watched.content


def link_tls(config: BrokerConfig) -> MutualTls | None:
    """None: the links are in clear. A certificate of a trusted authority is good for every broker at the end that is
    dialled, and for the host that is dialled at the other one. Raises StoreError."""
    if config.link_protocol not in WITH_TLS:
        return None
    settings, own_hosts = _port_tls(config.tls), {config.link_endpoint.host} - {""}
    trust_store = config.replication.trust_store
    if trust_store is not None:
        trust = attrs.evolve(settings.stores.trust, prefix="broker.ssl.truststore", path=trust_store, kind=None)
        settings = attrs.evolve(settings, stores=attrs.evolve(settings.stores, trust=trust))
    return MutualTls(settings, own_hosts, lambda _is_for: ANY_BROKER, dials=True, takes_plain=False)


def reread_of(tls: MutualTls) -> Reread:
    """The stores of the links, as files that are looked at again."""
    return Reread(tls.watched, tls.take_new, CERTIFICATES_KEPT)


def _port_tls(settings: ListenerTlsSettings) -> PortTls:
    key = NamedStore(
        "ssl.keystore",
        settings.key_store,
        settings.key_store_type,
        settings.password_of_key,
        settings.key_store_password_path,
    )
    trust = NamedStore(
        "ssl.truststore",
        settings.trust_store,
        settings.trust_store_type,
        settings.trust_store_password,
        settings.trust_store_password_path,
    )
    ciphers = of_openssl(settings.cipher_suites)
    return PortTls(NamedStores(key, trust, settings.crl), settings.enabled_protocols, ciphers)
