"""Which files may go: ZooKeeper's autopurge rule, on valid snapshots only (ZOOKEEPER-3231).

With L the zxid of the oldest of the newest `keep_count` valid snapshots, these may go:

- every snapshot below L, valid or not,
- every log file that begins at or below L, except the newest of these: it may hold what comes after L,
- every stale file that begins at or below L,

unless they are in use. A snapshot that another member fetches is *pinned*, with the log after it, which that member
needs next. What pins keep beyond the rule is bounded: if the log files that are only kept for pins exceed a number of
bytes, the oldest pinned snapshots are given up.

With fewer valid snapshots nothing goes, and nothing above L ever goes: recovery needs one valid snapshot and the log
after it, and finds an older pair if the newer one is damaged. Files set aside as damaged are left for an operator.

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
"""Never keep fewer snapshots than this: one damaged and one being written must leave one."""

_STALE_NAME = re.compile(r"(?:log|snapshot)\.([0-9a-f]+)" + re.escape(STALE))


@define
class Purged:
    """What a purge did."""

    removed: list[str]
    """The paths of the removed files."""
    given_up: list[int]
    """The pinned snapshots that are no longer kept."""


def removable(
    valid_snapshots: Collection[int],
    snapshots: Collection[int],
    logs: Collection[int],
    stale: Collection[tuple[int, str]],
    keep_count: int,
    in_use: Collection[str] = (),
    pinned: int | None = None,
) -> list[str]:
    """The paths that may go, in order: oldest first.

    Snapshots and logs are given by the zxids in the files' names, stale files by (zxid, path); `in_use` are paths that
    are being read or sent; the log after the zxid `pinned` stays, too.
    """
    assert keep_count >= KEEP_COUNT_MIN
    if len(valid_snapshots) < keep_count:
        return []
    oldest = sorted(valid_snapshots)[-keep_count]
    below = _before(logs, oldest if pinned is None else min(oldest, pinned))
    paths = [(zxid, snapshot_path(zxid)) for zxid in snapshots if zxid < oldest]
    paths += [(first, log_path(first)) for first in below]
    paths += [(zxid, path) for zxid, path in stale if zxid <= oldest]
    in_order = [path for _, path in sorted(paths)]
    # The log must not get gaps: nothing after a file in use goes either.
    kept_from = min((first for first in below if log_path(first) in in_use), default=None)
    if kept_from is not None:
        after = {log_path(first) for first in below if first >= kept_from}
        in_order = [path for path in in_order if path not in after]
    return [path for path in in_order if path not in in_use]


def _before(logs: Collection[int], zxid: int) -> list[int]:
    """The log files with nothing after this zxid, oldest first."""
    return [first for first in sorted(logs) if first <= zxid][:-1]


def given_up(
    pinned: Collection[int], valid_snapshots: Collection[int], sizes: Mapping[int, int], keep_count: int, bytes_max: int
) -> list[int]:
    """The pinned snapshots for which the log is no longer kept, oldest first. `sizes`: of the log files, by the zxids
    in their names."""
    if len(valid_snapshots) < keep_count:
        return []
    would_go = _before(sizes, sorted(valid_snapshots)[-keep_count])

    def kept_bytes(pin: int) -> int:
        going = set(_before(sizes, pin))
        return sum(sizes[first] for first in would_go if first not in going)

    return [pin for pin in sorted(set(pinned)) if kept_bytes(pin) > bytes_max]


def valid_snapshots(disk: Disk, known_valid: Collection[int] = ()) -> list[int]:
    """The zxids of the snapshots with valid checksums; those in `known_valid` are not read again."""
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
    """Remove what may go. Takes time: do not call it in the log thread, nor in the loop.

    The snapshots at the zxids `pinned` are kept, with the log after them, at a cost of at most `pinned_bytes_max`. A
    running `log` forgets its files first, so that no reader begins with one that is about to go.
    """
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
        # Each durably before the next: a power cut must not bring back a file older than one that is gone.
        disk.sync_directory(DIRECTORY)
    return Purged(paths, lost)
