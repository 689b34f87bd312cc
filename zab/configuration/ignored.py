"""Keys of ZooKeeper that a `zoo.cfg` may have and that this server does not act on, each with what to tell its owner.

Two kinds. A *feature that is not built*: the key asks for something that does not happen, so it is named in a warning
unless its value switches the feature off. A key *without a counterpart*: it tunes a part of ZooKeeper's machinery that
does not exist here, or something that is always done; it is named whatever its value. Neither is ever refused.

`*` at the end of a pattern stands for any ending. The first pattern that fits counts.
"""

from __future__ import annotations

# (patterns, what the warning says after "the key is ignored: ")
NOT_BUILT: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "secureClientPort",
            "secureClientPortAddress",
            "sslQuorum",
            "sslQuorumReloadCertFiles",
            "portUnification",
            "ssl.*",
            "client.portUnification",
            "client.certReload",
            "fips-mode",
        ),
        "TLS is not built yet; no such port is opened and no link is encrypted",
    ),
    (
        (
            "quorum.auth.*",
            "quorum.cnxn.threads.size",
            "sessionRequireClientSASLAuth",
            "allowSaslFailedClients",
            "enforce.auth.*",
            "ensembleAuthName",
            "authProvider.*",
            "X509AuthenticationProvider.*",
            "IPAuthenticationProvider.*",
            "superUser",
        ),
        "of authentication only digest, ip and world are built yet; nothing of this is enforced",
    ),
    (("enableEagerACLCheck",), "ACLs are checked by the leader alone"),
    (("admin.*",), "the admin HTTP server is not built yet"),
    (("metricsProvider.*",), "metrics are not exported over HTTP yet; the word mntr has them"),
    (("reconfigEnabled",), "dynamic reconfiguration is not built yet; the membership is what the file says"),
    (("localSessionsEnabled", "localSessionsUpgradingEnabled"), "every session is global"),
    (("observerMasterPort", "observerMaster.*"), "observers follow the leader only"),
    (("multiAddress.*",), "several addresses for one server are not built yet; the first of each is used"),
    (("oraclePath",), "the oracle of two-member ensembles is not built yet"),
    (("readonlymode.enabled",), "read-only mode is not built yet; a member without a quorum serves nobody"),
    (("audit.enable",), "the audit log is not built yet"),
    (("snapshot.compression.method",), "snapshots are written without compression inside"),
    (
        ("request_throttle*", "connection_throttle*", "throttled_op_wait_time", "largeRequest*"),
        "of the throttles only globalOutstandingLimit and the limits per connection are built yet",
    ),
)

NO_COUNTERPART: tuple[tuple[tuple[str, ...], str], ...] = (
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
    (("DigestAuthenticationProvider.digestAlg",), "digests are SHA-1, as ZooKeeper's are unless told otherwise"),
    (
        ("maxResponseCacheSize", "maxGetChildrenResponseCacheSize"),
        "a reply is joined from parts that are kept ready; there is no cache to size",
    ),
    (
        ("fastleader.minNotificationInterval", "fastleader.maxNotificationInterval"),
        "a vote is sent again as the election itself sees fit",
    ),
    (("leaderConnectDelayDuringRetryMs",), "a connection to the leader is tried once for each election"),
    (("tcpKeepAlive",), "links between members always have it"),
    (("quorumCnxnTimeoutMs",), "a link of the election that says nothing is given up after syncLimit ticks"),
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
            "request_stale_*",
            "emulate353TTLNodes",
            "db.autocreate",
            "jute.maxbuffer.extrasize",
            "jmx.*",
            "jvm.pause.*",
        ),
        "it tunes a part of ZooKeeper that this server does not have",
    ),
)

_OFF = frozenset({"false", "no", "0", "-1", ""})


def why_ignored(key: str, value: str) -> str | None:
    """What to say about a key of ZooKeeper that has no effect; "" when nothing needs saying; None if it is unknown."""
    for patterns, reason in NOT_BUILT:
        if _fits(key, patterns):
            return "" if value.lower() in _OFF else reason
    for patterns, reason in NO_COUNTERPART:
        if _fits(key, patterns):
            return reason
    return None


def _fits(key: str, patterns: tuple[str, ...]) -> bool:
    return any(key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern for pattern in patterns)
