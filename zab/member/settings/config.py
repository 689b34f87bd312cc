"""Every key that this server acts on, as the fields of one frozen `Config`: key, default, kind, unit and reason.

The fields stand for the table in `docs/reference/configuration.md`; a test compares the two.

A name says the unit where the value has one; limits that are counted end in `_count` or name what they count.

Not here: reading values and the rules between fields (`config`); keys that have no effect (`ignored`).
"""

from __future__ import annotations

from attrs import NOTHING, Factory, frozen

from datatree.acl import ACL_COUNT_MAX
from datatree.prepare_settings import MULTI_PARTS_MAX
from datatree.request_decoding import ACL_ENTRIES_MAX
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT, SERVER_ID_MAX, Ensemble, Role, ServerLine
from zab.configuration.fields import (
    BOOLEAN,
    BYTES,
    COUNT,
    COUNT_OR_0,
    INT_MAX,
    LONG_MAX,
    YES_NO,
    ConfigWarning,
    choice,
    derived,
    integer,
    setting,
    text_of,
    whole_numbers,
    words,
)
from zab.member.settings.admin import AdminSettings
from zab.member.settings.clients import client_host
from zab.member.settings.schemes import DIGEST, IP, SASL, X509, digest_algorithm

SERVER_ID_UNKNOWN = -1
_COUNTER_MAX = 2**32 - 1
_MIB = 1024 * 1024


ROLE = choice(participant="participant", observer="observer")


AUDIT_LOGGER = "org.apache.zookeeper.audit.Slf4jAuditLogger"


def audit_logger(text: str) -> str:
    """The class of ZooKeeper that writes lines; no class of Java can be loaded here."""
    if text != AUDIT_LOGGER:
        raise ValueError(f"{text!r} cannot be loaded here: only {AUDIT_LOGGER}, which stands for this server's own log")
    return text


def audit_file(text: str) -> str:
    """A path; what names the system's log is no file."""
    if text in ("journald", "syslog"):
        raise ValueError(f"{text} is not built: it is the path of a file")
    return text_of(text)


