"""A bookie's file of settings: properties with BookKeeper's keys.

    read_settings(text) -> BookieSettings       Raises BookieSettingsError, whose text begins with the line

A key of BookKeeper that changes nothing here is passed over with a warning. One that cannot be honoured and that
safety or security rests on refuses the start, unless its value says what is so here anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.bookie.settings import BookieSettings, ServiceUri, directory, root_path
from zab.configuration.fields import Setting, built, settings_of
from zab.configuration.nearest import nearest
from zab.configuration.properties import PropertiesError, Property, parse_properties


class BookieSettingsError(ValueError):
    """The file is refused; the text begins with the line."""


SYNONYMS: Final[Mapping[str, str]] = {
    "journalDirectory": "journalDirectories",
    "dbStorage_writeCacheMaxSizeMb": "skipListSizeLimit",
    "zookeeper.client.secure": "zookeeper.ssl.client.enable",
    "zookeeper.ssl.keyStore.location": "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keyStore.password": "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keyStore.passwordPath": "zookeeper.ssl.keystore.passwordPath",
    "zookeeper.ssl.keyStore.type": "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.trustStore.location": "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.trustStore.password": "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.trustStore.passwordPath": "zookeeper.ssl.truststore.passwordPath",
    "zookeeper.ssl.trustStore.type": "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.enabledProtocols": "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.ciphersuites": "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.crl": "zookeeper.ssl.crl.enable",
}
"""Keys that set the same as another one. Those of `zookeeper.` are properties of Java, with which BookKeeper's bookies
are told of TLS at the coordination service."""
IGNORED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("serverNumIOThreads", "numAddWorkerThreads", "numLongPollWorkerThreads", "numHighPriorityWorkerThreads"),
            *("numJournalCallbackThreads", "numOrderedExecutor", "bossNumThreads", "numOfMemtableFlushThreads"),
            *("journalChannelProvider", "serverTcpNoDelay", "serverSockKeepalive", "serverSockLinger"),
            *("maxPendingAddRequestsPerThread", "maxAddsInProgressLimit", "maxReadsInProgressLimit"),
        ),
        "one loop serves all connections",
    ),
    **dict.fromkeys(
        (
            *("journalMaxGroupWaitMSec", "journalBufferedWritesThreshold", "journalBufferedEntriesThreshold"),
            *("journalFlushWhenQueueEmpty", "journalAdaptiveGroupWrites", "journalGroupWrites", "journalQueueSize"),
            "journalMaxMemorySizeMb",
        ),
        "everything that waits is written and synced together, without a timer",
    ),
    **dict.fromkeys(
        (
            *("journalPreAllocSizeMB", "journalWriteBufferSizeKB", "journalAlignmentSize", "journalMaxBackups"),
            *("journalRemoveFromPageCache", "journalFormatVersionToWrite", "fileInfoFormatVersionToWrite"),
            *("writeBufferSizeBytes", "readBufferSizeBytes", "logSizeLimit", "entryLogFilePreallocationEnabled"),
            *("flushEntrylogBytes", "openFileLimit", "pageSize", "pageLimit", "sortedLedgerStorageEnabled"),
            *("skipListArenaChunkSize", "skipListArenaMaxAllocSize", "entryLogPerLedgerEnabled", "ledgerStorageClass"),
            *("compactionRate", "compactionRateByEntries", "isThrottleByBytes", "useTransactionalCompaction"),
            *(
                "compactionMaxOutstandingRequests",
                "minUsableSizeForIndexFileCreation",
                "gcEntryLogMetadataCacheEnabled",
            ),
            *("minUsableSizeForEntryLogCreation", "isForceGCAllowWhenNoSpace", "forceAllowCompaction"),
            "enableBusyWait",
        ),
        "the files of the journal and of entries have a different format here",
    ),
    **dict.fromkeys(
        (
            *("enableStatistics", "statsProviderClass", "codahaleStatsOutputFrequencySeconds", "httpServerClass"),
            *("prometheusStatsHttpPort", "prometheusStatsHttpAddress", "prometheusStatsHttpEnable"),
            "prometheusStatsLatencyRolloverSeconds",
        ),
        "metrics are at the port of httpServerEnabled",
    ),
    **dict.fromkeys(
        ("verifyMetadataOnGC", "isForceGC"),
        "each ledger is looked up individually before it is deleted",
    ),
    **dict.fromkeys(
        ("zkRetryBackoffStartMs", "zkRetryBackoffMaxMs", "zkRequestRateLimit", "zkReplicationTaskRateLimit"),
        "the client of the coordination service sets its own pace",
    ),
    "ledgerManagerFactoryClass": "LAYOUT in the metadata says how ledgers are laid out",
    "allowLoopback": "a loopback address is always allowed",
    "allowEphemeralPorts": "bookiePort=0 is always allowed",
    "allowMultipleDirsUnderSameDiskPartition": "there is one directory",
    "allocatorPoolingPolicy": "there is no such allocator",
    "tlsCertFilesRefreshDurationSeconds": "the TLS files are checked every two seconds",
    "majorCompactionMaxTimeMillis": "a compaction runs in small steps, which delay nothing",
    "minorCompactionMaxTimeMillis": "a compaction runs in small steps, which delay nothing",
    "registrationManagerClass": "the coordination service is that of metadataServiceUri",
}
"""Keys of BookKeeper that change nothing here, and why."""
REFUSED: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "bookieAuthProviderFactoryClass": (
        frozenset({""}),
        "there are no logins; with tlsClientAuthentication, only clients with a certificate can connect",
    ),
    "tlsProvider": (frozenset({"", "openssl", "jdk"}), "TLS is provided by Python's OpenSSL"),
    "persistBookieStatusEnabled": (
        frozenset({"false"}),
        "only forceReadOnlyBookie survives a restart",
    ),
    "allowStorageExpansion": (frozenset({"false"}), "there is one directory"),
    "useHostNameAsBookieID": (frozenset({"false"}), "set bookieId"),
    "disableServerSocketBind": (frozenset({"false"}), "a bookie can be reached only through its port"),
    "enableLocalTransport": (frozenset({"false"}), "a bookie can be reached only through its port"),
    "extraServerComponents": (frozenset({""}), "no Java class can be loaded here"),
    "metadataServiceUriList": (frozenset({""}), "there is one metadataServiceUri"),
}
"""Keys that must not be passed over: the values that change nothing, and why others are refused."""
_REFUSED_PREFIXES: Final[Mapping[str, str]] = {
    "tls": "it is not supported here",
    "zookeeper.": "it is not supported here",
}


def read_settings(text: str) -> BookieSettings:
    """The settings that this file has. Raises BookieSettingsError: for what cannot be honoured, with the line."""
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        raise BookieSettingsError(str(error)) from error
    reading = _Reading()
    for entry in entries:
        try:
            reading.take(entry)
        except ValueError as error:
            raise BookieSettingsError(f"line {entry.line}: {entry.key}: {error}") from error
    return reading.settings()


class _Reading:
    def __init__(self) -> None:
        self._known = {setting.key: setting for setting in settings_of(BookieSettings)}
        self._values: dict[Setting, object] = {}
        self._warnings: list[str] = []
        self._servers: str | None = None
        self._root: str | None = None
        self._indexes: tuple[int, str] | None = None

    def take(self, entry: Property) -> None:
        """Raises ValueError."""
        key, value = entry.key, entry.value
        if key == "dbStorage_writeCacheMaxSizeMb":
            value = str(int(value) << 20) if value.isdecimal() else value
        key = SYNONYMS.get(key, key)
        if key == "zkServers":
            self._servers = value.replace(";", ",")
        elif key == "zkLedgersRootPath":
            self._root = root_path(value)
        elif key == "indexDirectories":
            self._indexes = entry.line, directory(value)
        elif key in self._known:
            self._values[self._known[key]] = self._known[key].read(value)
        elif key in REFUSED:
            harmless, reason = REFUSED[key]
            if value.lower() not in harmless:
                raise ValueError(reason)
        else:
            self._warnings.append(f"line {entry.line}: {entry.key}: {self._why_idle(key)}")

    def _why_idle(self, key: str) -> str:
        """Why this key has no effect. Raises ValueError if it must not be ignored."""
        if key in IGNORED:
            return IGNORED[key]
        for prefix, reason in _REFUSED_PREFIXES.items():
            if key.startswith(prefix):
                raise ValueError(reason)
        like = nearest(key, self._known)
        return f"the key is unknown and has no effect{f'; {like} is known' if like else ''}"

    def settings(self) -> BookieSettings:
        """Raises BookieSettingsError."""
        uri = self._known["metadataServiceUri"]
        if uri not in self._values and (self._servers or self._root):
            default = uri.default
            assert isinstance(default, ServiceUri)
            self._values[uri] = ServiceUri(self._servers or default.hosts, self._root or default.root)
        found = built(BookieSettings, self._values, warnings=tuple(self._warnings))
        if found.place.ledger_directory is None:
            raise BookieSettingsError("ledgerDirectories: say where the entries are to be")
        if self._indexes is not None and self._indexes[1] != found.ledger_directory:
            raise BookieSettingsError(
                f"line {self._indexes[0]}: indexDirectories: indexes are beside the entries, in ledgerDirectories"
            )
        for is_so, key in (
            (found.storage.sync_data, "journalSyncData"),
            (found.storage.write_data, "journalWriteData"),
        ):
            if not is_so:
                raise BookieSettingsError(f"{key}: only true: what a bookie answers must not be lost with its power")
        unusable = found.ensemble.why_unusable() or found.tls.why_unusable()
        if unusable is not None:
            raise BookieSettingsError(unusable)
        return found
