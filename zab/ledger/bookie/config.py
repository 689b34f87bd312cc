"""The limits of a bookie, each with its default. Sizes are bytes, times milliseconds."""

from __future__ import annotations

from typing import Final

import attrs

MIB: Final = 1 << 20
UUID_BYTES: Final = 16


@attrs.frozen
class BookieConfig:
    """See the docstrings of the fields."""

    entry_bytes_max: int = 5 * MIB + 10 * 1024
    """A longer envelope is a BAD_REQUEST. The default is what Pulsar's clients send at most."""
    flush_bytes: int = 64 * MIB
    """The write cache is flushed when its active generation has so many bytes."""
    flush_ms: int = 10_000
    """It is flushed, and a checkpoint made, when its oldest entry, or anything else that was journaled, is so old."""
    cache_bytes_max: int = 192 * MIB
    """While both generations have so many bytes together, adds are answered TOO_MANY_REQUESTS. Long before, when the
    active one is full and the other is still being flushed, the host is told to read no adds (`Effects.takes_adds`)."""
    journal_pending_bytes: int = 64 * MIB
    """The host is also told to read no adds while so many bytes wait for the journal."""
    journal_file_bytes: int = 256 * MIB
    """A journal file has so many bytes, or one frame."""
    reads_max: int = 10_000
    """So many reads wait for the disk; further ones are answered TOO_MANY_REQUESTS. Half of them are kept for fencing
    and urgent reads."""
    read_bytes_under_way: int = 64 * MIB
    """So many bytes are read at a time."""
    read_ahead_bytes: int = 256 * 1024
    """So much of a ledger is read together."""
    read_cache_bytes: int = 64 * MIB
    """Entries and indexes of segments that were read are kept up to this size."""
    batch_bytes_max: int = 5 * MIB
    """A batch read has so many bytes at most, or one entry."""
    batch_count_max: int = 1_000
    """A batch read has so many entries at most."""
    batch_ms_max: int = 1_000
    """A batch read ends so long after it came, with at least one entry: a client that gave up waiting for all of them
    would ask for as many again."""
    long_reads_max: int = 32
    """So many batches and lists are under way at a time: each may gather `batch_bytes_max`. Further ones wait."""
    long_reads_per_step: int = 4
    """So many of them begin in one step."""
    runs_max: int = 100_000
    """A ledger whose entries are more runs than this is not listed: TOO_MANY_REQUESTS."""
    watchers_max: int = 1_000
    """So many long polls a connection; further ones are answered TOO_MANY_REQUESTS."""
    watch_ms_max: int = 30_000
    """A long poll ends after this, whatever it asks for."""
    ledgers_max: int = 2_000_000
    """An add or a fence that would make the bookie know of more ledgers is answered TOO_MANY_REQUESTS."""
    ledgers_per_step: int = 2_000
    """So many ledgers are looked at in one step by what looks at all of them."""
    space_check_ms: int = 10_000
    """The free space is asked for so often."""
    read_only_share: float = 0.95
    """From this used share of the disk on, the bookie is read-only."""
    writable_share: float = 0.90
    """Below this used share, it is writable again."""
    reserve_bytes: int = 384 * MIB
    """What is kept free of urgent adds: room for a journal file and two generations."""
    collect_ms: int = 600_000
    """The garbage is collected so often."""
    collect_share_max: float = 0.2
    """A round that would delete a larger share of the ledgers deletes nothing (`collection.py`)."""
    collect_count_max: int = 1_000
    """A round that would delete more ledgers than this deletes nothing."""
    surplus_ms: int = 86_400_000
    """Ledgers that are closed, and of which the metadata name other bookies alone, are looked for so often; those that
    are found twice are emptied (`surplus.py`). 0: never."""
    tombstones_max: int = 4_000_000
    """With so many runs of tombstones, 16 bytes each, no ledger is deleted any more (`deletion.py`)."""
    tombstones_merge_from: int = 10_000
    """From so many runs on, ids between them that are gone from the metadata get tombstones too (`gaps.py`)."""
    compact_share: float = 0.2
    """A segment with a smaller live share is compacted."""
    compact_share_daily: float = 0.8
    """A segment with a smaller live share is compacted once a day."""
    compact_ms: int = 3_600_000
    """Segments are looked at so often."""
    compact_daily_ms: int = 86_400_000
    """They are looked at with the higher share so often."""
    compact_small_bytes: int = 16 * MIB
    """A segment that is smaller is put together with its neighbours in age, if those are compacted too: a bookie with
    little to do makes one each time that it flushes."""
    compact_bytes_max: int = 256 * MIB
    """So many live bytes are put into one segment."""
    compact_segments_max: int = 100
    """So many segments are put into one."""
    compact_rows_max: int = 200_000
    """The segments that are put into one have so many rows of ledgers together."""
    compact_entries_max: int = 500_000
    """So many live entries are put into one segment: where each of them is, is kept in memory meanwhile."""
    compact_bytes_per_s: int = 20 * MIB
    """A compaction writes so many bytes a second on average."""
    piece_bytes: int = 4 * MIB
    """Segments are written and synced in such pieces, since one long sync would hold up the journal. A flush waits for
    one piece of a compaction at most."""
    state_small_bytes: int = 4 * MIB
    """A state that is not longer is written with each checkpoint. A longer one, and so a checkpoint, is written once
    about as many bytes were journaled since the last one: so no more is written for states than for entries."""
    open_bytes_max: int = 64 * MIB
    """What is replayed at a start is flushed each time it has so many bytes."""


@attrs.frozen
class Identity:
    """Whose files these are. Each is 16 bytes, and is in the header of each file."""

    instance: bytes
    """The INSTANCEID of the cluster."""
    uuid: bytes
    """The id of the data, made at its first start."""

    def __attrs_post_init__(self) -> None:
        assert len(self.instance) == len(self.uuid) == UUID_BYTES
