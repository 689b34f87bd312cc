"""From a snapshot's tree and the batches after it to a tree at the highest known high-water mark.

A batch is applied as soon as some mark covers it; the others wait in `pending`. So the tree never has a transaction
that is not known to be committed, and memory only holds the pending batches and the newest `recent_bytes` of the log.

Invariants: batches come in order, each continuing `last` in number and chain; `mark` is a batch end, or where the
replay began; the tree is at `mark`.
"""

from collections import deque

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import Batch, Position, continues, follows
from datatree.record import decode_fields
from datatree.tree import DataTree

# The number of batch ends whose digests a serving member remembers.
_DIGESTS_KEPT = 1024


class Replay:
    """Begins with a tree and its position."""

    def __init__(self, tree: DataTree, start: Position, recent_bytes: int) -> None:
        assert tree.applied == start[0]
        self.tree = tree
        self.last = start
        self.mark = start[0]
        self.base = start
        self.recent: deque[Batch] = deque()
        self.pending: deque[Batch] = deque()
        self.mismatch_zxid: int | None = None
        """The first zxid at which the tree's digest differs from that of its leader's tree."""
        self.applied_count = 0
        """How many transactions of the log are in the tree."""
        self._recent_bytes = recent_bytes
        self._recent_size = 0
        self._digests: dict[int, int] = {start[0]: tree.digest}

    def continues(self, batch: Batch) -> bool:
        """Whether this batch continues the history, by number and by chain."""
        return follows(self.last[0], batch) and continues(self.last[1], batch)

    def add(self, batch: Batch) -> None:
        """Take the next batch. Raises RecordError when a batch that its mark covers does not hold transactions."""
        self.last = batch.zxid, batch.chain
        self.pending.append(batch)
        self.recent.append(batch)
        self._recent_size += len(batch.raw)
        self.advance(batch.mark)
        if batch.digest_version == DIGEST_VERSION and self.mismatch_zxid is None:
            known = self._digests.get(batch.applied)
            if known is not None and known != batch.digest:
                self.mismatch_zxid = batch.applied

    def advance(self, mark: int) -> None:
        """Everything up to `mark` is committed: apply it, as far as it is here."""
        while self.pending and self.pending[0].zxid <= mark:
            batch = self.pending[0]
            for txn in decode_fields(batch.body, batch.first, batch.count):
                self.tree.apply(txn, is_watched=False)
            self.pending.popleft()
            self.applied_count += batch.count
            self.mark = batch.zxid
            self._digests[batch.zxid] = self.tree.digest
            if len(self._digests) > _DIGESTS_KEPT:
                del self._digests[next(iter(self._digests))]
        while self._recent_size > self._recent_bytes and self.recent[0].zxid <= self.mark:
            oldest = self.recent.popleft()
            self._recent_size -= len(oldest.raw)
            self.base = oldest.zxid, oldest.chain
