"""What a consumer makes of the answer to a fetch: it leaves out what is aborted, and markers."""

from __future__ import annotations

from collections.abc import Iterable

from zab.partition.records.batch import walk
from zab.partition.records.control import ControlType, decode_marker
from zab.partition.records.record import decode_records


def shown(data: bytes, aborted: Iterable[tuple[int, int]]) -> list[bytes | None]:
    """The values of these batches. `aborted`: (first offset, producer id) of each aborted transaction."""
    left = sorted(aborted)
    dropped: set[int] = set()
    found: list[bytes | None] = []
    for position, header in walk(data):
        while left and left[0][0] <= header.last_offset:
            dropped.add(left.pop(0)[1])
        if header.is_control:
            marker = decode_marker(data, position)
            assert marker is not None
            if marker.type is ControlType.ABORT:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            found += [record.value for record in decode_records(data, position)]
    return found
