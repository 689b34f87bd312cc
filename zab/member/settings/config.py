"""Every key that this server acts on, as the fields of the blocks of one frozen `Config`.

The fields stand for the table of configuration keys in the documentation; a test compares the two.

A name says the unit where the value has one; limits that are counted end in `_count` or name what they count.

Not here: reading values (`zoo_cfg`), the rules between fields (`rules`), keys that have no effect
(`zab.configuration.ignored`).
"""

from __future__ import annotations

from typing import Final

from attrs import Factory, frozen

from zab.configuration.blocks.addresses import AddressSettings
from zab.configuration.blocks.audit import AuditSettings
from zab.configuration.blocks.http import HttpSettings
from zab.configuration.blocks.journal import JournalSettings
from zab.configuration.blocks.limits import LimitSettings
from zab.configuration.blocks.login import LoginSettings
from zab.configuration.blocks.metrics import MetricsSettings
from zab.configuration.blocks.tls import VERSIONS_OF_TLS, TlsSettings
from zab.configuration.blocks.tracing import TracingSettings
from zab.configuration.dynamic import Ensemble, Role, ServerLine
from zab.configuration.fields import ConfigWarning, block
from zab.member.settings.access import AccessSettings
from zab.member.settings.batches import BatchSettings
from zab.member.settings.clients import ClientSettings
from zab.member.settings.commands import CommandSettings
from zab.member.settings.membership import MembershipSettings
from zab.member.settings.quorum import QuorumSettings
from zab.member.settings.requests import RequestSettings
from zab.member.settings.schemes import DIGEST, IP, SASL, X509
from zab.member.settings.sessions import SessionSettings
from zab.member.settings.storage import StorageSettings
from zab.member.settings.throttles import ConnectionThrottleSettings, RequestThrottleSettings
from zab.member.settings.timing import TimingSettings
from zab.member.settings.tree import TreeSettings

SERVER_ID_UNKNOWN: Final = -1


@frozen(kw_only=True)
class Config:
    """All settings of a member. The fields that are no blocks have other sources: see their comments."""

    storage: StorageSettings = block(StorageSettings)
    clients: ClientSettings = block(ClientSettings)
    timing: TimingSettings = block(TimingSettings)
    membership: MembershipSettings = block(MembershipSettings)
    addresses: AddressSettings = block(AddressSettings, "multiAddress.")
    quorum: QuorumSettings = block(QuorumSettings)
    quorum_tls: TlsSettings = block(TlsSettings, "ssl.quorum.", reloads="sslQuorumReloadCertFiles")
    client_tls: TlsSettings = block(TlsSettings, "ssl.", reloads="client.certReload")
    limits: LimitSettings = block(LimitSettings)
    requests: RequestSettings = block(RequestSettings)
    connection_throttle: ConnectionThrottleSettings = block(ConnectionThrottleSettings, "connection_throttle_")
    request_throttle: RequestThrottleSettings = block(RequestThrottleSettings)
    sessions: SessionSettings = block(SessionSettings)
    tree: TreeSettings = block(TreeSettings)
    access: AccessSettings = block(AccessSettings)
    login: LoginSettings = block(LoginSettings)
    batches: BatchSettings = block(BatchSettings)
    commands: CommandSettings = block(CommandSettings)
    admin: HttpSettings = block(HttpSettings, "admin.")
    metrics: MetricsSettings = block(MetricsSettings, "metricsProvider.")
    tracing: TracingSettings = block(TracingSettings, "tracing.")
    audit: AuditSettings = block(AuditSettings, "audit.")
    journal: JournalSettings = block(JournalSettings, "log.")

    # From dataDir/myid; 1 when standalone; SERVER_ID_UNKNOWN only where `parse` was given none.
    server_id: int = SERVER_ID_UNKNOWN
    # From the server, group and weight lines of either file.
    ensemble: Ensemble = Factory(Ensemble)
    # The file that was parsed, and its warnings.
    file: str = ""
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def is_standalone(self) -> bool:
        voters = len(self.ensemble.participants)
        return voters == 0 or (voters == 1 and self.membership.standalone_enabled)

    @property
    def own_line(self) -> ServerLine | None:
        """This member's server line; on a standalone server the only line, with any id."""
        if self.is_standalone:
            return next(iter(self.ensemble.servers.values()), None)
        return self.ensemble.servers.get(self.server_id)

    @property
    def role(self) -> Role:
        return Role.PARTICIPANT if self.is_standalone or self.own_line is None else self.own_line.role

    @property
    def client_address(self) -> tuple[str, int] | None:
        """(host, port) of the client listener; None: this member takes no clients. The server line wins."""
        line = self.own_line
        if line is not None and line.client_port is not None:
            assert line.client_host is not None
            return line.client_host, line.client_port
        return (self.clients.address, self.clients.port) if self.clients.port else None

    @property
    def secure_client_address(self) -> tuple[str, int] | None:
        """(host, port) of the listener for TLS alone."""
        return (self.clients.secure_address, self.clients.secure_port) if self.clients.secure_port else None

    @property
    def client_tls_versions(self) -> frozenset[str]:
        """The versions of TLS that clients may speak."""
        if self.client_tls.enabled_protocols is not None:
            return self.client_tls.enabled_protocols
        return VERSIONS_OF_TLS if self.clients.tls_protocol is None else frozenset({self.clients.tls_protocol})

    @property
    def quorum_tls_versions(self) -> frozenset[str]:
        """The versions of TLS that members may speak."""
        if self.quorum_tls.enabled_protocols is not None:
            return self.quorum_tls.enabled_protocols
        return frozenset(version for version in VERSIONS_OF_TLS if version <= self.quorum.tls_protocol)

    @property
    def has_local_sessions(self) -> bool:
        """Whether local sessions exist: only in an ensemble, as in ZooKeeper."""
        return self.sessions.local_sessions_enabled and not self.is_standalone

    @property
    def audit_file(self) -> str:
        return self.audit.file or f"{self.storage.data_dir}/audit.log"

    @property
    def acl_schemes(self) -> frozenset[str]:
        """The schemes that an ACL may name, since they prove an identity; also those of other members' clients."""
        x509 = self.clients.offers_x509 or X509 in self.access.auth_providers
        sasl = self.login.is_offered or SASL in self.access.auth_providers
        offered = {IP: True, DIGEST: self.access.digest_enabled, SASL: sasl, X509: x509}
        return frozenset(scheme for scheme, is_offered in offered.items() if is_offered)

    def allows_word(self, word: str) -> bool:
        """Whether the four-letter word may be answered."""
        if word == "srvr" or (word == "isro" and self.sessions.read_only_mode_enabled):
            return True  # scripts look for the role by the one, clients for a quorum by the other
        return word in self.commands.four_letter_words or "*" in self.commands.four_letter_words
