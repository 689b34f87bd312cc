"""When to take a snapshot: the leader flags a batch, and every member takes one after it (E3 same snapshots). A leader
also takes one for a learner that it cannot synchronize otherwise.

Every member counts what it applied since the last flagged batch, so that the next leader continues from there. While a
snapshot is being written, the next one waits, and then has the tree of that time.

Not here: taking the snapshot, which is up to the tree and the host (`snapshots`).
"""

from __future__ import annotations

from datatree.log.batch import SNAPSHOT, Batch


class SnapshotSchedule:
    """Counts transactions and bytes up to the next snapshot; both limits come from the configuration."""

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        assert count_max > 0
        assert bytes_max > 0
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.count = 0
        """Transactions applied since the last flagged batch."""
        self.bytes = 0
        self.writing: int | None = None
        """The zxid of the snapshot that is being written."""
        self.is_late = False
        """Whether a snapshot is due that could not be taken yet."""
        self._proposed_count = 0
        self._proposed_bytes = 0
        self._flag_in_flight = False

    def flags_of(self, count: int, size_bytes: int) -> int:
        """The flags of a batch of this many transactions and bytes, which the leader proposes."""
        self._proposed_count += count
        self._proposed_bytes += size_bytes
        due = (
            self.count + self._proposed_count >= self._count_max or self.bytes + self._proposed_bytes >= self._bytes_max
        )
        if not due or self._flag_in_flight:
            return 0
        self._flag_in_flight = True
        return SNAPSHOT

    def applied(self, batch: Batch) -> bool:
        """Count an applied batch. True: a snapshot is due, or late."""
        self._proposed_count = max(0, self._proposed_count - batch.count)
        self._proposed_bytes = max(0, self._proposed_bytes - len(batch.raw))
        if batch.flags & SNAPSHOT:
            self.count = self.bytes = 0
            self._flag_in_flight = False
            return True
        self.count += batch.count
        self.bytes += len(batch.raw)
        return self.is_late

    def begin(self, zxid: int) -> bool:
        """Begin a due snapshot. True: take it now; False: when the one before has ended."""
        self.is_late = self.writing is not None
        if self.is_late:
            return False
        self.writing = zxid
        return True

    def ended(self) -> bool:
        """Note that the snapshot is written, or given up. True: another one is late."""
        self.writing = None
        return self.is_late

    def replaced(self) -> None:
        """Forget the due snapshot, since the tree was replaced."""
        self.is_late = False

    def drop_role(self) -> None:
        """Forget proposals that are not committed: they may never be."""
        self._proposed_count = self._proposed_bytes = 0
        self._flag_in_flight = False