@frozen(kw_only=True)
class Config(AdminSettings):
    """All that a member is told. The fields without a key come from elsewhere: see their comments."""

    # --- The server ---------------------------------------------------------------------------------------------------
    data_dir: str = setting(
        "dataDir",
        NOTHING,
        text_of,
        "path",
        "Snapshots, `myid` and the epochs: nothing works without it.",
        shown="required",
    )
    data_log_dir: str = setting(
        "dataLogDir",
        derived(lambda config: config.data_dir),
        text_of,
        "path",
        "The log on a disk of its own, where syncing does not wait for snapshots.",
        shown="dataDir",
    )
    data_dir_autocreate: bool = setting(
        "datadir.autocreate",
        True,
        BOOLEAN,
        "true/false",
        "A first start needs no mkdir; false where a missing mount must not start empty.",
    )
    client_port: int | None = setting(
        "clientPort",
        None,
        integer(0, 65535),
        "port",
        "Where clients connect; 0 or none: the client part of the server line.",
    )
    client_port_address: str = setting(
        "clientPortAddress",
        CLIENT_HOST_DEFAULT,
        client_host,
        "host",
        "All addresses, as ZooKeeper; name one to be reachable there only.",
    )
    client_port_backlog_count: int = setting(
        "clientPortListenBacklog", -1, integer(-1, INT_MAX), "connections", "-1 leaves it to the system."
    )
    tick_time_ms: int = setting(
        "tickTime", 3000, COUNT, "ms", "The unit of heartbeats, of the limits below and of session expiry."
    )
    min_session_timeout_ms: int = setting(
        "minSessionTimeout",
        derived(lambda config: 2 * config.tick_time_ms),
        integer(-1, INT_MAX),
        "ms",
        "Sessions are checked once a tick: less than two would end live ones.",
        shown="2 * tickTime",
    )
    max_session_timeout_ms: int = setting(
        "maxSessionTimeout",
        derived(lambda config: 20 * config.tick_time_ms),
        integer(-1, INT_MAX),
        "ms",
        "How long the ephemerals of a dead client may stay.",
        shown="20 * tickTime",
    )

    # --- The ensemble -------------------------------------------------------------------------------------------------
    init_limit_ticks: int = setting(
        "initLimit",
        0,
        COUNT,
        "ticks",
        "Time for a leader to gather its quorum and for a learner to be synchronized.",
        shown="required in an ensemble",
    )
    sync_limit_ticks: int = setting(
        "syncLimit",
        0,
        COUNT,
        "ticks",
        "Silence on a link, or a write that is not durable, for longer ends the role.",
        shown="required in an ensemble",
    )
    connect_to_leader_limit_ticks: int = setting(
        "connectToLearnerMasterLimit",
        0,
        COUNT_OR_0,
        "ticks",
        "Time to reach the leader's quorum port; 0 is initLimit.",
    )
    election_algorithm_number: int = setting(
        "electionAlg", 3, integer(3, 3), "3", "Fast leader election is the only one; ZooKeeper refuses the others too."
    )
    peer_type: str | None = setting(
        "peerType",
        None,
        ROLE,
        "role",
        "Older files say here what the server line says now; the server line wins.",
        shown="participant",
    )
    quorum_listen_on_all_ips: bool = setting(
        "quorumListenOnAllIPs",
        False,
        BOOLEAN,
        "true/false",
        "true where a member's own name resolves to an address it does not have.",
    )
    dynamic_config_file: str | None = setting(
        "dynamicConfigFile", None, text_of, "path", "The server, group and weight lines stand there and not here."
    )
    standalone_enabled: bool = setting(
        "standaloneEnabled",
        True,
        BOOLEAN,
        "true/false",
        "One participant runs without a quorum; false: it runs as an ensemble of one.",
    )
    reconfig_enabled: bool = setting(
        "reconfigEnabled",
        False,
        BOOLEAN,
        "true/false",
        "The ensemble can be changed while it runs; then the history says who belongs to it, and no file does.",
    )
    leader_serves: bool = setting(
        "leaderServes",
        True,
        YES_NO,
        "yes/no",
        "no: a member that leads an ensemble serves no clients itself, and has its hands free for the others.",
    )
    election_connect_timeout_ms: int = setting(
        "cnxTimeout", 5000, COUNT, "ms", "To open a link of the election; a dead host answers nothing."
    )
    election_port_bind_retry_count: int = setting(
        "electionPortBindRetry",
        3,
        COUNT_OR_0,
        "attempts",
        "The port may still be held by the process before; 0 is for ever.",
    )
    max_snapshot_transfers_count: int = setting(
        "leader.maxConcurrentSnapSyncs",
        10,
        COUNT,
        "learners",
        "More wait their turn: each reads a whole snapshot file from the leader's disk.",
    )
    observer_master_port: int = setting(
        "observerMasterPort",
        0,
        integer(0, 65535),
        "port",
        "Followers take observers there, and observers dial it, the same on all; 0: observers follow the leader only.",
    )
    observer_master_size_limit_bytes: int = setting(
        "observerMaster.sizeLimit",
        33_554_432,
        COUNT,
        "bytes",
        "Sent to one observer and not acknowledged; a slower one is let go, and comes again.",
    )
    observer_masters_near: tuple[int, ...] = setting(
        "observerMaster.near",
        (),
        whole_numbers(0, SERVER_ID_MAX),
        "ids",
        "Ours. Members that an observer dials before all others, the nearest first; between commas.",
        shown="none",
    )
    observer_reconnect_delay_ms: int = setting(
        "observer.reconnectDelayMs",
        0,
        COUNT_OR_0,
        "ms",
        "Observers wait for a part of it, by chance, before they dial: many of them do not come at once.",
    )
    client_tcp_keep_alive: bool = setting(
        "clientTcpKeepAlive", False, BOOLEAN, "true/false", "Sessions have pings; this finds dead hosts below them."
    )

    quorum_secret_file: str | None = setting(
        "quorum.secretFile",
        None,
        text_of,
        "path",
        "Ours. The secrets by which members prove who they are; `zab secret` makes the file.",
    )
    quorum_secret_required: bool = setting(
        "quorum.secretRequired",
        True,
        BOOLEAN,
        "true/false",
        "Ours. false while an ensemble gets its first secret: who has none is let in, too.",
    )
    quorum_insecure: bool = setting(
        "quorum.insecure",
        False,
        BOOLEAN,
        "true/false",
        "Ours. true: members outside of this machine are believed without proof. Whoever reaches their ports is one.",
    )

    # --- Log and snapshots --------------------------------------------------------------------------------------------
    pre_alloc_size_kib: int = setting(
        "preAllocSize",
        65536,
        integer(0, INT_MAX),
        "KiB",
        "Of a log file, allocated before it is written, so that an append changes no metadata; 0: 64 MiB, unallocated.",
    )
    snap_count: int = setting(
        "snapCount",
        100_000,
        integer(-INT_MAX, INT_MAX),
        "transactions",
        "Between two snapshots; the leader says for all when.",
        raised_to=2,
    )
    snap_size_limit_kib: int = setting(
        "snapSizeLimitInKb",
        4_194_304,
        integer(-INT_MAX, LONG_MAX),
        "KiB",
        "Log bytes between two snapshots, where writes are large; 0 or less is off.",
    )
    txn_log_size_limit_kib: int = setting(
        "txnLogSizeLimitInKb",
        -1,
        integer(-INT_MAX, LONG_MAX),
        "KiB",
        "A log file is rolled at this size as well; 0 or less is off.",
    )
    fsync_warning_threshold_ms: int = setting(
        "fsync.warningthresholdms",
        1000,
        COUNT_OR_0,
        "ms",
        "A slower sync is logged: the disk is the usual cause of lost leaderships.",
    )
    snap_retain_count: int = setting(
        "autopurge.snapRetainCount",
        3,
        integer(-INT_MAX, INT_MAX),
        "snapshots",
        "Kept with the logs they need; one damaged file costs nothing.",
        raised_to=3,
    )
    purge_interval_hours: int = setting(
        "autopurge.purgeInterval",
        1,
        integer(-INT_MAX, INT_MAX),
        "hours",
        "On by default, where ZooKeeper's is 0 = off: else files fill every disk in time.",
    )

    # --- Clients ------------------------------------------------------------------------------------------------------
    max_client_connections: int = setting(
        "maxClientCnxns",
        60,
        integer(-INT_MAX, INT_MAX),
        "connections per address",
        "One client in a loop cannot take them all; further ones are closed at once; 0 is off.",
    )
    max_connections: int = setting(
        "maxCnxns",
        0,
        integer(-INT_MAX, INT_MAX),
        "connections",
        "In total; further ones are closed at once; 0: as many as descriptors (RLIMIT_NOFILE) allow, less a reserve.",
    )
    sessionless_timeout_ms: int = setting(
        "nio.sessionlessCnxnTimeout", 10_000, COUNT, "ms", "A connection that never says who it is, is closed."
    )
    global_outstanding_limit_count: int = setting(
        "globalOutstandingLimit",
        1000,
        COUNT,
        "requests",
        "In process at once; beyond, connections with some under way are not read from.",
    )
    jute_max_buffer_bytes: int = setting(
        "jute.maxbuffer",
        1_048_575,
        integer(1, INT_MAX),
        "bytes",
        "A longer frame is refused; bounds a znode's data, a session's ephemerals, a request's ACLs.",
    )
    oversize_request_bytes: int = setting(
        "oversizeRequestBytes",
        16 * _MIB,
        integer(0, INT_MAX),
        "bytes",
        "Ours. A request above jute.maxbuffer up to so many bytes gets an error; a longer one ends its connection. "
        "A setWatches may have 256 MiB.",
    )
    max_acl_entries: int = setting(
        "maxAclEntries",
        ACL_COUNT_MAX,
        integer(1, ACL_ENTRIES_MAX),
        "entries",
        "Ours. A longer list is refused with INVALIDACL; lists that are there already stay.",
    )
    multi_max_parts: int = setting(
        "multiMaxParts",
        MULTI_PARTS_MAX,
        COUNT,
        "parts",
        "Ours. A multi of more is refused whole, with BADARGUMENTS. A removeRecursive removes no more.",
    )
    max_changes_per_connection: int = setting(
        "maxChangesPerConnection",
        64,
        COUNT,
        "requests",
        "Ours. getChanges of one connection that wait; a further one is refused with THROTTLEDOP.",
    )
    max_changes_page_bytes: int = setting(
        "maxChangesPageBytes",
        256 * 1024,
        BYTES,
        "bytes",
        "Ours. An answer to getChanges ends there, so that other answers are not kept waiting; one change always fits.",
    )
    max_changes_wait_ms: int = setting(
        "maxChangesWaitMs",
        30_000,
        COUNT_OR_0,
        "ms",
        "Ours. A getChanges with nothing to tell is answered after this at the latest.",
    )
    max_past_acls: int = setting(
        "maxPastAcls",
        50_000,
        COUNT,
        "paths",
        "Ours. Of restricted znodes that are gone, for getChanges; beyond, what is older is the superuser's alone.",
    )
    four_letter_words: frozenset[str] = setting(
        "4lw.commands.whitelist",
        frozenset({"srvr"}),
        words,
        "words",
        "srvr is always answered, as by ZooKeeper; the others tell strangers about clients and paths; `*` is all.",
    )

    # --- Data and access ----------------------------------------------------------------------------------------------
    extended_types_enabled: bool = setting(
        "extendedTypesEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Znodes with a time to live, as in ZooKeeper off: older servers cannot read them.",
    )
    create_if_not_exists_enabled: bool = setting(
        "createIfNotExistsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. ClickHouse Keeper's createIfNotExists (502); off, it is an unknown opcode, as ZooKeeper has it.",
    )
    keeper_extensions_enabled: bool = setting(
        "keeperExtensionsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. ClickHouse Keeper's operations 500 to 507, and what it tells of them at /keeper.",
    )
    sequence_64_enabled: bool = setting(
        "sequence64Enabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. Sequence numbers go on with 19 digits when those of 32 bits have ended; off, negative, as in ZooKeeper.",
    )
    enforce_quota: bool = setting(
        "enforceQuota", False, BOOLEAN, "true/false", "Hard quotas refuse writes; without it no quota does."
    )
    container_check_interval_ms: int = setting(
        "znode.container.checkIntervalMs",
        60_000,
        COUNT,
        "ms",
        "How often empty containers and expired znodes are looked for.",
    )
    container_max_per_minute: int = setting(
        "znode.container.maxPerMinute", 10_000, COUNT, "deletes a minute", "Spreads a large clean-up."
    )
    container_never_used_ms: int = setting(
        "znode.container.maxNeverUsedIntervalMs",
        0,
        COUNT_OR_0,
        "ms",
        "Containers that never had a child go after this; 0 is never.",
    )
    skip_acl: bool = setting("skipACL", False, YES_NO, "yes/no", "yes opens everything to everybody.")
    digest_enabled: bool = setting(
        "DigestAuthenticationProvider.enabled", True, BOOLEAN, "true/false", "false refuses the scheme digest."
    )
    super_digest: str | None = setting(
        "DigestAuthenticationProvider.superDigest",
        None,
        text_of,
        "user:base64",
        "Whoever has its password passes every ACL.",
    )
    digest_algorithm: str = setting(
        "DigestAuthenticationProvider.digestAlg",
        "sha1",
        digest_algorithm,
        "hash",
        "Of passwords in ACLs and in superDigest; the same on all members. What is hashed otherwise fits nobody.",
        shown="SHA1",
    )

    # --- The audit log ------------------------------------------------------------------------------------------------
    audit_enabled: bool = setting(
        "audit.enable", False, BOOLEAN, "true/false", "Who changed what, and who was refused: a line for each."
    )
    audit_logger: str = setting(
        "audit.impl.class",
        AUDIT_LOGGER,
        audit_logger,
        "class",
        "ZooKeeper's own stands for ours; another cannot be run here, and refuses the start.",
    )
    audit_file: str = setting(
        "audit.file",
        derived(lambda config: f"{config.data_dir}/audit.log"),
        audit_file,
        "path",
        "Ours. On a disk of its own it takes no room from the log.",
        shown="dataDir/audit.log",
    )
    audit_file_bytes_max: int = setting(
        "audit.maxFileBytes",
        10 * _MIB,
        integer(64 * 1024, LONG_MAX),
        "bytes",
        "Ours. A larger file becomes FILE.1, that one FILE.2, and so on.",
    )
    audit_files_count: int = setting(
        "audit.fileCount",
        10,
        integer(1, 1000),
        "files",
        "Ours. So many are kept, the newest among them; the oldest goes.",
    )

    # --- Scrubbing (ours) ---------------------------------------------------------------------------------------------
    scrub_interval_seconds: int = setting(
        "scrub.intervalSeconds",
        86_400,
        COUNT_OR_0,
        "s",
        "Ours. How often all files are read through, so that damage is found before it matters; 0 is never.",
    )
    scrub_bytes_per_second: int = setting(
        "scrub.maxBytesPerSecond",
        1024 * 1024,
        BYTES,
        "bytes a second",
        "Ours. How quickly: it takes turns with the log for the disk.",
    )

    # --- Batches and memory (ours) ------------------------------------------------------------------------------------
    max_batch_bytes: int = setting(
        "maxBatchBytes",
        _MIB,
        BYTES,
        "bytes",
        "Ours. A batch ends there, so that others are not kept waiting; a larger transaction goes alone.",
    )
    max_batch_count: int = setting(
        "maxBatchCount",
        1_000,
        integer(1, INT_MAX),
        "transactions",
        "Ours. A batch is applied in one turn: some 5 ms of sets, 20 ms of creates.",
    )
    max_batches_in_flight: int = setting(
        "maxBatchesInFlight",
        64,
        COUNT,
        "batches",
        "Ours. Proposed and not yet committed; at the limit clients are not read from.",
    )
    max_unsynced_bytes: int = setting(
        "maxUnsyncedBytes",
        32 * _MIB,
        BYTES,
        "bytes",
        "Ours. Written by the leader and not yet durable; at the limit it stops proposing.",
    )
    max_recent_bytes: int = setting(
        "maxRecentBytes",
        8 * _MIB,
        BYTES,
        "bytes",
        "Ours. Batches kept in memory for learners that lack little; older ones come from files.",
    )
    max_pinned_log_bytes: int = setting(
        "maxPinnedLogBytes",
        4096 * _MIB,
        BYTES,
        "bytes",
        "Ours. Log files kept beyond retention for learners that fetch a snapshot; beyond it they get a newer one.",
    )
    disk_low_bytes: int = setting(
        "diskLowBytes",
        64 * _MIB,
        integer(0, LONG_MAX),
        "bytes",
        "Ours. With less free space than this a member logs only what the ensemble needs; 0 switches that off.",
    )
    disk_reserve_bytes: int = setting(
        "diskReserveBytes",
        32 * _MIB,
        integer(4096, LONG_MAX),
        "bytes",
        "Ours. A file beside the log, given up then: what sessions, deletes and elections go on with.",
    )
    counter_limit: int = setting(
        "counterLimit",
        0xFFF00000,
        integer(2, _COUNTER_MAX),
        "transactions",
        "Ours. Of one epoch; then leadership is renewed without an outage.",
        shown="0xfff00000",
    )

    # From dataDir/myid; 1 when standalone; SERVER_ID_UNKNOWN only where `parse` was given none.
    server_id: int = SERVER_ID_UNKNOWN
    # From the server, group and weight lines, wherever they stand.
    ensemble: Ensemble = Factory(Ensemble)
    # The file that was parsed, and what is odd about it.
    file: str = ""
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def is_standalone(self) -> bool:
        voters = len(self.ensemble.participants)
        return voters == 0 or (voters == 1 and self.standalone_enabled)

    @property
    def own_line(self) -> ServerLine | None:
        """This member's server line; a standalone server has the only one, whatever its id."""
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
        return (self.client_port_address, self.client_port) if self.client_port else None

    @property
    def secure_client_address(self) -> tuple[str, int] | None:
        """(host, port) of the listener for TLS alone."""
        return (self.secure_client_port_address, self.secure_client_port) if self.secure_client_port else None

    @property
    def has_local_sessions(self) -> bool:
        """As in ZooKeeper, only members of an ensemble have any."""
        return self.local_sessions_enabled and not self.is_standalone

    @property
    def log_file_bytes(self) -> int:
        """How large a log file grows."""
        size_bytes = self.pre_alloc_size_kib * 1024 or 64 * _MIB
        return min(size_bytes, self.txn_log_size_limit_kib * 1024) if self.txn_log_size_limit_kib > 0 else size_bytes

    @property
    def init_limit_ms(self) -> int:
        return self.init_limit_ticks * self.tick_time_ms

    @property
    def sync_limit_ms(self) -> int:
        return self.sync_limit_ticks * self.tick_time_ms

    @property
    def connect_to_leader_limit_ms(self) -> int:
        return (self.connect_to_leader_limit_ticks or self.init_limit_ticks) * self.tick_time_ms

    @property
    def acl_schemes(self) -> frozenset[str]:
        """The schemes that prove an identity, which an ACL may name; also those of other members' clients."""
        x509 = self.offers_x509 or X509 in self.auth_providers
        sasl = self.offers_sasl or SASL in self.auth_providers
        offered = {IP: True, DIGEST: self.digest_enabled, SASL: sasl, X509: x509}
        return frozenset(scheme for scheme, is_offered in offered.items() if is_offered)

    def allows_word(self, word: str) -> bool:
        """Whether the four-letter word may be answered."""
        if word == "srvr" or (word == "isro" and self.read_only_mode_enabled):
            return True  # scripts look for the role by the one, clients for a quorum by the other
        return word in self.four_letter_words or "*" in self.four_letter_words
