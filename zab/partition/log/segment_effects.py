"""What happens to the files of a segment when it is closed, cut or dropped, in the order that a power cut may end."""

from __future__ import annotations

from collections.abc import Sequence

from zab.partition.log.file_effects import (
    Append,
    Bytes,
    Create,
    FileEffect,
    Remove,
    Rename,
    Replace,
    Sync,
    SyncDirectory,
    Truncate,
)
from zab.partition.log.paths import CLEANED, INDEX, LOG, SEGMENT_FILES, SWAP, TIME_INDEX, TRANSACTION_INDEX
from zab.partition.log.segment import Cut, Segment
from zab.partition.log.transaction_index import ENTRY_BYTES as TRANSACTION_BYTES
from zab.partition.log.transaction_index import AbortedTransaction, pack_transactions

CLEANED_SYNC_BYTES = 4 << 20
"""After so many bytes a compacted segment is synced."""


def paths_of(segment: Segment) -> list[str]:
    """Every file that it may have."""
    return [segment.path_of(suffix) for suffix in SEGMENT_FILES]


def index_effects(segment: Segment) -> list[FileEffect]:
    """Sync it, and only then write its index files, which say so; note that it has them."""
    assert segment.offsets is not None
    assert segment.times is not None
    segment.is_indexed = True
    effects: list[FileEffect] = [Sync(segment.path)]
    if segment.aborted:
        effects.append(Sync(segment.path_of(TRANSACTION_INDEX)))
    effects.append(Replace(segment.path_of(INDEX), segment.offsets.pack()))
    effects.append(Replace(segment.path_of(TIME_INDEX), segment.times.pack()))
    return effects


def abort_effects(segment: Segment, count: int, entry: AbortedTransaction) -> list[FileEffect]:
    """Note one more aborted transaction; `count` are in its index."""
    path = segment.path_of(TRANSACTION_INDEX)
    begin: list[FileEffect] = [] if count else [Create(path), SyncDirectory(segment.directory)]
    return [*begin, Append(path, count * TRANSACTION_BYTES, entry.pack())]


def cut_effects(segment: Segment, cut: Cut, aborted_count: int) -> list[FileEffect]:
    """Remove the index files, which say that it was synced, note that it has none, and only then cut it."""
    effects: list[FileEffect] = []
    if segment.is_indexed:
        segment.is_indexed = False
        effects += [Remove(segment.path_of(INDEX)), Remove(segment.path_of(TIME_INDEX))]
        effects.append(SyncDirectory(segment.directory))
    if cut.position < segment.size:
        effects.append(Truncate(segment.path, cut.position))
    path = segment.path_of(TRANSACTION_INDEX)
    if aborted_count and not cut.aborted_count:
        effects += [Remove(path), SyncDirectory(segment.directory)]
    elif cut.aborted_count < aborted_count:
        effects.append(Truncate(path, cut.aborted_count * TRANSACTION_BYTES))
    return effects


def drop_effects(segment: Segment) -> list[FileEffect]:
    """Remove it, durably before anything else goes."""
    indexes = [segment.path_of(suffix) for suffix in SEGMENT_FILES if suffix != LOG]
    return [*map(Remove, indexes), Remove(segment.path), SyncDirectory(segment.directory)]


def cleaned_effects(path: str, position: int, data: Bytes) -> list[FileEffect]:
    """Write a part of a compacted segment into its `.cleaned` file. It is synced in parts: one long sync would hold up
    every other log."""
    begin = [] if position else [Create(path)]
    is_due = position // CLEANED_SYNC_BYTES != (position + len(data)) // CLEANED_SYNC_BYTES
    return [*begin, Append(path, position, data), *([Sync(path)] if is_due else [])]


def replace_effects(olds: Sequence[Segment], new: Segment) -> list[FileEffect]:
    """Put a segment whose batches are in its `.cleaned` file into the place of others. `leftovers` knows what a power
    cut leaves of it: after the first directory sync of these nothing is lost, and after the second the old ones may go.
    """
    assert new.offsets is not None
    assert new.times is not None
    files = {INDEX: new.offsets.pack(), TIME_INDEX: new.times.pack()}
    if new.aborted:
        files[TRANSACTION_INDEX] = pack_transactions(new.aborted)
    kinds = [*files, LOG]
    synced = SyncDirectory(new.directory)
    path = new.path + CLEANED
    effects: list[FileEffect] = [Sync(path) if new.size else Create(path)]
    effects += [Replace(new.path_of(kind) + CLEANED, data) for kind, data in files.items()]
    effects.append(synced)
    effects += [Rename(new.path_of(kind) + CLEANED, new.path_of(kind) + SWAP) for kind in kinds]
    effects.append(synced)
    effects += [Remove(path) for old in olds for path in paths_of(old)]
    effects.append(synced)
    effects += [Rename(new.path_of(kind) + SWAP, new.path_of(kind)) for kind in kinds]
    effects.append(synced)
    return effects
