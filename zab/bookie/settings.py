"""The settings of a bookie, under BookKeeper's names: those of `bk_server.conf`.

Not here: what a file may not say, and what has no effect (`config_file`).
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from zab.bookie.tls_settings import BookieTlsSettings
from zab.configuration.blocks.audit import AuditSettings
from zab.configuration.blocks.ensemble import EnsembleSettings, ZnodeAcl
from zab.configuration.fields import (
    BOOLEAN,
    INT_MAX,
    LONG_MAX,
    block,
    fraction,
    host_name,
    integer,
    setting,
    text_of,
)
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.entries.ids import is_bookie_id
from zab.ledger.replication.events import AuditorSettings, CheckSettings, WorkerSettings
from zab.ledger.wire.frames import FRAME_BYTES_MAX
from zab.wire.frames import LENGTH_BYTES

DEFAULT_PORT: Final = 3181
DEFAULT_ROOT: Final = "/ledgers"
MIB: Final = 1 << 20
_BYTES: Final = integer(1, LONG_MAX)
_MS: Final = integer(1, LONG_MAX)
_SECONDS: Final = integer(0, INT_MAX)
_PORT: Final = integer(0, 65535)
_MIBS: Final = integer(1, 1 << 20)
_CORE: Final = BookieConfig()
_AUDITOR: Final = AuditorSettings()
_WORKER: Final = WorkerSettings()
_URI: Final = re.compile(r"zk(?:\+([a-z]+))?://([^/\s]+)(/\S*)", re.ASCII | re.IGNORECASE)


def directory(text: str) -> str:
    """An absolute path; there is one."""
    if "," in text:
        raise ValueError("there is one directory")
    if not text.startswith("/") or "\t" in text:
        raise ValueError(f"{text!r} is no absolute path")
    return text.rstrip("/") or "/"


def bookie_id(text: str) -> str:
    """The name of a bookie."""
    if not is_bookie_id(text):
        raise ValueError(f"{text[:60]!r} is no name of a bookie: letters, digits, `:`, `-`, `_` and `.`")
    return text


@frozen
class ServiceUri:
    """Where the metadata is: the hosts of the coordination service, and the root of all ledgers."""

    hosts: str
    root: str

    def __str__(self) -> str:
        return f"zk+hierarchical://{self.hosts.replace(',', ';')}{self.root}"


def service_uri(text: str) -> ServiceUri:
    """`zk+hierarchical://HOST:PORT;HOST:PORT/ledgers`."""
    found = _URI.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not of the form zk+hierarchical://HOST:PORT;HOST:PORT/PATH")
    kind = (found[1] or "null").lower()
    if kind not in ("hierarchical", "null"):
        raise ValueError(f"the layout {kind!r} is not served: only hierarchical")
    return ServiceUri(found[2].replace(";", ","), root_path(found[3]))


def root_path(text: str) -> str:
    """The path of the root of all ledgers."""
    root = text.rstrip("/")
    if not root.startswith("/") or "//" in root:
        raise ValueError(f"{text!r} is no path of a root, such as {DEFAULT_ROOT}")
    return root


@frozen(kw_only=True)
class PlaceSettings:
    """Where the bookie listens, who it is, and where its data is."""

    port: int = setting(
        "bookiePort", DEFAULT_PORT, _PORT, "port", "The port that clients connect to. 0: any free port."
    )
    interface: str | None = setting(
        *("listeningInterface", None, text_of, "interface"),
        "The network interface whose address the bookie listens on, such as `lo` or `eth0`.",
        shown="by advertisedAddress",
    )
    advertised_address: str | None = setting(
        *("advertisedAddress", None, host_name, "host"),
        "The host that clients connect to. Without this key it listens on 127.0.0.1 only, "
        "or on the address of its listeningInterface. With this key, and without a listeningInterface, it listens on "
        "every address, or on 127.0.0.1 if the advertised address is a loopback address.",
        shown="none",
    )
    bookie_id: str | None = setting(
        *("bookieId", None, bookie_id, "name"),
        "The name of the bookie in all metadata. It belongs to the data, and must not change when the address does.",
        shown="address:port",
    )
    rack: str | None = setting(
        *("rack", None, text_of, "/name"),
        "zab only. The rack of the bookie, such as `/rack-1`: zab's writers put the copies of an entry in different "
        "racks.",
    )
    journal_directory: str | None = setting(
        *("journalDirectories", None, directory, "path"),
        "The directory of the journal; only one. Put it on a disk of its own if you can.",
        shown="that of the ledgers",
    )
    ledger_directory: str | None = setting(
        "ledgerDirectories", None, directory, "path", "The directory of the entries; only one. Required."
    )


@frozen(kw_only=True)
class MetadataSettings:
    """The coordination service."""

    uri: ServiceUri = setting(
        *("metadataServiceUri", ServiceUri("127.0.0.1:2181", DEFAULT_ROOT), service_uri, "URI"),
        "The members of the coordination service, separated by `;`, and the root of all ledgers, which has to be "
        "formatted (by `zab ensemble --bookies`, `zab ledger format` or BookKeeper's `initnewcluster`).",
        shown="zk+hierarchical://127.0.0.1:2181/ledgers",
    )
    session_timeout_ms: int = setting(
        *("zkTimeout", 10_000, _MS, "ms"),
        "The session timeout: how long after its last contact with the coordination service the bookie counts as dead.",
    )


@frozen(kw_only=True)
class BookieEnsembleSettings(EnsembleSettings):
    """TLS and login at the coordination service, and the ACLs of znodes."""

    secures_znodes: bool = setting(
        *("zkEnableSecurity", False, BOOLEAN, "true/false"),
        "Whether only clients with the same login, or the same certificate subject, may change the znodes that the "
        "bookie and auto-recovery create. Others may read them. Refused without a login and without a certificate.",
    )

    def acl_of(self, _path: str) -> ZnodeAcl:
        """The permissions of a znode that a bookie creates: the same for all."""
        return ZnodeAcl.READABLE if self.secures_znodes else ZnodeAcl.OPEN

    def why_unusable(self) -> str | None:
        """What is wrong, with its key first; None if nothing."""
        return super().why_unusable() or (
            self.why_nobody("zkEnableSecurity", "bookie") if self.secures_znodes else None
        )


@frozen(kw_only=True)
class RequestSettings:
    """Limits of clients."""

    frame_bytes_max: int = setting(
        *("nettyMaxFrameSizeBytes", FRAME_BYTES_MAX + LENGTH_BYTES, integer(1024, 1 << 28), "bytes"),
        "The largest frame, including its length of 4 bytes. If a client sends a longer one, the bookie closes the "
        "connection. BookKeeper's default is 5,242,880; Pulsar's clients send more.",
    )
    reads_max: int = setting(
        *("maxPendingReadRequestsPerThread", _CORE.reads_max, integer(2, INT_MAX), "reads"),
        "How many reads may wait for the disk; further ones are answered ETOOMANYREQUESTS. Half of the places are "
        "reserved for reads that fence.",
    )
    read_threads: int = setting(
        "numReadWorkerThreads", 2, integer(1, 64), "threads", "How many threads read from the disk."
    )
    input_bytes_max: int = setting(
        *("maxInputBytes", 128 * MIB, integer(4 * MIB, LONG_MAX), "bytes"),
        "zab only. How many bytes of unprocessed requests all clients together may have sent; above it, the bookie "
        "closes the connections with the most.",
    )
    unsent_bytes_max: int = setting(
        *("maxUnsentBytes", 4 * MIB, integer(64 << 10, LONG_MAX), "bytes"),
        "zab only. How much of its answers a client may leave unread; above it, the bookie reads nothing more from its "
        "connection.",
    )
    unsent_total_bytes_max: int = setting(
        *("maxUnsentBytesTotal", 256 * MIB, integer(1 * MIB, LONG_MAX), "bytes"),
        "zab only. How much of their answers all clients together may leave unread; above it, the bookie closes the "
        "connections with the most.",
    )


@frozen(kw_only=True)
class StorageSettings:
    """The journal, the write cache, segments."""

    journal_mib: int = setting(
        "journalMaxSizeMB",
        _CORE.journal_file_bytes // MIB,
        _MIBS,
        "MiB",
        "The size of a journal file, which is preallocated.",
    )
    flush_ms: int = setting(
        *("flushInterval", _CORE.flush_ms, _MS, "ms"),
        "The age of the oldest entry at which the write cache is written to a segment.",
    )
    flush_bytes: int = setting(
        *("skipListSizeLimit", _CORE.flush_bytes, _BYTES, "bytes"),
        "The size at which the write cache is written to a segment. At three times this size, the bookie refuses adds.",
    )
    read_cache_mib: int = setting(
        *("dbStorage_readAheadCacheMaxSizeMb", _CORE.read_cache_bytes // MIB, _MIBS, "MiB"),
        "The size of the cache for entries and indexes that were read from segments.",
    )
    sync_data: bool = setting(
        *("journalSyncData", True, BOOLEAN, "true"),
        "Must be true: the bookie acknowledges an entry only once it is on disk.",
    )
    write_data: bool = setting(
        *("journalWriteData", True, BOOLEAN, "true"),
        "Must be true: the bookie acknowledges an entry only once it is in the journal.",
    )


@frozen(kw_only=True)
class SpaceSettings:
    """A full disk."""

    read_only_share: float = setting(
        *("diskUsageThreshold", _CORE.read_only_share, fraction, "share"),
        "The share of used disk space at which the bookie becomes read-only.",
    )
    writable_share: float = setting(
        *("diskUsageLwmThreshold", _CORE.writable_share, fraction, "share"),
        "The share of used disk space below which the bookie becomes writable again. BookKeeper's default is its "
        "diskUsageThreshold.",
    )
    warn_share: float = setting(
        "diskUsageWarnThreshold",
        0.9,
        fraction,
        "share",
        "The share of used disk space at which the bookie logs a warning.",
    )
    check_ms: int = setting(
        "diskCheckInterval", _CORE.space_check_ms, _MS, "ms", "How often the bookie checks the space."
    )
    reserve_bytes: int = setting(
        *("minUsableSizeForHighPriorityWrites", _CORE.reserve_bytes, _BYTES, "bytes"),
        "The space that no add may use. A read-only bookie accepts the adds of recovery until only this much is free.",
    )
    read_only_enabled: bool = setting(
        *("readOnlyModeEnabled", True, BOOLEAN, "true/false"),
        "Whether a bookie whose disk is full becomes read-only. false: it stops.",
    )
    forced_read_only: bool = setting(
        *("forceReadOnlyBookie", False, BOOLEAN, "true/false"), "Whether the bookie is always read-only."
    )


@frozen(kw_only=True)
class CollectionSettings:
    """What is deleted."""

    collect_ms: int = setting(
        *("gcWaitTime", _CORE.collect_ms, _MS, "ms"),
        "How often the bookie looks for ledgers that are no longer in the metadata.",
    )
    surplus_ms: int = setting(
        *("gcOverreplicatedLedgerWaitTime", _CORE.surplus_ms, _MS, "ms"),
        "How often the bookie looks for closed ledgers whose metadata do not name it. If two rounds in a row find a "
        "ledger, its entries are deleted. 0: never.",
    )
    minor_s: int = setting(
        "minorCompactionInterval",
        _CORE.compact_ms // 1000,
        _SECONDS,
        "s",
        "How often minor compactions run. 0: never.",
    )
    minor_share: float = setting(
        *("minorCompactionThreshold", _CORE.compact_share, fraction, "share"),
        "A minor compaction rewrites the segments whose live share is smaller than this.",
    )
    major_s: int = setting(
        *("majorCompactionInterval", _CORE.compact_daily_ms // 1000, _SECONDS, "s"),
        "How often major compactions run. 0: never.",
    )
    major_share: float = setting(
        "majorCompactionThreshold",
        _CORE.compact_share_daily,
        fraction,
        "share",
        "A major compaction rewrites the segments whose live share is smaller than this.",
    )
    rate_bytes_per_s: int = setting(
        *("compactionRateByBytes", _CORE.compact_bytes_per_s, _BYTES, "bytes/s"),
        "How fast a compaction writes, on average.",
    )


@frozen(kw_only=True)
class HttpSettings:
    """The port of metrics, health and administration."""

    enabled: bool = setting(
        "httpServerEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Whether the bookie opens an HTTP port for metrics, health and administration.",
    )
    port: int = setting("httpServerPort", 8080, _PORT, "port", "The HTTP port. 0: any free port.")
    host: str = setting(
        *("httpServerHost", "127.0.0.1", host_name, "host"),
        "The address of the HTTP port. It has no login, so by default only this machine can connect. BookKeeper's "
        "default is 0.0.0.0.",
    )


@frozen(kw_only=True)
class ReplicationSettings:
    """Auto-recovery: the search for ledgers that lack copies, and their repair."""

    is_enabled: bool = setting(
        *("autoRecoveryDaemonEnabled", False, BOOLEAN, "true/false"),
        "Whether an auditor and a worker run in this process. BookKeeper's default is true.",
    )
    lost_bookie_delay_s: int = setting(
        *("lostBookieRecoveryDelay", 0, _SECONDS, "s"),
        "How long a bookie may be away before its ledgers are repaired. The first auditor writes it into the metadata; "
        "to change it later, use `zab audit run --delay`.",
    )
    bookies_check_s: int = setting(
        *("auditorPeriodicBookieCheckInterval", _AUDITOR.bookies_check_ms // 1000, _SECONDS, "s"),
        "How often the auditor searches all ledgers for lost bookies, even if it has not noticed a loss. 0: never.",
    )
    ledgers_check_s: int = setting(
        *("auditorPeriodicCheckInterval", _AUDITOR.ledgers_check_ms // 1000, _SECONDS, "s"),
        "How often the auditor reads entries of all ledgers, to find missing copies. 0: never.",
    )
    placement_check_s: int = setting(
        *("auditorPeriodicPlacementPolicyCheckInterval", _AUDITOR.placement_check_ms // 1000, _SECONDS, "s"),
        "How often the auditor checks whether the copies of each ledger are spread over racks. 0: never.",
    )
    orphans_check_s: int = setting(
        *("auditorPeriodicOrphanCheckInterval", _AUDITOR.orphans_check_ms // 1000, _SECONDS, "s"),
        "zab only. How often the auditor looks for ledgers of logs that do not name them, because an owner crashed. It "
        "closes them, and deletes them a day later. 0: never.",
    )
    sample_percent: int = setting(
        *("auditorLedgerVerificationPercentage", 0, integer(0, 100), "%"),
        "The share of entries that the auditor reads in its check, besides the first and the last one on each bookie "
        "of a ledger.",
    )
    grace_ms: int = setting(
        *("openLedgerRereplicationGracePeriod", _WORKER.open_grace_ms, integer(0, INT_MAX), "ms"),
        "How long a writer may take to replace a lost bookie, before a worker closes its ledger.",
    )
    bytes_per_s: int = setting(
        *("replicationRateByBytes", _WORKER.bytes_per_s, _BYTES, "bytes/s"),
        "How fast a worker copies.",
    )

    @property
    def auditor(self) -> AuditorSettings:
        return AuditorSettings(
            lost_bookie_delay_ms=1000 * self.lost_bookie_delay_s,
            bookies_check_ms=1000 * self.bookies_check_s,
            ledgers_check_ms=1000 * self.ledgers_check_s,
            placement_check_ms=1000 * self.placement_check_s,
            orphans_check_ms=1000 * self.orphans_check_s,
            check=CheckSettings(sample_share=self.sample_percent / 100),
        )

    @property
    def worker(self) -> WorkerSettings:
        return WorkerSettings(open_grace_ms=self.grace_ms, bytes_per_s=self.bytes_per_s)


@frozen(kw_only=True)
class BookieSettings:
    """All settings of a bookie."""

    place: PlaceSettings = block(PlaceSettings)
    metadata: MetadataSettings = block(MetadataSettings)
    ensemble: BookieEnsembleSettings = block(BookieEnsembleSettings)
    tls: BookieTlsSettings = block(BookieTlsSettings)
    requests: RequestSettings = block(RequestSettings)
    storage: StorageSettings = block(StorageSettings)
    space: SpaceSettings = block(SpaceSettings)
    collection: CollectionSettings = block(CollectionSettings)
    http: HttpSettings = block(HttpSettings)
    replication: ReplicationSettings = block(ReplicationSettings)
    audit: AuditSettings = block(AuditSettings, "audit.")
    warnings: tuple[str, ...] = ()
    """Keys without effect: sentences, each with its line."""

    @property
    def ledger_directory(self) -> str:
        """The directory of the entries."""
        assert self.place.ledger_directory is not None, "settings that were read have one"
        return self.place.ledger_directory

    @property
    def journal_directory(self) -> str:
        """The directory of the journal."""
        return self.place.journal_directory or self.ledger_directory

    @property
    def advertised_host(self) -> str | None:
        """What clients are told to connect to; None: the address that it listens on."""
        return self.place.advertised_address

    @property
    def core(self) -> BookieConfig:
        """The limits of the core."""
        storage, space, collection = self.storage, self.space, self.collection
        never_ms = 1 << 60
        return BookieConfig(
            entry_bytes_max=self.requests.frame_bytes_max,
            flush_bytes=storage.flush_bytes,
            flush_ms=storage.flush_ms,
            cache_bytes_max=3 * storage.flush_bytes,
            journal_file_bytes=storage.journal_mib * MIB,
            reads_max=self.requests.reads_max,
            read_cache_bytes=storage.read_cache_mib * MIB,
            space_check_ms=space.check_ms,
            read_only_share=space.read_only_share,
            writable_share=min(space.writable_share, space.read_only_share),
            reserve_bytes=space.reserve_bytes,
            collect_ms=collection.collect_ms,
            surplus_ms=collection.surplus_ms,
            compact_share=collection.minor_share,
            compact_share_daily=collection.major_share,
            compact_ms=collection.minor_s * 1000 or never_ms,
            compact_daily_ms=collection.major_s * 1000 or never_ms,
            compact_bytes_per_s=collection.rate_bytes_per_s,
        )

    @property
    def audit_file(self) -> str:
        """The file of the audit log."""
        return self.audit.file or f"{self.ledger_directory}/audit.log"
