"""Which records of a partition belong to transactions that were aborted, or that are still open.

    `.txnindex` of each segment         the transactions that a marker in it aborted
    newest `.snapshot` below the end    which transactions were open there
    batches from there to the end       which were begun and ended since; only headers and markers are read

A record of a producer is aborted if its offset is in one of the producer's aborted transactions; open if it is at or
above the beginning of its open one; else committed. The last stable offset is the smallest beginning of an open one.

Everything is as of `until`: a transaction whose marker is at or above it is open.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from zab.partition.log.offset_index import IndexDamagedError
from zab.partition.log.paths import SNAPSHOT, TRANSACTION_INDEX, parse_name
from zab.partition.log.producers import NO_OFFSET
from zab.partition.log.snapshots import SnapshotDamagedError, parse_snapshot
from zab.partition.log.transaction_index import AbortedTransaction, parse_transactions
from zab.partition.records.batch import BatchError
from zab.partition.records.control import decode_marker
from zab.pipeline.decoding.damage import GAP
from zab.pipeline.errors import PipelineError
from zab.pipeline.topics.batches import Batches, Fault, batches
from zab.pipeline.topics.replicas import Replica

__all__ = ["ABORTED", "COMMITTED", "NOT_TRANSACTIONAL", "OPEN", "Outcomes", "outcomes"]

NOT_TRANSACTIONAL: Final = 0
COMMITTED: Final = 1
ABORTED: Final = 2
OPEN: Final = 3


@frozen
class Outcomes:
    """The transactions of a partition below `until`. `aborted`: (producer id, first offset, offset of the marker).
    `open`: (producer id, first offset)."""

    until: int
    aborted: tuple[tuple[int, int, int], ...] = ()
    open: tuple[tuple[int, int], ...] = ()

    @property
    def stable(self) -> int:
        """The last stable offset: everything below is decided."""
        return min([self.until, *(first for _, first in self.open)])

    def within(self, start: int, until: int) -> "Outcomes":
        """The transactions with records in this range."""
        aborted = tuple(one for one in self.aborted if one[1] < until and one[2] >= start)
        return Outcomes(self.until, aborted, tuple(one for one in self.open if one[1] < until))

    def of(self, found: Batches) -> NDArray[np.int8]:
        """The outcome of each batch, one of the constants above."""
        result = np.where(found.is_transactional, COMMITTED, NOT_TRANSACTIONAL).astype(np.int8)
        producers, bases = found.headers["producer_id"], found.headers["base_offset"]
        for producer, first, last in self.aborted:
            result[(producers == producer) & (bases >= first) & (bases <= last) & (result != NOT_TRANSACTIONAL)] = (
                ABORTED
            )
        for producer, first in self.open:
            result[(producers == producer) & (bases >= first) & (result != NOT_TRANSACTIONAL)] = OPEN
        return result


def outcomes(replica: Replica, until: int) -> Outcomes:
    """The transactions of a replica. Raises PipelineError for an index that is damaged, or a batch on the way."""
    return Outcomes(until, tuple(_aborted(replica, until)), tuple(sorted(_open(replica, until).items())))


def _aborted(replica: Replica, until: int) -> Iterator[tuple[int, int, int]]:
    for segment in replica.segments:
        place = segment.beside(TRANSACTION_INDEX)
        if segment.base >= until or place.name not in replica.others:
            continue
        try:
            found: list[AbortedTransaction] = parse_transactions(place.read())
        except (IndexDamagedError, OSError) as error:
            raise PipelineError(
                f"{place} cannot be used ({error}), so it is not known which transactions were aborted: read the "
                "replica of another broker, or start this one, which makes the file again"
            ) from None
        yield from ((one.producer_id, one.first_offset, one.last_offset) for one in found if one.last_offset < until)


def _open(replica: Replica, until: int) -> dict[int, int]:
    """Producer id → where its open transaction begins."""
    start, found = _snapshot(replica, until)
    for part in batches(replica, start, until):
        if isinstance(part, Fault):
            if part.damage.kind == GAP:
                continue
            raise PipelineError(
                f"{part.sentence}; so it is not known which transactions are open: read the replica of another broker, "
                "or without the column aborted"
            )
        transactional = part.only(part.is_transactional)
        ids, bases = transactional.headers["producer_id"].tolist(), transactional.headers["base_offset"].tolist()
        ends = transactional.is_control.tolist()
        for producer, base, is_end, at in zip(ids, bases, ends, transactional.at.tolist(), strict=True):
            if not is_end:
                found.setdefault(producer, base)
            elif _is_marker(transactional, at):
                found.pop(producer, None)
    return found


def _is_marker(found: Batches, at: int) -> bool:
    try:
        return decode_marker(found.data, at) is not None
    except BatchError:
        return False


def _snapshot(replica: Replica, until: int) -> tuple[int, dict[int, int]]:
    """(offset, open transactions there) of the newest whole snapshot at or below `until`."""
    names = [(parsed[0], name) for name in replica.others if (parsed := parse_name(name)) and parsed[1] == SNAPSHOT]
    for offset, name in sorted(names, reverse=True):
        if offset > until:
            continue
        try:
            states = parse_snapshot((replica.directory / name).read())
        except (SnapshotDamagedError, OSError):
            continue
        opened = {producer: state.transaction_first_offset for producer, state in states.items()}
        return offset, {producer: first for producer, first in opened.items() if first != NO_OFFSET}
    return replica.start, {}
