"""The figures of a bookie: what it says about itself in numbers. Prometheus and `/status` show these.

The names are those of BookKeeper's provider for Prometheus (`bookkeeper_server_ADD_ENTRY_REQUEST`) where BookKeeper has
such a number; the others begin with `zab_`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from zab.bookie.meters import OPERATIONS
from zab.bookie.turn import BookieTurn
from zab.ledger.wire.status import Status
from zab.service.figure import Figure, Kind, Value
from zab.service.summary import Summary
from zab.service.version import shown

SERVER: Final = "bookkeeper_server"
BOOKIE: Final = "bookie"
JOURNAL: Final = f"{BOOKIE}_journal"
WRITABLE, READ_ONLY, UNREGISTERED = 1, 0, -1
"""BookKeeper's `SERVER_STATUS`."""


@attrs.frozen(kw_only=True)
class Surroundings:
    """What only the process knows."""

    writes_ms: Summary = attrs.Factory(Summary)
    connections: int = 0
    failed_handshakes: int = 0
    """TLS handshakes with clients."""
    open_descriptors: int = 0
    max_descriptors: int = 0


def status_of(turn: BookieTurn) -> int:
    """How it is registered, as BookKeeper says it."""
    membership = turn.bookie.membership
    read_only = None if membership is None else membership.read_only
    return UNREGISTERED if read_only is None else READ_ONLY if read_only else WRITABLE


def figures(turn: BookieTurn, around: Surroundings) -> Iterator[Figure]:
    """All figures, between two turns."""
    bookie, meters = turn.bookie, turn.meters
    yield Figure(Kind.TEXT, "version", shown())
    yield _gauge(f"{BOOKIE}_SERVER_STATUS", status_of(turn))
    for kind, name in OPERATIONS.items():
        for summaries, success in ((meters.done, "true"), (meters.refused, "false")):
            labels = (("success", success),)
            yield Figure(Kind.ADVANCED, f"{SERVER}_{name}_REQUEST", summaries[kind], labels=labels)
    for status in Status:
        if meters.statuses[status]:
            yield _counter("zab_bookie_refused", meters.statuses[status], status=status.name)
    yield _gauge(f"{SERVER}_ADD_ENTRY_IN_PROGRESS", meters.adds_under_way)
    yield _gauge(f"{SERVER}_READ_ENTRY_IN_PROGRESS", meters.reads_under_way)
    yield _counter(f"{BOOKIE}_WRITE_BYTES", meters.added_bytes)
    yield _counter(f"{BOOKIE}_READ_BYTES", meters.read_bytes)
    yield Figure(Kind.ADVANCED, f"{JOURNAL}_JOURNAL_SYNC", around.writes_ms)
    yield Figure(Kind.ADVANCED, f"{JOURNAL}_JOURNAL_FORCE_WRITE_GROUPING_COUNT", meters.frames)
    yield _gauge(f"{JOURNAL}_JOURNAL_MEMORY_USED", bookie.pending_bytes)
    yield _gauge(f"{BOOKIE}_ledgers_count", len(bookie.table))
    yield _gauge(f"{BOOKIE}_write_cache_size", bookie.cache_bytes)
    yield _gauge("zab_bookie_segments", len(bookie.segments))
    space = bookie.space.known
    if space is not None:
        yield _gauge(f"{BOOKIE}_ledger_dirs_free_bytes", space.free)
        yield _gauge(f"{BOOKIE}_ledger_dirs_total_bytes", space.total)
    yield _gauge("zab_bookie_read_only", int(bookie.space.is_read_only))
    yield _gauge("zab_bookie_disk_full", int(bookie.space.is_full))
    yield _gauge("zab_bookie_connections", around.connections)
    yield _gauge("zab_bookie_held_connections", turn.held_count)
    yield _counter("zab_bookie_broken_connections", meters.broken_connections)
    yield _counter("zab_bookie_closed_connections", meters.closed_connections)
    yield _counter("zab_bookie_failed_handshakes", around.failed_handshakes)
    yield _counter("zab_bookie_refused_frames", meters.refused_frames)
    yield _gauge("zab_longest_turn_us", turn.longest_ns // 1000)
    yield _gauge("open_file_descriptor_count", around.open_descriptors)
    yield _gauge("max_file_descriptor_count", around.max_descriptors)


def _gauge(name: str, value: Value) -> Figure:
    return Figure(Kind.GAUGE, name, value)


def _counter(name: str, value: Value, **labels: str) -> Figure:
    return Figure(Kind.COUNTER, name, value, labels=tuple(labels.items()))
