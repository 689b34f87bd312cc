"""Where a member keeps its state, and how much of it.

Not here: what they do (`zab.member.storage`, `datatree.recovery`).
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
        "Snapshots, `myid` and the epochs: nothing works without it.",
        shown="required",
    )
    data_log_dir: str = setting(
        "dataLogDir",
        derived(lambda storage: storage.data_dir),
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

    @property
    def log_file_bytes(self) -> int:
        """How large a log file grows."""
        size_bytes = self.pre_alloc_size_kib * 1024 or 64 * _MIB
        return min(size_bytes, self.txn_log_size_limit_kib * 1024) if self.txn_log_size_limit_kib > 0 else size_bytes
