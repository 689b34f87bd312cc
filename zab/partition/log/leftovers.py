"""What a crash left of deletions and of the cleaner, by the suffixes of files.

The cleaner writes new segments as `.cleaned`, renames all of them to `.swap` from the newest to the oldest, deletes the
segments that they replace, and takes the suffix away. So:

    .deleted, .tmp    on their way out, or not finished: removed
    .cleaned          not finished: removed, after every `.swap` at or above the smallest of them
    .swap             complete: what it replaces is deleted, and it takes the place
"""

from __future__ import annotations

from datatree.log.disk import Disk
from zab.partition.log.headers import PIECE_BYTES, headers_from
from zab.partition.log.paths import CLEANED, DELETED, LOG, SEGMENT_FILES, SWAP, TEMPORARY, parse_name, path_of
from zab.partition.records.batch import BatchError


def finish_leftovers(disk: Disk, directory: str) -> None:
    """Finish or undo what was going on. Raises OSError."""
    names = disk.list(directory)
    unfinished = min(_bases(names, CLEANED), default=None)
    swaps = sorted(base for base, kind in _files(names, SWAP) if kind == LOG)
    undone = {base for base in swaps if unfinished is not None and base >= unfinished}
    swaps = [base for base in swaps if base not in undone]
    # Files of an index may have their suffix still, or already, where the log file has not.
    stray = [path_of(directory, base, kind) + SWAP for base, kind in _files(names, SWAP) if base not in swaps]
    for path in stray:
        disk.remove(path)
    if stray:
        # Before what says that they were not complete goes.
        disk.sync_directory(directory)
    for name in names:
        if name.endswith((DELETED, CLEANED, TEMPORARY)):
            disk.remove(f"{directory}/{name}")
    if swaps:
        disk.sync_directory(directory)
        _replace(disk, directory, swaps, sorted(base for base, kind in _files(names, "") if kind == LOG))


def _files(names: list[str], suffix: str) -> list[tuple[int, str]]:
    """(base offset, kind) of the files of segments with this suffix."""
    plain = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return [found for found in map(parse_name, plain) if found is not None]


def _bases(names: list[str], suffix: str) -> set[int]:
    return {base for base, _ in _files(names, suffix)}


def _replace(disk: Disk, directory: str, swaps: list[int], plain: list[int]) -> None:
    """Put these complete segments into the place of those whose offsets they cover."""
    end = swaps[-1] + 1
    path = path_of(directory, swaps[-1], LOG) + SWAP
    try:
        for _, header in headers_from(disk, path, 0, disk.size(path), PIECE_BYTES):
            end = header.last_offset + 1
    except BatchError:
        # It was complete, and is damaged: the scan cuts it there.
        pass
    for base in plain:
        if swaps[0] <= base < end:
            _remove(disk, directory, base, "")
    # Durably, before the suffix goes: afterwards nobody would know that they were replaced.
    disk.sync_directory(directory)
    for base in swaps:
        for suffix in reversed(SEGMENT_FILES):
            path = path_of(directory, base, suffix)
            if disk.exists(path + SWAP):
                disk.rename(path + SWAP, path)
        disk.sync_directory(directory)


def _remove(disk: Disk, directory: str, base: int, suffix: str) -> None:
    for kind in SEGMENT_FILES:
        path = path_of(directory, base, kind) + suffix
        if disk.exists(path):
            disk.remove(path)
