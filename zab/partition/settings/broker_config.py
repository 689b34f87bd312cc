"""All settings of a broker, as one file of properties says them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import Factory, field, frozen

from zab.configuration.blocks.audit import AuditSettings
from zab.configuration.fields import Setting, block, built, integer, settings_of
from zab.configuration.nearest import nearest
from zab.configuration.properties import PropertiesError, parse_properties
from zab.partition.access.logins import PLAIN
from zab.partition.settings.access_settings import AccessSettings
from zab.partition.settings.broker_settings import (
    BrokerSettings,
    CleanerSettings,
    GroupSettings,
    HttpSettings,
    LogSettings,
    QuotaSettings,
    ReplicationSettings,
    RequestSettings,
    TransactionSettings,
)
from zab.partition.settings.ensemble_settings import BrokerEnsembleSettings
from zab.partition.settings.listeners import PLAINTEXT, SASL_SSL, WITH_LOGIN, WITH_TLS, Endpoint, is_loopback
from zab.partition.settings.login_settings import PLAIN_USERS, SCRAM_MODULE, LoginSettings, plain_users_in
from zab.partition.settings.tls_settings import ClientAuth, ListenerTlsSettings
from zab.partition.settings.topic_settings import (
    NO_LIMIT,
    InvalidSettingError,
    TopicSettings,
    broker_defaults,
    twin_keys,
)


@frozen(kw_only=True)
class BrokerConfig:
    """What the file says."""

    broker: BrokerSettings = block(BrokerSettings)
    ensemble: BrokerEnsembleSettings = block(BrokerEnsembleSettings)
    requests: RequestSettings = block(RequestSettings)
    quotas: QuotaSettings = block(QuotaSettings)
    replication: ReplicationSettings = block(ReplicationSettings)
    http: HttpSettings = block(HttpSettings)
    logs: LogSettings = block(LogSettings)
    cleaner: CleanerSettings = block(CleanerSettings)
    groups: GroupSettings = block(GroupSettings)
    transactions: TransactionSettings = block(TransactionSettings)
    tls: ListenerTlsSettings = block(ListenerTlsSettings, "ssl.")
    logins: LoginSettings = block(LoginSettings)
    access: AccessSettings = block(AccessSettings)
    audit: AuditSettings = block(AuditSettings, "audit.")

    topics: TopicSettings = Factory(TopicSettings)
    """What holds for topics that say nothing."""
    plain_users: Mapping[str, Mapping[str, str]] = field(factory=dict, repr=False)
    """Password by listener and user, of those that log in by PLAIN."""
    warnings: tuple[str, ...] = ()
    """Keys that have no effect, each with its line."""

    @property
    def audit_file(self) -> str:
        """The path of the audit log."""
        return self.audit.file or f"{self.broker.log_directory}/audit.log"

    @property
    def has_tls(self) -> bool:
        """Whether a listener of clients speaks TLS."""
        return any(self.broker.protocols.of(each.name) in WITH_TLS for each in self.client_listeners)

    @property
    def link_endpoint(self) -> Endpoint:
        """What other brokers are told to connect to; port 0: the one that is bound."""
        told = {endpoint.name: endpoint for endpoint in self.broker.advertised_listeners or ()}
        return told.get(self.link_listener.name, self.link_listener)

    @property
    def link_protocol(self) -> str:
        """What is spoken at the listener for brokers: PLAINTEXT, if nothing says so."""
        return dict(self.broker.protocols.pairs).get(self.replication.listener_name, PLAINTEXT)

    @property
    def open_doors(self) -> tuple[str, ...]:
        """What may be left open by mistake: sentences."""
        found = []
        access = self.access
        if access.authorizer is None:
            for each in self.client_listeners:
                if not (is_loopback(each.host) or self._names_clients(each)):
                    found.append(
                        f"{each}: every client may do everything: there is no login, no certificate is required, "
                        "and there is no authorizer"
                    )
        elif not (access.super_users or access.allows_without_list):
            found.append("super.users: nobody may change the access lists, unless they say so already")
        return tuple(found)

    def _names_clients(self, listener: Endpoint) -> bool:
        protocol = self.broker.protocols.of(listener.name)
        return protocol in WITH_LOGIN or (protocol in WITH_TLS and self.tls.client_auth is ClientAuth.REQUIRED)

    @property
    def client_listeners(self) -> tuple[Endpoint, ...]:
        """Where clients connect."""
        return tuple(each for each in self.broker.listeners if each.name != self.replication.listener_name)

    @property
    def link_listener(self) -> Endpoint:
        """Where other brokers connect: without a secret that is this machine, if no listener says it."""
        name = self.replication.listener_name
        named = [each for each in self.broker.listeners if each.name == name]
        host = self.client_listeners[0].host if self.replication.secret_file else "127.0.0.1"
        return named[0] if named else Endpoint(name, host, 0)


class BrokerConfigError(ValueError):
    """The file is refused; the text begins with the line."""


IGNORED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("num.network.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "background.threads"),
            *("num.replica.fetchers", "queued.max.requests", "socket.send.buffer.bytes"),
            "socket.receive.buffer.bytes",
        ),
        "one loop serves all connections",
    ),
    **dict.fromkeys(("log.message.format.version", "inter.broker.protocol.version"), "there is one format"),
    **dict.fromkeys(
        ("producer.purgatory.purge.interval.requests", "fetch.purgatory.purge.interval.requests"),
        "a request leaves the purgatory as soon as it is complete",
    ),
    **dict.fromkeys(
        ("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
        "OpenSSL has one way to do this",
    ),
    "ssl.protocol": "ssl.enabled.protocols says which versions are used",
    **dict.fromkeys(
        (
            "ssl.endpoint.identification.algorithm",
            "sasl.mechanism.inter.broker.protocol",
        ),
        "it is about connections between brokers",
    ),
    "log.flush.scheduler.interval.ms": "a log is synced as soon as its flush.ms is over, without a periodic check",
    "zookeeper.connection.timeout.ms": "the broker tries to connect for as long as it takes",
    "zookeeper.max.in.flight.requests": "the client of the coordination service has its own limit",
}
"""Keys of Kafka that change nothing here, and why."""
REFUSED: Mapping[str, str] = {
    "security.inter.broker.protocol": "set it for the listener: listener.security.protocol.map=REPLICATION:SSL",
    "principal.builder.class": "a client is named by its login, or by the whole subject of its certificate",
    "delegation.token.master.key": "there are no delegation tokens",
    "delegation.token.secret.key": "there are no delegation tokens",
    "process.roles": "brokers find each other through the coordination service: zookeeper.connect",
    "controller.quorum.voters": "brokers find each other through the coordination service: zookeeper.connect",
}
_REFUSED_PREFIXES: Mapping[str, str] = {
    "ssl.": "it is not supported here",
    "listener.name.": "there is one setting for all listeners",
    "sasl.": "it is not supported here",
    "zookeeper.ssl.": "it is not supported here",
    "zookeeper.sasl.": "it is not supported here",
}
_LONGER: Mapping[str, tuple[str, int]] = {
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
"""Keys that set the same in longer units; the shortest unit counts."""


def read_config(text: str) -> BrokerConfig:
    """The settings that this file has. Raises BrokerConfigError: for what cannot be honoured, with the line."""
    known = {setting.key: setting for setting in settings_of(BrokerConfig)}
    values: dict[Setting, object] = {}
    twins: dict[str, str] = {}
    longer: dict[str, int] = {}
    plain: dict[str, Mapping[str, str]] = {}
    warnings: list[str] = []
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        raise BrokerConfigError(str(error)) from error
    for entry in entries:
        key, place = entry.key, f"line {entry.line}: {entry.key}"
        try:
            if key in known:
                values[known[key]] = known[key].read(entry.value)
            elif key == "log.dir":
                values[known["log.dirs"]] = known["log.dirs"].read(entry.value)
            elif key in twin_keys():
                broker_defaults({key: entry.value})
                twins[key] = entry.value
            elif (of_listener := PLAIN_USERS.fullmatch(key)) is not None:
                plain[of_listener[1].upper()] = plain_users_in(entry.value)
            elif key in _LONGER:
                longer[key] = _number(entry.value)
            else:
                warnings.append(f"{place}: {_why_idle(key)}")
        except InvalidSettingError as error:
            raise BrokerConfigError(f"line {entry.line}: {error}") from error
        except ValueError as error:
            raise BrokerConfigError(f"{place}: {error}") from error
    for key, (twin, ms) in _LONGER.items():
        if key in longer and twin not in twins:
            twins[twin] = str(longer[key] * ms if longer[key] >= 0 else NO_LIMIT)
    config = built(BrokerConfig, values, topics=broker_defaults(twins), plain_users=plain, warnings=tuple(warnings))
    if "," in config.broker.log_directory:
        raise BrokerConfigError("log.dirs: there is one directory")
    _check_advertised(config)
    _check_security(config)
    if config.requests.queued_bytes_max < 2 * config.requests.request_bytes_max:
        raise BrokerConfigError("queued.max.request.bytes: it is less than twice socket.request.max.bytes")
    return config


def _number(text: str) -> int:
    return int(str(integer(-1, 1_000_000_000)(text)))


def _check_advertised(config: BrokerConfig) -> None:
    broker, links = config.broker, config.link_listener
    if not config.client_listeners:
        raise BrokerConfigError("listeners: there is none for clients")
    own = {endpoint.name for endpoint in (*broker.listeners, links)}
    advertised = broker.advertised_listeners or ()
    for endpoint in advertised:
        if endpoint.name not in own:
            raise BrokerConfigError(f"advertised.listeners: {endpoint.name} is none of the listeners")
    if broker.advertised_listeners is None and any(not endpoint.host for endpoint in broker.listeners):
        raise BrokerConfigError(
            "advertised.listeners: a listener has no host, so say here what clients are to connect to"
        )
    if not links.host and links.name not in {endpoint.name for endpoint in advertised}:
        raise BrokerConfigError(f"advertised.listeners: say here also what brokers are to connect to, {links.name}")


def _check_security(config: BrokerConfig) -> None:
    try:
        wrong = config.tls.why_unusable(is_needed=config.has_tls or config.link_protocol in WITH_TLS)
    except ValueError as error:
        raise BrokerConfigError(f"listeners: {error}") from error
    wrong = wrong or _why_no_links(config) or _why_no_login(config) or config.access.why_unusable()
    wrong = wrong or config.ensemble.why_unusable()
    if wrong is not None:
        raise BrokerConfigError(wrong)


def _why_no_links(config: BrokerConfig) -> str | None:
    """What is wrong with the links between brokers; None if nothing."""
    name = config.replication.listener_name
    if config.link_protocol in WITH_LOGIN:
        return f"listener.security.protocol.map: {name} is PLAINTEXT or SSL: brokers prove who they are by their secret"
    trust_store = config.replication.trust_store or config.tls.trust_store
    if config.link_protocol in WITH_TLS and trust_store is None:
        return (
            f"broker.ssl.truststore.location: brokers show each other certificates at {name}, so say whose are accepted"
        )
    return None


def _why_no_login(config: BrokerConfig) -> str | None:
    """What is wrong with the logins; None if nothing."""
    protocols, users = config.broker.protocols, config.plain_users
    with_login = [each for each in config.broker.listeners if protocols.of(each.name) in WITH_LOGIN]
    for name in users:
        if name not in [each.name for each in with_login]:
            return f"listener.name.{name.lower()}.plain.sasl.jaas.config: {name} is no listener with a login"
    for listener in with_login if PLAIN in config.logins.mechanisms else ():
        name = listener.name
        if name not in users:
            return f"listener.name.{name.lower()}.plain.sasl.jaas.config: PLAIN is enabled, and has no users"
        if protocols.of(name) != SASL_SSL and not is_loopback(listener.host):
            return f"sasl.enabled.mechanisms: PLAIN would send passwords in clear text to {listener}: use SASL_SSL"
    return None


def _why_idle(key: str) -> str:
    """Why this key has no effect. Raises ValueError if it must not be ignored."""
    if key in IGNORED:
        return IGNORED[key]
    if SCRAM_MODULE.fullmatch(key) is not None:
        return "the users of SCRAM are in the znodes"
    reason = REFUSED.get(key) or next(
        (why for prefix, why in _REFUSED_PREFIXES.items() if key.startswith(prefix)), None
    )
    if reason is not None:
        raise ValueError(reason)
    known = [*(setting.key for setting in settings_of(BrokerConfig)), *twin_keys()]
    like = nearest(key, known)
    return f"the key is unknown and has no effect{f'; {like} is known' if like else ''}"
