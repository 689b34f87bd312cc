"""All ledgers, page after page, at a rate.

    pages = each_page(ledgers_per_s)
    while (ids := (yield from pages.next(root))) is not None:
        found, unreadable = yield from read_metadata(root, ids)
        …
        yield Pause(pages.pause_ms(len(ids)))

What is read may be old: what is marked because of it is looked at again, by a worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from attrs import define, field

from zab.coordination.operations import Get
from zab.coordination.steps import Steps, read
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import decode_metadata
from zab.ledger.store.ledgers import list_ledgers

LISTED_TOGETHER: Final = 10_000
READ_TOGETHER: Final = 100


@define
class Pages:
    """Ids in order, from the first to the last ledger."""

    _ledgers_per_s: int
    _after: int = -1
    _is_end: bool = False
    _ids: deque[int] = field(factory=deque)

    def next(self, root: str) -> Steps[tuple[int, ...] | None]:
        """The next ids, in order; None: there are no more."""
        if not self._ids and not self._is_end:
            listed = yield from list_ledgers(root, self._after, LISTED_TOGETHER)
            self._is_end = len(listed) < LISTED_TOGETHER
            self._ids.extend(listed)
        if not self._ids:
            return None
        taken = tuple(self._ids.popleft() for _ in range(min(READ_TOGETHER, len(self._ids))))
        self._after = taken[-1]
        return taken

    def pause_ms(self, count: int) -> int:
        """How long to rest after so many ledgers."""
        return -(-1000 * count // self._ledgers_per_s)


def each_page(ledgers_per_s: int) -> Pages:
    return Pages(ledgers_per_s)


def read_metadata(root: str, ids: Sequence[int]) -> Steps[tuple[list[VersionedMetadata], int]]:
    """The metadata of these ledgers, without those that are gone meanwhile; and how many cannot be read."""
    results = yield from read(Get(ledger_path(root, ledger)) for ledger in ids)
    found: list[VersionedMetadata] = []
    unreadable = 0
    for ledger, result in zip(ids, results, strict=True):
        if result.is_missing:
            continue
        try:
            metadata = decode_metadata(result.must(ledger_path(root, ledger)).data)
        except InvalidMetadataError:
            unreadable += 1
        else:
            found.append(VersionedMetadata(ledger, metadata, result.stat.version))
    return found, unreadable
