"""Keys of ZooKeeper that a `zoo.cfg` may have and that this server does not act on, each with what to tell its owner.

Three kinds. What *security* rests on is refused: only a value that says in so many words that it is off is none. A
*feature that is not built*: the key asks for something that does not happen, so it is named in a warning
unless its value switches the feature off. A key *without a counterpart*: it tunes a part of ZooKeeper's machinery that
does not exist here, or something that is always done; it is named whatever its value. Neither of these is refused.

`*` at the end of a pattern stands for any ending. The first pattern that fits counts.
"""

from __future__ import annotations

import re

# (patterns, what the warning says after "the key is ignored: ")
REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ssl.ocsp", "ssl.quorum.ocsp"),
        "OCSP is not supported; ssl.crl and ssl.quorum.crl name lists of revoked certificates",
    ),
    (
        ("ssl.quorum.context.supplier.class",),
        "no Java class can be loaded here; ssl.quorum.keyStore and ssl.quorum.trustStore configure members' TLS",
    ),
    (
        ("ssl.quorum.*",),
        "this part of TLS between members is not supported",
    ),
    (
        ("ssl.clientHostnameVerification", "ssl.allowReverseDnsLookup"),
        "the name in a client's certificate is not compared with its address; use ACLs or firewall rules",
    ),
    (("ssl.authProvider",), "a certificate gives an identity of the scheme x509, and of no other"),
    (("fips-mode",), "OpenSSL's own configuration determines whether it complies with FIPS"),
    (("ssl.*", "netty.ssl.*"), "this part of TLS for clients is not supported"),
    (
        (
            "X509AuthenticationProvider.*",
            "IPAuthenticationProvider.*",
        ),
        "this part of authentication would not be enforced",
    ),
    (
        ("metricsProvider.https*", "metricsProvider.ssl.*"),
        "the metrics port does not support TLS; metricsProvider.httpHost=127.0.0.1 keeps it on this machine",
    ),
    (("quorum.auth.*",), "members prove who they are with quorum.secretFile, not by SASL"),
    (
        ("kerberos.canonicalizeHostNames",),
        "members prove who they are with quorum.secretFile, not by Kerberos",
    ),
)
"""What somebody's security may rest on. A server that went on without it would be open while its owner believes that it
is not."""

NOT_BUILT: tuple[tuple[tuple[str, ...], str], ...] = (
    (("quorum.cnxn.threads.size",), "links have no threads"),
    (("enableEagerACLCheck",), "ACLs are checked by the leader alone"),
    (("oraclePath",), "an oracle may tell both of two members to go on alone: add a third voter"),
    (("snapshot.compression.method",), "a snapshot is the same bytes on every member, and nothing in it is compressed"),
)

