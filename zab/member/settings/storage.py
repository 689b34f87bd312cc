"""Where a member stores its state, and how much of it.

Not here: the storage itself (`zab.member.storage`, `datatree.recovery`).
"""

from __future__ import annotations

from typing import Final

from attrs import NOTHING, frozen

from zab.configuration.fields import BOOLEAN, BYTES, COUNT_OR_0, INT_MAX, LONG_MAX, derived, integer, setting, text_of

_MIB: Final = 1024 * 1024


@frozen(kw_only=True)
class StorageSettings:
    """Directories, log files, snapshots, retention, disk space and scrubbing."""

    data_dir: str = setting(
        "dataDir",
        NOTHING,
        text_of,
        "path",
        "Where snapshots, `myid` and the epoch files are. Required.",
        shown="required",
    )
    data_log_dir: str = setting(
        "dataLogDir",
        derived(lambda storage: storage.data_dir),
        text_of,
        "path",
        "Where the log is. A separate disk keeps snapshots from slowing down syncs.",
        shown="dataDir",
    )
    data_dir_autocreate: bool = setting(
        "datadir.autocreate",
        True,
        BOOLEAN,
        "true/false",
        "true: a first start creates the directories. false: a missing mount stops the start.",
    )
    pre_alloc_size_kib: int = setting(
        "preAllocSize",
        65536,
        integer(0, INT_MAX),
        "KiB",
        "The size of a log file, allocated in advance so that an append changes no metadata. 0: 64 MiB, not allocated.",
    )
    snap_count: int = setting(
        "snapCount",
        100_000,
        integer(-INT_MAX, INT_MAX),
        "transactions",
        "How many transactions are between two snapshots. The leader decides for all members.",
        raised_to=2,
    )
    snap_size_limit_kib: int = setting(
        "snapSizeLimitInKb",
        4_194_304,
        integer(-INT_MAX, LONG_MAX),
        "KiB",
        "How much log is between two snapshots when writes are large. 0 or less: no limit.",
    )
    txn_log_size_limit_kib: int = setting(
        "txnLogSizeLimitInKb",
        -1,
        integer(-INT_MAX, LONG_MAX),
        "KiB",
        "A log file is also rolled at this size. 0 or less: no limit.",
    )
    fsync_warning_threshold_ms: int = setting(
        "fsync.warningthresholdms",
        1000,
        COUNT_OR_0,
        "ms",
        "A sync that takes longer is logged. A slow disk is the usual reason why a leader is lost.",
    )
    snap_retain_count: int = setting(
        "autopurge.snapRetainCount",
        3,
        integer(-INT_MAX, INT_MAX),
        "snapshots",
        "How many snapshots are kept, with the logs that they need.",
        raised_to=3,
    )
    purge_interval_hours: int = setting(
        "autopurge.purgeInterval",
        1,
        integer(-INT_MAX, INT_MAX),
        "hours",
        "How often old files are removed. ZooKeeper's default is 0, never, which fills every disk in time.",
    )
    max_pinned_log_bytes: int = setting(
        "maxPinnedLogBytes",
        4096 * _MIB,
        BYTES,
        "bytes",
        "zab only. How much log is kept past retention for learners that fetch a snapshot. Beyond it, they "
        "fetch a newer one.",
    )
    disk_low_bytes: int = setting(
        "diskLowBytes",
        64 * _MIB,
        integer(0, LONG_MAX),
        "bytes",
        "zab only. With less free space, a member logs only what the ensemble needs. 0: no check.",
    )
    disk_reserve_bytes: int = setting(
        "diskReserveBytes",
        32 * _MIB,
        integer(4096, LONG_MAX),
        "bytes",
        "zab only. The size of a file that is deleted when space is low, so that closing sessions, deletes and "
        "elections can continue.",
    )
    scrub_interval_seconds: int = setting(
        "scrub.intervalSeconds",
        86_400,
        COUNT_OR_0,
        "s",
        "zab only. How often all files are read through, to find damage early. 0: never.",
    )
    scrub_bytes_per_second: int = setting(
        "scrub.maxBytesPerSecond",
        1024 * 1024,
        BYTES,
        "bytes a second",
        "zab only. How fast they are read. The log has priority on the disk.",
    )

    @property
    def log_file_bytes(self) -> int:
        """The maximum size of a log file."""
        size_bytes = self.pre_alloc_size_kib * 1024 or 64 * _MIB
        return min(size_bytes, self.txn_log_size_limit_kib * 1024) if self.txn_log_size_limit_kib > 0 else size_bytes
