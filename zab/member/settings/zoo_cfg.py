"""The configuration of one member: `zoo.cfg` and `myid` as ZooKeeper has them, read once, into one frozen `Config`.

    parse(text, filename, ...) -> Config    raises ConfigError(file, line, reason)

Every key may be written with `zookeeper.` before it, as the Java property that it is in ZooKeeper. A key set twice has
its last value, as in Java. What makes no sense (a value of the wrong kind or out of bounds, fields that contradict one
another, malformed server lines) is refused, and so are keys of security that are not honoured. Other keys that are
unknown, or belong to what is not built, are collected in `Config.warnings` and refuse nothing.

Standalone: no server line, or one participant while `standaloneEnabled`; there is no quorum, and the server id is 1.

Relative paths are kept as written.

Not here: reading files (`config_file`); creating and locking directories, name resolution, ports that are taken: the
server meets those.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from zab.configuration.dynamic import Ensemble, LineError, duplicate_port, is_dynamic, parse_dynamic
from zab.configuration.fields import ConfigWarning, fields_with_keys
from zab.configuration.ignored import ignored_keys, why_ignored, why_refused
from zab.configuration.nearest import nearest
from zab.configuration.properties import PropertiesError, Property, parse_properties
from zab.member.settings.cipher_suites import versions_of
from zab.member.settings.config import SERVER_ID_UNKNOWN, Config
from zab.member.settings.quorum_tls import HOSTS_ARE_CHECKED
from zab.member.settings.schemes import IP, SASL, X509
from zab.protocol.message import FRAME_BYTES_MAX, FRAME_SPARE_BYTES

__all__ = ["Config", "ConfigError", "ConfigWarning", "entries_of", "parse", "plain_key", "validate"]

STANDALONE_SERVER_ID = 1
UNKNOWN_KEY = "the key is unknown and has no effect"
# A server id of 255 would make the ids of its sessions look like the stored owners of containers and timed znodes.
_SERVER_ID_MAX_WITH_EXTENDED_TYPES = 254
_COUNTER_MAX = 2**32 - 1
_WILDCARDS = frozenset({"0.0.0.0", "::"})
OPENING = (
    *("skipACL", "DigestAuthenticationProvider.superDigest", "superUser", "letAnySaslUserDoX"),
    *("allowSaslFailedClients", "SASLAuthenticationProvider.superPassword", "X509AuthenticationProvider.superUser"),
)
"""They, and what `superUser.` begins, open the service to somebody. ZooKeeper does not read them with its prefix before
them."""
_OFF = (False, None, "none", "", "false")
_DEFAULT_AT_MINUS_ONE = frozenset({"min_session_timeout_ms", "max_session_timeout_ms"})
_VERSION_SUFFIX = re.compile(r"\.dynamic\.([0-9a-fA-F]{1,16})$")


class ConfigError(Exception):
    """The configuration is refused. `file` names the file, `line` its line from 1 (None: the file as a whole)."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class RuleError(Exception):
    """Fields that contradict each other; `keys` are those to look at, `reason` says what is wrong."""

    def __init__(self, keys: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.keys = keys
        self.reason = reason


def parse(text: str, filename: str, *, my_id: int | None = None, dynamic_text: str | None = None) -> Config:
    """The configuration that `text` describes. Raises ConfigError.

    my_id: from `myid`; without it a member of an ensemble has server id SERVER_ID_UNKNOWN. dynamic_text: content of the
    file that `dynamicConfigFile` names.
    """
    return _Parser(filename).parse(text, my_id, dynamic_text)


def validate(config: Config) -> None:
    """The rules between fields, whoever filled them in. Raises RuleError."""
    _validate_sessions(config)
    _validate_limits(config)
    _validate_authentication(config)
    _validate_members(config)
    if config.client_port is None and config.client_port_address != _default("client_port_address"):
        raise RuleError(("clientPortAddress",), "clientPortAddress is set but clientPort is not")
    if config.observer_masters_near and not config.observer_master_port:
        raise RuleError(("observerMaster.near",), "observerMaster.near is set but observerMasterPort is not")
    _validate_tls(config)
    _validate_quorum_tls(config)
    _validate_admin(config)
    if config.is_standalone:
        if config.client_address is None and config.secure_client_address is None:
            raise RuleError(("clientPort",), "clientPort is not set: nobody could reach a standalone server")
        return
    for key, ticks in (("initLimit", config.init_limit_ticks), ("syncLimit", config.sync_limit_ticks)):
        if ticks == 0:
            raise RuleError((key,), f"{key} is not set; an ensemble needs it")
    if config.server_id != SERVER_ID_UNKNOWN:
        _validate_own_line(config)


def _validate_tls(config: Config) -> None:
    if config.client_port_unification and config.client_address is None:
        raise RuleError(("client.portUnification",), "client.portUnification is set but clientPort is not")
    if config.secure_client_port is None and config.secure_client_port_address != _default(
        "secure_client_port_address"
    ):
        raise RuleError(("secureClientPortAddress",), "secureClientPortAddress is set but secureClientPort is not")
    if not config.has_tls_clients:
        for key, store in (("keyStore", config.ssl_key_store), ("trustStore", config.ssl_trust_store)):
            if store is not None:
                reason = "neither secureClientPort nor client.portUnification is set, so nothing would be encrypted"
                raise RuleError((f"ssl.{key}.location",), reason)
        for key, is_set, effect in (
            ("client.certReload", config.client_cert_reload, "there is nothing to read again"),
            ("ssl.crl", config.ssl_crl, "nobody shows a certificate"),
        ):
            if is_set:
                raise RuleError((key,), f"neither secureClientPort nor client.portUnification is set, so {effect}")
        return
    if config.ssl_crl and config.ssl_client_auth == "none":
        raise RuleError(("ssl.crl",), "with ssl.clientAuth=none nobody is asked for a certificate")
    ports = ("secureClientPort", "client.portUnification")
    if config.client_address is not None and config.secure_client_port == config.client_address[1]:
        raise RuleError(("secureClientPort",), "secureClientPort is clientPort: client.portUnification has both on one")
    if config.ssl_key_store is None:
        raise RuleError(ports, "TLS needs ssl.keyStore.location: `zab certs` makes one")
    if config.ssl_client_auth != "none" and config.ssl_trust_store is None:
        reason = "ssl.trustStore.location has to say who vouches for clients, or ssl.clientAuth=none that nobody does"
        raise RuleError(ports, reason)
    _validate_suites("ssl", config.tls_versions, config.ssl_cipher_suites)


def _validate_suites(prefix: str, versions: frozenset[str], suites: tuple[str, ...]) -> None:
    for version in sorted(versions ^ versions_of(suites) if suites else ()):
        has = "has no suite of" if version in versions else "has suites of, and nobody may speak,"
        key, others = f"{prefix}.ciphersuites", (f"{prefix}.enabledProtocols", f"{prefix}.protocol")
        raise RuleError((key, *others), f"{key} {has} {version}: say so in {others[0]} as well")


def _validate_admin(config: Config) -> None:
    """HTTPS of the admin port shows what members show each other, as in ZooKeeper."""
    for key, is_set in (
        ("admin.forceHttps", config.admin_force_https),
        ("admin.portUnification", config.admin_port_unification),
    ):
        if is_set and not config.admin_enabled:
            raise RuleError((key, "admin.enableServer"), f"{key} is of the admin server, which is switched off")
    if config.admin_needs_client_auth and not config.has_tls_admin:
        raise RuleError(("admin.needClientAuth",), "without admin.forceHttps=true nobody is asked for a certificate")
    if config.admin_needs_client_auth and config.admin_port_unification and not config.admin_force_https:
        reason = "who comes without TLS shows none, and is let in: admin.forceHttps=true turns him away"
        raise RuleError(("admin.needClientAuth", "admin.portUnification"), reason)
    if config.has_tls_admin and config.ssl_quorum_key_store is None:
        raise RuleError(("admin.forceHttps", "admin.portUnification"), "HTTPS needs ssl.quorum.keyStore.location")
    if config.admin_needs_client_auth and config.ssl_quorum_trust_store is None:
        raise RuleError(("admin.needClientAuth",), "ssl.quorum.trustStore.location has to say who vouches for them")
    same_host = config.metrics_host == config.admin_address or config.metrics_host in _WILDCARDS
    if config.exports_metrics and config.admin_enabled and config.metrics_port == config.admin_port and same_host:
        raise RuleError(("metricsProvider.httpPort", "admin.serverPort"), "they are the same port")


def _validate_quorum_tls(config: Config) -> None:
    ports = ("sslQuorum", "portUnification")
    stores = (("keyStore", config.ssl_quorum_key_store), ("trustStore", config.ssl_quorum_trust_store))
    for kind, store in stores:
        key = f"ssl.quorum.{kind}.location"
        if config.has_tls_members and store is None:
            raise RuleError(ports, f"TLS between members needs {key}: `zab certs` makes one")
        if not config.has_tls_members and not config.has_tls_admin and store is not None:
            raise RuleError((key,), "neither sslQuorum nor portUnification is set, so nothing would be encrypted")
    if config.ssl_quorum_crl and not (config.has_tls_members or config.admin_needs_client_auth):
        reason = "neither sslQuorum nor portUnification is set, nor admin.needClientAuth: nobody shows a certificate"
        raise RuleError(("ssl.quorum.crl",), reason)
    if config.ssl_quorum_reload_cert_files and not (config.has_tls_members or config.has_tls_admin):
        reason = "neither sslQuorum nor portUnification is set, nor does the admin server speak HTTPS"
        raise RuleError(("sslQuorumReloadCertFiles",), reason)
    if config.has_tls_members:
        _validate_suites("ssl.quorum", config.quorum_versions_of_tls, config.ssl_quorum_cipher_suites)


def _validate_sessions(config: Config) -> None:
    if config.min_session_timeout_ms > config.max_session_timeout_ms:
        raise RuleError(
            ("minSessionTimeout", "maxSessionTimeout"),
            f"minSessionTimeout ({config.min_session_timeout_ms} ms) is larger than maxSessionTimeout "
            f"({config.max_session_timeout_ms} ms)",
        )


def _validate_limits(config: Config) -> None:
    for key, limit in (("maxUnsyncedBytes", config.max_unsynced_bytes), ("maxRecentBytes", config.max_recent_bytes)):
        if limit < config.max_batch_bytes:
            raise RuleError((key, "maxBatchBytes"), f"{key} ({limit}) holds not even one batch of maxBatchBytes")
    if config.max_pinned_log_bytes < config.log_file_bytes:
        raise RuleError(
            ("maxPinnedLogBytes", "preAllocSize", "txnLogSizeLimitInKb"),
            f"maxPinnedLogBytes ({config.max_pinned_log_bytes}) is less than one log file ({config.log_file_bytes})",
        )
    if config.output_limit_bytes < config.jute_max_buffer_bytes:
        raise RuleError(
            ("outputLimitBytes", "jute.maxbuffer"), "outputLimitBytes is less than one reply of jute.maxbuffer"
        )
    if config.total_input_limit_bytes < 2 * config.jute_max_buffer_bytes:
        raise RuleError(
            ("totalInputLimitBytes", "jute.maxbuffer"),
            "totalInputLimitBytes is less than two requests of jute.maxbuffer",
        )
    if config.total_output_limit_bytes < 2 * config.output_limit_bytes:
        raise RuleError(
            ("totalOutputLimitBytes", "outputLimitBytes"),
            "totalOutputLimitBytes is less than what one connection may have unsent, twice outputLimitBytes",
        )
    if config.max_batch_bytes + 2 * config.jute_max_buffer_bytes > FRAME_BYTES_MAX - FRAME_SPARE_BYTES:
        raise RuleError(
            ("jute.maxbuffer", "maxBatchBytes"),
            f"maxBatchBytes and twice jute.maxbuffer are more than members send each other at once ({FRAME_BYTES_MAX})",
        )
    if config.counter_limit + config.max_batch_count > _COUNTER_MAX:
        raise RuleError(("counterLimit", "maxBatchCount"), "counterLimit leaves no room for the batch that reaches it")


_NO_USERS = "add sasl.usersFile=FILE (`zab user FILE NAME` makes it), or java.security.auth.login.config=FILE"


def _validate_authentication(config: Config) -> None:
    """What is asked of clients, they can do; nothing that is asked for is passed over."""
    if config.sasl_users_file is not None and config.jaas_file is not None:
        raise RuleError(("sasl.usersFile", "java.security.auth.login.config"), "the users of SASL stand in one file")
    for key, value in (
        ("sasl.serverconfig", config.jaas_section if config.jaas_section != _default("jaas_section") else None),
        ("SASLAuthenticationProvider.superPassword", config.sasl_super_password),
    ):
        if value is not None and config.jaas_file is None:
            raise RuleError((key,), f"{key} is of a JAAS file: add java.security.auth.login.config=FILE")
    for key, is_set in (
        ("kerberos.removeHostFromPrincipal", config.removes_kerberos_host),
        ("kerberos.removeRealmFromPrincipal", config.removes_kerberos_realm),
        ("security.auth_to_local", config.auth_to_local is not None),
    ):
        if is_set and config.jaas_file is None:
            raise RuleError((key,), f"{key} is of Kerberos: add java.security.auth.login.config=FILE")
    if config.ensemble_names and not config.asks_for_ensemble:
        reason = "ensembleAuthName has no effect without authProvider.1=…EnsembleAuthenticationProvider"
        raise RuleError(("ensembleAuthName",), reason)
    if config.enforced_schemes and config.enforces_auth is None:
        raise RuleError(("enforce.auth.schemes",), "enforce.auth.schemes has no effect without enforce.auth.enabled")
    if config.enforces_auth and not config.enforced_schemes:
        raise RuleError(("enforce.auth.enabled",), "enforce.auth.schemes is not set: nothing would be enforced")
    by_certificate = "neither secureClientPort nor client.portUnification asks a client for a certificate"
    if config.x509_super_user is not None and not config.offers_x509:
        raise RuleError(("X509AuthenticationProvider.superUser",), f"nobody can be that: {by_certificate}")
    offered = {X509: config.offers_x509, SASL: config.offers_sasl}
    provable = config.acl_schemes - {scheme for scheme, is_offered in offered.items() if not is_offered}
    for scheme in sorted(config.required_schemes - provable):
        hint = {SASL: f": {_NO_USERS}", X509: f": {by_certificate}"}.get(scheme, "")
        keys = ("sessionRequireClientSASLAuth", "requireClientAuthScheme", "enforce.auth.schemes")
        raise RuleError(keys, f"nobody can prove anything by {scheme} here{hint}")


def _validate_members(config: Config) -> None:
    ensemble = config.ensemble
    voters = len(ensemble.participants)
    if voters == 0 and not config.standalone_enabled:
        raise RuleError(("standaloneEnabled",), "standaloneEnabled is false, so at least one participant is needed")
    if ensemble.observers and config.is_standalone:
        raise RuleError(
            (f"server.{min(ensemble.observers)}",), "observers need an ensemble to observe: two participants"
        )
    taken = duplicate_port(ensemble)
    if taken is not None:
        raise RuleError((f"server.{taken[0]}",), taken[1])


def _validate_own_line(config: Config) -> None:
    line = config.ensemble.servers.get(config.server_id)
    if line is None:
        raise RuleError(("server.*",), f"myid is {config.server_id}, but there is no server.{config.server_id} line")
    if config.extended_types_enabled and config.server_id > _SERVER_ID_MAX_WITH_EXTENDED_TYPES:
        raise RuleError(
            ("extendedTypesEnabled",),
            f"with extendedTypesEnabled a server id is at most {_SERVER_ID_MAX_WITH_EXTENDED_TYPES}",
        )
    if config.client_port is None or line.client_port is None:
        return
    anywhere = config.client_port_address in _WILDCARDS
    if config.client_port != line.client_port or not (anywhere or config.client_port_address == line.client_host):
        raise RuleError(
            ("clientPort", "clientPortAddress"),
            f"client address {config.client_port_address}:{config.client_port} differs from the one in the server "
            f"line, {line.client_host}:{line.client_port}",
        )


def _default(name: str) -> object:
    return getattr(attrs.fields(Config), name).default


def _is_relied_on(key: str, value: str) -> bool:
    """Whether it would have an effect, or be refused, where it belongs."""
    fields = [attribute.metadata["key"] for attribute in fields_with_keys(Config)]
    is_field = any(key.startswith(each[:-1]) if each.endswith("*") else key == each for each in fields)
    return is_field or why_refused(key, value) is not None


def _why_idle(key: str, config: Config) -> str | None:
    """What is not there that this key is for; None: it is there."""
    if key.startswith("ssl.quorum."):
        has_tls = config.has_tls_members or config.has_tls_admin
        return None if has_tls else "neither sslQuorum nor portUnification is set"
    if key.startswith("ssl."):
        return None if config.has_tls_clients else "neither secureClientPort nor client.portUnification is set"
    if key == "quorum.secretRequired" and config.quorum_secret_file is None:
        return "quorum.secretFile is not set: nobody is asked for a secret"
    return None


class _Parser:
    """One file on its way to a Config: where each key stood, and what to warn about."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        # Where each key stands: file and line.
        self.places: dict[str, tuple[str, int]] = {}
        self.warnings: list[ConfigWarning] = []
        self.takes_several = False
        """Whether a member may have several addresses."""

    def parse(self, text: str, my_id: int | None, dynamic_text: str | None) -> Config:
        entries: dict[str, Property] = {}
        for entry in entries_of(text, self.filename):
            key = plain_key(entry.key)
            if key != entry.key and key.startswith(OPENING):
                raise ConfigError(self.filename, entry.line, f"{entry.key}: in a file it is written {key}")
            if key in entries:
                self._warn(entries[key].line, key, f"it is set again in line {entry.line}, which counts")
            entries[key] = attrs.evolve(entry, key=key)
        self.places = {key: (self.filename, entry.line) for key, entry in entries.items()}
        values: dict[str, Any] = {}
        for attribute in fields_with_keys(Config):
            if attribute.metadata["key"].endswith("*"):
                self._read_family(attribute, entries, values)
                continue
            entry_of_field = entries.pop(attribute.metadata["key"], None)
            if entry_of_field is not None:
                self._read_value(attribute, entry_of_field, values)
        if "data_dir" not in values:
            raise ConfigError(self.filename, None, "dataDir is not set")
        self.takes_several = values.get("multi_address_enabled", False)
        server_lines = [entry for key, entry in entries.items() if is_dynamic(key)]
        for key, entry in entries.items():
            if not is_dynamic(key) and key != "version":
                self._warn_ignored(entry)
        if values.get("dynamic_config_file") is None:
            version = entries["version"].value if "version" in entries else "0"
            ensemble = self._ensemble(server_lines, self.filename, version)
        else:
            self._refuse_both(server_lines)
            ensemble = self._ensemble_of_file(values["dynamic_config_file"], dynamic_text)
        return self._finish(Config(**values, ensemble=ensemble, file=self.filename), my_id)

    def _read_family(
        self, attribute: attrs.Attribute[Any], entries: dict[str, Property], values: dict[str, Any]
    ) -> None:
        """All keys that begin as the field's does; they are taken out."""
        beginning = attribute.metadata["key"].removesuffix("*")
        keys = [key for key in entries if key.startswith(beginning)]
        values[attribute.name] = tuple([self._read(attribute, entries.pop(key)) for key in keys])
        if keys:
            self.places[attribute.metadata["key"]] = self.places[keys[0]]

    def _read(self, attribute: attrs.Attribute[Any], entry: Property) -> Any:
        try:
            return attribute.metadata["read"](entry.value)
        except ValueError as error:
            raise ConfigError(self.filename, entry.line, f"{entry.key}: {error}") from None

    def _read_value(self, attribute: attrs.Attribute[Any], entry: Property, values: dict[str, Any]) -> None:
        details = attribute.metadata
        value = self._read(attribute, entry)
        if attribute.name in _DEFAULT_AT_MINUS_ONE and value == -1:
            return
        if details["raised_to"] is not None and value < details["raised_to"]:
            self._warn(entry.line, entry.key, f"{value} is too small; {details['raised_to']} is used")
            value = details["raised_to"]
        # Port 0 is ZooKeeper's way to say that there is none.
        values[attribute.name] = None if attribute.name == "client_port" and value == 0 else value

    def _refuse_both(self, server_lines: list[Property]) -> None:
        for entry in server_lines:
            reason = f"{entry.key} belongs into the file that dynamicConfigFile names"
            raise ConfigError(self.filename, entry.line, reason)

    def _ensemble_of_file(self, path: str, text: str | None) -> Ensemble:
        """The dynamic file: the version is in its name (`zoo.cfg.dynamic.100000004`), never in its text."""
        if text is None:
            raise ConfigError(path, None, "the dynamic configuration was not read")
        server_lines = {}
        for entry in entries_of(text, path):
            if entry.key == "version":
                raise ConfigError(path, entry.line, "a dynamic file has its version in its name, not inside")
            if is_dynamic(entry.key):
                server_lines[entry.key] = entry
            elif _is_relied_on(plain_key(entry.key), entry.value):
                reason = f"it has no effect in a dynamic file: write it into {self.filename}, or remove the line"
                raise ConfigError(path, entry.line, f"{entry.key}: {reason}")
            else:
                self._warn(entry.line, entry.key, "the key has no place in a dynamic file and is ignored", path)
        suffix = _VERSION_SUFFIX.search(path)
        return self._ensemble(list(server_lines.values()), path, suffix[1] if suffix else "0")

    def _ensemble(self, server_lines: list[Property], path: str, version: str) -> Ensemble:
        if not re.fullmatch(r"[0-9a-fA-F]{1,16}", version, re.ASCII):
            line_of_version = self.places["version"][1] if "version" in self.places else None
            raise ConfigError(path, line_of_version, f"version {version!r} is not a hexadecimal number")
        try:
            ensemble = parse_dynamic(server_lines, int(version, 16))
        except LineError as error:
            raise ConfigError(path, error.line or None, error.reason) from None
        for entry in server_lines:
            self.places[entry.key] = (path, entry.line)
            line = ensemble.servers.get(int(entry.key.partition(".")[2])) if entry.key.startswith("server.") else None
            if line is not None and line.others and not self.takes_several:
                reason = f"{entry.key} has several addresses: add multiAddress.enabled=true to {self.filename}"
                raise ConfigError(path, entry.line, reason)
            if line is not None and line.has_secure_part:
                raise ConfigError(
                    path,
                    entry.line,
                    f"{entry.key} has a secure client port: write secureClientPort in the file of that member",
                )
        return ensemble

    def _finish(self, config: Config, my_id: int | None) -> Config:
        if config.is_standalone:
            config = attrs.evolve(config, server_id=STANDALONE_SERVER_ID)
        elif my_id is not None:
            config = attrs.evolve(config, server_id=my_id)
        try:
            validate(config)
        except RuleError as error:
            places = [self.places[key] for key in error.keys if key in self.places]
            file, line = max(places, key=lambda place: place[1], default=(self.filename, None))
            raise ConfigError(file, line, error.reason) from None
        self._refuse_idle_protection(config)
        self._look_at_unverified_hosts(config)
        self._warn_members(config)
        if SASL in config.auth_providers and not config.offers_sasl:
            file, line = self.places["authProvider.*"]
            self._warn(line, "authProvider.*", f"nobody can log in by SASL: {_NO_USERS}", file)
        if IP in config.required_schemes:
            self._warn(
                self.places["enforce.auth.schemes"][1], "enforce.auth.schemes", "every client has ip: all are let in"
            )
        return attrs.evolve(config, warnings=tuple(self.warnings))

    def _refuse_idle_protection(self, config: Config) -> None:
        """Keys of TLS without TLS, and of a secret without one, that say anything but that it is off; also if they say
        the default: who writes it believes that it is in force."""
        for attribute in fields_with_keys(Config):
            key = attribute.metadata["key"]
            value = getattr(config, attribute.name)
            reason = _why_idle(key, config) if key in self.places and value not in _OFF else None
            if reason is not None:
                file, line = self.places[key]
                raise ConfigError(file, line, f"{key}: {reason}: set that, or remove the line")

    def _look_at_unverified_hosts(self, config: Config) -> None:
        """Names of members are always checked. Where members speak no TLS there are none, so nothing is left open."""
        keys = ("ssl.quorum.hostnameVerification", "ssl.quorum.clientHostnameVerification")
        values = (config.ssl_quorum_hostname_verification, config.ssl_quorum_client_hostname_verification)
        for key, value in zip(keys, values, strict=True):
            if value != "false":
                continue
            file, line = self.places[key]
            if config.has_tls_members:
                raise ConfigError(file, line, f"{key}: 'false' is not to be had: {HOSTS_ARE_CHECKED}. Only true is")
            self._warn(line, key, "members speak no TLS, so there are no names to be checked", file)

    def _warn_members(self, config: Config) -> None:
        voters = len(config.ensemble.participants)
        if config.peer_type is not None and config.peer_type != config.role.value:
            reason = f"the server line says {config.role.value}, which counts"
            self._warn(self.places["peerType"][1], "peerType", reason)
        if voters == 1 and config.is_standalone:
            self._warn_servers("one participant is no ensemble; it runs standalone")
        elif voters and voters % 2 == 0:
            survived = f"{(voters - 1) // 2}, as {voters - 1} would" if voters > 2 else "none"
            self._warn_servers(f"{voters} participants survive the failure of {survived}; use an odd number")

    def _warn_servers(self, reason: str) -> None:
        """A warning about all server lines, put at the first."""
        file, line = min(place for key, place in self.places.items() if key.startswith("server."))
        self._warn(line, "server.*", reason, file)

    def _warn_ignored(self, entry: Property) -> None:
        refusal = why_refused(entry.key, entry.value)
        why = why_ignored(entry.key, entry.value)
        meant = f". Did you mean {near}?" if why is None and (near := nearest(entry.key, known_keys())) else ""
        if refusal is not None:
            said = f"{entry.key}: {refusal}{meant or '.'} Remove the line to go on without it"
            raise ConfigError(self.filename, entry.line, said)
        if why is None:
            self._warn(entry.line, entry.key, f"{UNKNOWN_KEY}{meant}")
        elif why:
            self._warn(entry.line, entry.key, f"the key has no effect: {why}")

    def _warn(self, line: int, key: str, reason: str, path: str | None = None) -> None:
        self.warnings.append(ConfigWarning(path or self.filename, line, key, reason))


def entries_of(text: str, filename: str) -> list[Property]:
    """The lines of a file that set something. Raises ConfigError."""
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(filename, error.line, error.reason) from None


def known_keys() -> list[str]:
    """The names of all keys that a file may have, but for families and the lines about members."""
    own = [attribute.metadata["key"] for attribute in fields_with_keys(Config)]
    return [key for key in own if not key.endswith("*")] + ignored_keys()


def plain_key(key: str) -> str:
    """The key without the prefix that it has as a Java property."""
    return key.removeprefix("zookeeper.")
