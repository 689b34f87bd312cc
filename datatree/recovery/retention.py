"""Which files may go: ZooKeeper's autopurge rule, on valid snapshots only (ZOOKEEPER-3231).

With L the zxid of the oldest of the newest `keep_count` valid snapshots, what goes is

- every snapshot below L, valid or not,
- every log file that begins at or below L, except the newest of these: it may hold what comes after L,
- every stale file that begins at or below L,

unless it is in use. A snapshot that somebody fetches is *pinned*, with the log after it: that is what he needs next.
What this keeps beyond the rule is bounded: where the log files that are only kept for pins are more than so many bytes,
the oldest of the pinned snapshots are given up.

With fewer valid snapshots nothing goes, and nothing goes above L whatever it is: recovery needs one valid snapshot and
the log after it, and finds an older pair of these whenever the newer one is damaged. Files set aside as damaged are
left to their reader.

Deliberately not here: how often.
"""

import re
from collections.abc import Collection, Mapping

from attrs import define

from datatree.log.aside import STALE
from datatree.log.disk import Disk
from datatree.log.epochs import DIRECTORY
from datatree.log.segment import index_path, log_files, log_path
from datatree.log.transaction_log import TransactionLog
from datatree.snapshot import SnapshotError, snapshot_files, snapshot_path, verify_snapshot

KEEP_COUNT_MIN = 3
"""Fewer snapshots are never kept: one damaged and one being written must leave one."""

_STALE_NAME = re.compile(r"(?:log|snapshot)\.([0-9a-f]+)" + re.escape(STALE))


@define
class Purged:
    """What a purge did."""

    removed: list[str]
    """The paths of the files that are gone."""
    given_up: list[int]
    """The pinned snapshots that are not kept any more."""


def removable(
    valid_snapshots: Collection[int],
    snapshots: Collection[int],
    logs: Collection[int],
    stale: Collection[tuple[int, str]],
    keep_count: int,
    in_use: Collection[str] = (),
    pinned: int | None = None,
) -> list[str]:
    """The paths that may go, in the order in which they should: oldest first.

    Snapshots and logs are the zxids of the files' names, stale files (zxid, path); `in_use` are paths that somebody
    reads or sends; the log after the zxid `pinned` stays, too."""
    assert keep_count >= KEEP_COUNT_MIN
    if len(valid_snapshots) < keep_count:
        return []
    oldest = sorted(valid_snapshots)[-keep_count]
    below = _before(logs, oldest if pinned is None else min(oldest, pinned))
    paths = [(zxid, snapshot_path(zxid)) for zxid in snapshots if zxid < oldest]
    paths += [(first, log_path(first)) for first in below]
    paths += [(zxid, path) for zxid, path in stale if zxid <= oldest]
    in_order = [path for _, path in sorted(paths)]
    # The log stays without gaps: nothing after a file in use goes either.
    kept_from = min((first for first in below if log_path(first) in in_use), default=None)
    if kept_from is not None:
        after = {log_path(first) for first in below if first >= kept_from}
        in_order = [path for path in in_order if path not in after]
    return [path for path in in_order if path not in in_use]


def _before(logs: Collection[int], zxid: int) -> list[int]:
    """The log files that hold nothing after this zxid, oldest first."""
    return [first for first in sorted(logs) if first <= zxid][:-1]


def given_up(
    pinned: Collection[int], valid_snapshots: Collection[int], sizes: Mapping[int, int], keep_count: int, bytes_max: int
) -> list[int]:
    """Those of the pinned snapshots for which the log is kept no longer, oldest first. `sizes` are the bytes of the log
    files, by the zxids of their names."""
    if len(valid_snapshots) < keep_count:
        return []
    would_go = _before(sizes, sorted(valid_snapshots)[-keep_count])

    def kept_bytes(pin: int) -> int:
        going = set(_before(sizes, pin))
        return sum(sizes[first] for first in would_go if first not in going)

    return [pin for pin in sorted(set(pinned)) if kept_bytes(pin) > bytes_max]


def valid_snapshots(disk: Disk, known_valid: Collection[int] = ()) -> list[int]:
    """The zxids of the snapshots whose checksums are all right; those in `known_valid` are not read again."""
    return [zxid for zxid in snapshot_files(disk) if zxid in known_valid or _is_valid(disk, zxid)]


def _is_valid(disk: Disk, zxid: int) -> bool:
    try:
        verify_snapshot(disk, snapshot_path(zxid))
    except SnapshotError:
        return False
    return True


def purge(
    disk: Disk,
    log: TransactionLog | None = None,
    *,
    keep_count: int = KEEP_COUNT_MIN,
    in_use: Collection[str] = (),
    known_valid: Collection[int] = (),
    pinned: Collection[int] = (),
    pinned_bytes_max: int = 0,
) -> Purged:
    """Remove what may go. Takes its time: not for the log's thread, nor for the loop.

    The snapshots at the zxids `pinned` are kept, with the log after them, at the cost of `pinned_bytes_max` at most. A
    running `log` forgets its files first, so that nobody begins to read one that is about to go."""
    names = disk.list(DIRECTORY)
    stale = [(int(match[1], 16), f"{DIRECTORY}/{name}") for name in names if (match := _STALE_NAME.fullmatch(name))]
    valid = valid_snapshots(disk, known_valid)
    sizes = {first: disk.size(log_path(first)) for first in log_files(disk)}
    lost = given_up(pinned, valid, sizes, keep_count, pinned_bytes_max)
    held = set(pinned).difference(lost)
    in_use = {*in_use, *map(snapshot_path, held)}
    paths = removable(valid, snapshot_files(disk), sizes, stale, keep_count, in_use, min(held, default=None))
    if log is not None:
        log.release(set(paths))
    for path in paths:
        disk.remove(path)
        if disk.exists(index_path(path)):
            disk.remove(index_path(path))
        # Each for good before the next: a power cut must not bring back an older file than one that is gone.
        disk.sync_directory(DIRECTORY)
    return Purged(paths, lost)
