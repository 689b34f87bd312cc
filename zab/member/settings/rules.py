"""The rules between the fields of a `Config`, independent of the source of their values.

    broken_rules(config) -> Iterator[BrokenRule]    which keys to look at, and what is wrong

Not here: values that are invalid by themselves (checked by the field), files and their lines (`zoo_cfg`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from zab.configuration.blocks.cipher_suites import versions_of
from zab.configuration.blocks.login import SECTION_DEFAULT
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT, duplicate_ports
from zab.member.settings.batches import COUNTER_MAX
from zab.member.settings.config import SERVER_ID_UNKNOWN, Config
from zab.member.settings.schemes import SASL, X509
from zab.protocol.frame_limits import FRAME_BYTES_MAX, FRAME_SPARE_BYTES

NO_USERS: Final = "add sasl.usersFile=FILE (`zab user FILE NAME` makes it), or java.security.auth.login.config=FILE"
# A server id of 255 would make the ids of its sessions look like the stored owners of containers and timed znodes.
_SERVER_ID_MAX_WITH_EXTENDED_TYPES: Final = 254
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})


@frozen
class BrokenRule:
    """Fields contradict each other; `keys` are the keys to look at, `reason` says what is wrong."""

    keys: tuple[str, ...]
    reason: str


def broken_rules(config: Config) -> Iterator[BrokenRule]:
    """All that contradicts the rules between fields."""
    yield from _validate_sessions(config)
    yield from _validate_limits(config)
    yield from _validate_authentication(config)
    yield from _validate_members(config)
    if config.clients.port is None and config.clients.address != CLIENT_HOST_DEFAULT:
        yield BrokenRule(("clientPortAddress",), "clientPortAddress is set but clientPort is not")
    if config.membership.observer_masters_near and not config.membership.observer_master_port:
        yield BrokenRule(("observerMaster.near",), "observerMaster.near is set but observerMasterPort is not")
    yield from _validate_tls(config)
    yield from _validate_quorum_tls(config)
    yield from _validate_admin(config)
    if config.is_standalone:
        if config.client_address is None and config.secure_client_address is None:
            yield BrokenRule(("clientPort",), "clientPort is not set: nobody could reach a standalone server")
        return
    for key, ticks in (("initLimit", config.timing.init_limit_ticks), ("syncLimit", config.timing.sync_limit_ticks)):
        if ticks == 0:
            yield BrokenRule((key,), f"{key} is not set; an ensemble needs it")
    if config.server_id != SERVER_ID_UNKNOWN:
        yield from _validate_own_line(config)


def _validate_tls(config: Config) -> Iterator[BrokenRule]:
    if config.clients.port_unification and config.client_address is None:
        yield BrokenRule(("client.portUnification",), "client.portUnification is set but clientPort is not")
    if config.clients.secure_port is None and config.clients.secure_address != CLIENT_HOST_DEFAULT:
        yield BrokenRule(("secureClientPortAddress",), "secureClientPortAddress is set but secureClientPort is not")
    if not config.clients.has_tls:
        for key, store in (("keyStore", config.client_tls.key_store), ("trustStore", config.client_tls.trust_store)):
            if store is not None:
                reason = "neither secureClientPort nor client.portUnification is set, so nothing would be encrypted"
                yield BrokenRule((f"ssl.{key}.location",), reason)
        for key, is_set, effect in (
            ("client.certReload", config.client_tls.reloads, "there is nothing to read again"),
            ("ssl.crl", config.client_tls.crl, "nobody shows a certificate"),
        ):
            if is_set:
                yield BrokenRule((key,), f"neither secureClientPort nor client.portUnification is set, so {effect}")
        return
    if config.client_tls.crl and config.clients.certificates == "none":
        yield BrokenRule(("ssl.crl",), "with ssl.clientAuth=none nobody is asked for a certificate")
    ports = ("secureClientPort", "client.portUnification")
    if config.client_address is not None and config.clients.secure_port == config.client_address[1]:
        yield BrokenRule(
            ("secureClientPort",), "secureClientPort is clientPort: client.portUnification has both on one"
        )
    if config.client_tls.key_store is None:
        yield BrokenRule(ports, "TLS needs ssl.keyStore.location: `zab certs` makes one")
    if config.clients.certificates != "none" and config.client_tls.trust_store is None:
        reason = "ssl.trustStore.location has to say who vouches for clients, or ssl.clientAuth=none that nobody does"
        yield BrokenRule(ports, reason)
    yield from _validate_suites("ssl", config.client_tls_versions, config.client_tls.cipher_suites)


def _validate_suites(prefix: str, versions: frozenset[str], suites: tuple[str, ...]) -> Iterator[BrokenRule]:
    for version in sorted(versions ^ versions_of(suites) if suites else ()):
        has = "has no suite of" if version in versions else "has suites of, and nobody may speak,"
        key, others = f"{prefix}.ciphersuites", (f"{prefix}.enabledProtocols", f"{prefix}.protocol")
        yield BrokenRule((key, *others), f"{key} {has} {version}: say so in {others[0]} as well")


def _validate_admin(config: Config) -> Iterator[BrokenRule]:
    """Check the admin port, whose HTTPS uses the stores of TLS between members, as in ZooKeeper."""
    for key, is_set in (
        ("admin.forceHttps", config.admin.force_https),
        ("admin.portUnification", config.admin.port_unification),
    ):
        if is_set and not config.admin.enabled:
            yield BrokenRule((key, "admin.enableServer"), f"{key} concerns the admin server, which is switched off")
    if config.admin.needs_client_auth and not config.admin.has_tls:
        yield BrokenRule(("admin.needClientAuth",), "without admin.forceHttps=true nobody is asked for a certificate")
    if config.admin.needs_client_auth and config.admin.port_unification and not config.admin.force_https:
        reason = "a client without TLS shows none, and is accepted: set admin.forceHttps=true to refuse it"
        yield BrokenRule(("admin.needClientAuth", "admin.portUnification"), reason)
    if config.admin.has_tls and config.quorum_tls.key_store is None:
        yield BrokenRule(("admin.forceHttps", "admin.portUnification"), "HTTPS needs ssl.quorum.keyStore.location")
    if config.admin.needs_client_auth and config.quorum_tls.trust_store is None:
        yield BrokenRule(("admin.needClientAuth",), "ssl.quorum.trustStore.location has to say who vouches for them")
    same_host = config.metrics.host == config.admin.address or config.metrics.host in _WILDCARDS
    if (
        config.commands.exports_metrics
        and config.admin.enabled
        and config.metrics.port == config.admin.port
        and same_host
    ):
        yield BrokenRule(("metricsProvider.httpPort", "admin.serverPort"), "they are the same port")


def _validate_quorum_tls(config: Config) -> Iterator[BrokenRule]:
    ports = ("sslQuorum", "portUnification")
    stores = (("keyStore", config.quorum_tls.key_store), ("trustStore", config.quorum_tls.trust_store))
    for kind, store in stores:
        key = f"ssl.quorum.{kind}.location"
        if config.quorum.has_tls and store is None:
            yield BrokenRule(ports, f"TLS between members needs {key}: `zab certs` makes one")
        if not config.quorum.has_tls and not config.admin.has_tls and store is not None:
            yield BrokenRule((key,), "neither sslQuorum nor portUnification is set, so nothing would be encrypted")
    if config.quorum_tls.crl and not (config.quorum.has_tls or config.admin.needs_client_auth):
        reason = "neither sslQuorum nor portUnification is set, nor admin.needClientAuth: nobody shows a certificate"
        yield BrokenRule(("ssl.quorum.crl",), reason)
    if config.quorum_tls.reloads and not (config.quorum.has_tls or config.admin.has_tls):
        reason = "neither sslQuorum nor portUnification is set, nor does the admin server speak HTTPS"
        yield BrokenRule(("sslQuorumReloadCertFiles",), reason)
    if config.quorum.has_tls:
        yield from _validate_suites("ssl.quorum", config.quorum_tls_versions, config.quorum_tls.cipher_suites)


def _validate_sessions(config: Config) -> Iterator[BrokenRule]:
    if config.timing.min_session_timeout_ms > config.timing.max_session_timeout_ms:
        yield BrokenRule(
            ("minSessionTimeout", "maxSessionTimeout"),
            f"minSessionTimeout ({config.timing.min_session_timeout_ms} ms) is larger than maxSessionTimeout "
            f"({config.timing.max_session_timeout_ms} ms)",
        )


def _validate_limits(config: Config) -> Iterator[BrokenRule]:
    for key, limit in (
        ("maxUnsyncedBytes", config.batches.max_unsynced_bytes),
        ("maxRecentBytes", config.batches.max_recent_bytes),
    ):
        if limit < config.batches.max_batch_bytes:
            yield BrokenRule((key, "maxBatchBytes"), f"{key} ({limit}) holds not even one batch of maxBatchBytes")
    if config.storage.max_pinned_log_bytes < config.storage.log_file_bytes:
        yield BrokenRule(
            ("maxPinnedLogBytes", "preAllocSize", "txnLogSizeLimitInKb"),
            f"maxPinnedLogBytes ({config.storage.max_pinned_log_bytes}) is less than one log file "
            f"({config.storage.log_file_bytes})",
        )
    if config.limits.output_limit_bytes < config.requests.jute_max_buffer_bytes:
        yield BrokenRule(
            ("outputLimitBytes", "jute.maxbuffer"), "outputLimitBytes is less than one reply of jute.maxbuffer"
        )
    if config.limits.total_input_limit_bytes < 2 * config.requests.jute_max_buffer_bytes:
        yield BrokenRule(
            ("totalInputLimitBytes", "jute.maxbuffer"),
            "totalInputLimitBytes is less than two requests of jute.maxbuffer",
        )
    if config.limits.total_output_limit_bytes < 2 * config.limits.output_limit_bytes:
        yield BrokenRule(
            ("totalOutputLimitBytes", "outputLimitBytes"),
            "totalOutputLimitBytes is less than what one connection may have unsent, twice outputLimitBytes",
        )
    if config.batches.max_batch_bytes + 2 * config.requests.jute_max_buffer_bytes > FRAME_BYTES_MAX - FRAME_SPARE_BYTES:
        yield BrokenRule(
            ("jute.maxbuffer", "maxBatchBytes"),
            f"maxBatchBytes and twice jute.maxbuffer are more than members send each other at once ({FRAME_BYTES_MAX})",
        )
    if config.batches.counter_limit + config.batches.max_batch_count > COUNTER_MAX:
        yield BrokenRule(("counterLimit", "maxBatchCount"), "counterLimit leaves no room for the batch that reaches it")


def _validate_authentication(config: Config) -> Iterator[BrokenRule]:
    """Check that clients can do what is required of them, and that no requirement is ignored."""
    if config.login.users_file is not None and config.login.jaas_file is not None:
        yield BrokenRule(("sasl.usersFile", "java.security.auth.login.config"), "the users of SASL are in one file")
    for key, value in (
        ("sasl.serverconfig", config.login.jaas_section if config.login.jaas_section != SECTION_DEFAULT else None),
        ("SASLAuthenticationProvider.superPassword", config.login.super_password),
    ):
        if value is not None and config.login.jaas_file is None:
            yield BrokenRule((key,), f"{key} concerns a JAAS file: add java.security.auth.login.config=FILE")
    for key, is_set in (
        ("kerberos.removeHostFromPrincipal", config.login.removes_kerberos_host),
        ("kerberos.removeRealmFromPrincipal", config.login.removes_kerberos_realm),
        ("security.auth_to_local", config.login.auth_to_local is not None),
    ):
        if is_set and config.login.jaas_file is None:
            yield BrokenRule((key,), f"{key} concerns Kerberos: add java.security.auth.login.config=FILE")
    if config.access.ensemble_names and not config.access.asks_for_ensemble:
        reason = "ensembleAuthName has no effect without authProvider.1=…EnsembleAuthenticationProvider"
        yield BrokenRule(("ensembleAuthName",), reason)
    if config.access.enforced_schemes and config.access.enforces_auth is None:
        yield BrokenRule(("enforce.auth.schemes",), "enforce.auth.schemes has no effect without enforce.auth.enabled")
    if config.access.enforces_auth and not config.access.enforced_schemes:
        yield BrokenRule(("enforce.auth.enabled",), "enforce.auth.schemes is not set: nothing would be enforced")
    by_certificate = "neither secureClientPort nor client.portUnification asks a client for a certificate"
    if config.access.x509_super_user is not None and not config.clients.offers_x509:
        yield BrokenRule(("X509AuthenticationProvider.superUser",), f"nobody can be that: {by_certificate}")
    offered = {X509: config.clients.offers_x509, SASL: config.login.is_offered}
    provable = config.acl_schemes - {scheme for scheme, is_offered in offered.items() if not is_offered}
    for scheme in sorted(config.access.required_schemes - provable):
        hint = {SASL: f": {NO_USERS}", X509: f": {by_certificate}"}.get(scheme, "")
        keys = ("sessionRequireClientSASLAuth", "requireClientAuthScheme", "enforce.auth.schemes")
        yield BrokenRule(keys, f"nobody can prove anything by {scheme} here{hint}")


def _validate_members(config: Config) -> Iterator[BrokenRule]:
    ensemble = config.ensemble
    voters = len(ensemble.participants)
    if voters == 0 and not config.membership.standalone_enabled:
        yield BrokenRule(("standaloneEnabled",), "standaloneEnabled is false, so at least one participant is needed")
    elif ensemble.observers and config.is_standalone:
        yield BrokenRule(
            (f"server.{min(ensemble.observers)}",), "observers need an ensemble to observe: two participants"
        )
    for server_id, reason in duplicate_ports(ensemble):
        yield BrokenRule((f"server.{server_id}",), reason)


def _validate_own_line(config: Config) -> Iterator[BrokenRule]:
    line = config.ensemble.servers.get(config.server_id)
    if line is None:
        yield BrokenRule(("server.*",), f"myid is {config.server_id}, but there is no server.{config.server_id} line")
    if config.tree.extended_types_enabled and config.server_id > _SERVER_ID_MAX_WITH_EXTENDED_TYPES:
        yield BrokenRule(
            ("extendedTypesEnabled",),
            f"with extendedTypesEnabled a server id is at most {_SERVER_ID_MAX_WITH_EXTENDED_TYPES}",
        )
    if line is None or config.clients.port is None or line.client_port is None:
        return
    anywhere = config.clients.address in _WILDCARDS
    if config.clients.port != line.client_port or not (anywhere or config.clients.address == line.client_host):
        yield BrokenRule(
            ("clientPort", "clientPortAddress"),
            f"client address {config.clients.address}:{config.clients.port} differs from the one in the server "
            f"line, {line.client_host}:{line.client_port}",
        )