NO_COUNTERPART: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "metricsProvider.numWorkerThreads",
            "metricsProvider.maxQueueSize",
            "metricsProvider.workerShutdownTimeoutMs",
        ),
        "figures are kept without a thread or a queue",
    ),
    (("admin.httpVersion",), "only HTTP/1.1 is supported"),
    (("forceSync",), "what is acknowledged is always synced; there is no way to switch that off"),
    (("syncEnabled", "observer.syncEnabled"), "observers always keep a log and snapshots"),
    (("digest.enabled",), "the digest of the tree is always kept and compared"),
    (("closeSessionTxn.enabled",), "the ephemerals of a closed session are always in its transaction"),
    (("serializeLastProcessedZxid.enabled",), "a snapshot is exactly the tree at the zxid in its name"),
    (("snapshot.trust.empty",), "a member without a snapshot whose log begins later is synchronized from the leader"),
    (("forceSnapshotSync",), "how a learner is synchronized follows from its history"),
    (("snapshotSizeFactor",), "a learner gets the log as long as the log has its position, else a snapshot file"),
    (("commitLogCount",), "recent batches are kept by bytes: maxRecentBytes"),
    (
        ("flushDelay", "maxBatchSize", "maxWriteQueuePollTime"),
        "batches grow with the load: maxBatchBytes, maxBatchCount",
    ),
    (("leader.maxConcurrentDiffSyncs",), "the log is sent to any number of learners at once"),
    (
        ("maxResponseCacheSize", "maxGetChildrenResponseCacheSize"),
        "a reply is joined from parts that are kept ready; there is no cache to size",
    ),
    (
        ("fastleader.minNotificationInterval", "fastleader.maxNotificationInterval"),
        "the election itself decides when a vote is sent again",
    ),
    (("leaderConnectDelayDuringRetryMs",), "a connection to the leader is tried once for each election"),
    (("maintain_connection_when_client_auth_fails",), "a client whose authentication fails is always disconnected"),
    (
        ("request_throttler.shutdownTimeout",),
        "a server that stops does not wait for requests: no client was told that they are done",
    ),
    (("ssl.hostnameVerification",), "it applies to the connecting end, and a server opens no such connections"),
    (("ssl.handshakeDetectionTimeoutMillis",), "a client has ten seconds for its handshake"),
    (("ssl.sslProvider",), "TLS is provided by Python's OpenSSL"),
    (
        ("jaasLoginRenew", "kerberos.minReLoginTimeMs", "kinit"),
        "a server proves itself with its keytab, and has no ticket to renew",
    ),
    (("requireKerberosConfig",), "the principal of a server always includes its realm"),
    (("tcpKeepAlive",), "links between members always have it"),
    (("quorumCnxnTimeoutMs",), "a silent election link is closed after syncLimit ticks"),
    (
        (
            "nio.*",
            "netty.*",
            "serverCnxnFactory",
            "commitProcessor.*",
            "forward_learner_requests_to_commit_processor_disabled",
            "follower.*",
            "leader.nodelay",
            "leader.closeSocketAsync",
            "leader.ackLoggingFrequency",
            "leader.maxTimeToWaitForEpoch",
            "learner.*",
            "observer.*",
            "watchManagerName",
            "watcherClean*",
            "maxInProcessingDeadWatchers",
            "bitHashCacheSize",
            "messageTracker.*",
            "emulate353TTLNodes",
            "db.autocreate",
            "jute.maxbuffer.extrasize",
            "jmx.*",
            "jvm.pause.*",
        ),
        "it tunes a part of ZooKeeper that this server does not have",
    ),
)

_NAMED_LIKE_SECURITY = re.compile(
    "ssl|tls|secur|secret|sasl|auth|krb|kerberos|jaas|x509|cert|keystore|truststore|audit", re.I
)
"""Written wrong, such a key would do nothing while its owner believes that it does."""
_OFF_FOR_SURE = {
    "ssl.authProvider": {"x509"},
}
"""Where it is not `false` that says so."""
_OFF = frozenset({"false", "no", "0", "-1", ""})
_WITHOUT_COUNTERPART = frozenset(pattern for patterns, _ in NO_COUNTERPART for pattern in patterns)


def why_refused(key: str, value: str) -> str | None:
    """What to say about a key that is not honoured, and on which somebody's security may rest; None if it is none."""
    if value.lower() in _OFF_FOR_SURE.get(key, {"false"}) or _is_harmless(key):
        return None
    found = next((reason for patterns, reason in REFUSED if _fits(key, patterns)), None)
    if found is None and _NAMED_LIKE_SECURITY.search(key):
        return "the key is unknown, and resembles a security key"
    return found


def why_ignored(key: str, value: str) -> str | None:
    """What to say about a key of ZooKeeper that has no effect; "" when nothing needs saying; None if it is unknown."""
    if not _is_harmless(key) and any(_fits(key, patterns) for patterns, _ in REFUSED):
        return ""
    for patterns, reason in NOT_BUILT:
        if _fits(key, patterns):
            return "" if value.lower() in _OFF else reason
    for patterns, reason in NO_COUNTERPART:
        if _fits(key, patterns):
            return reason
    return None


def ignored_keys() -> list[str]:
    """The names of all keys of ZooKeeper that are known and not acted on; those that stand for many are left out."""
    groups = (*REFUSED, *NOT_BUILT, *NO_COUNTERPART)
    return [pattern for patterns, _ in groups for pattern in patterns if not pattern.endswith("*")]


def _is_harmless(key: str) -> bool:
    """Whether a key belongs to something that does not exist here. A key that is known only by its beginning may belong
    to anything."""
    return key in _WITHOUT_COUNTERPART or any(_fits(key, patterns) for patterns, _ in NOT_BUILT)


def _fits(key: str, patterns: tuple[str, ...]) -> bool:
    return any(key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern for pattern in patterns)
