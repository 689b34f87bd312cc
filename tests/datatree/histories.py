"""Histories to put into logs: batches of real transactions, and a member's disk that has lived through some of them."""

from random import Random

from datatree.log.batch import Batch, build, genesis
from datatree.log.epochs import MemberRecord, save_epochs, save_member
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.record import Txn, decode_all, encode
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree
from zab.simulator.world.disk import FaultyDisk

LINEAGE = bytes(range(16))
START = (0, genesis(LINEAGE))


class Author:
    """A leader that makes batches, one after the other, and applies what its mark covers to a tree of its own."""

    def __init__(self, epoch: int = 1, seed: int = 0, start: tuple[int, bytes] = START) -> None:
        self.rng = Random(seed)
        self.epoch = epoch
        self.last = start
        self.batches: list[Batch] = []
        self.tree = DataTree()
        self.children = 0
        self.states: dict[int, tuple[int, int]] = {0: (self.tree.digest, self.tree.znode_count)}

    def batch(self, count: int = 1, *, lag: int = 1, data_bytes: int = 20) -> Batch:
        """The next batch: `count` creates below the root. Its mark lags by `lag` batches."""
        first = self.last[0] + 1 if self.last[0] >> 32 == self.epoch else self.epoch << 32 | 1
        records = []
        for zxid in range(first, first + count):
            self.children += 1
            data = self.rng.randbytes(data_bytes)
            acl = None if self.children % 3 else ((1, b"digest", b"user:%d" % (self.children % 2)),)
            txn = Txn(zxid, 1000 + zxid, 5, zxid & 99, 1, self.children, b"/z%06d" % self.children, data, (acl, 0))
            records.append(encode(txn))
        behind = self.batches[-lag].zxid if len(self.batches) >= lag else 0
        made = build(
            self.last[1],
            epoch=self.epoch,
            first=first,
            count=count,
            time=1000 + first,
            flags=0,
            mark=behind,
            applied=behind,
            digest=self.states[behind][0],
            body=b"".join(records),
        )
        self.apply(made)
        return made

    def apply(self, made: Batch) -> None:
        for txn in decode_all(made.body, made.first, made.count):
            self.tree.apply(txn)
        self.states[made.zxid] = self.tree.digest, self.tree.znode_count
        self.batches.append(made)
        self.last = made.zxid, made.chain

    def cut(self, kept: int) -> "Author":
        """The leader of the next epoch, who has the first `kept` batches of this one."""
        after = Author(self.epoch + 1, self.epoch)
        for made in self.batches[:kept]:
            after.apply(made)
        after.children = self.children
        return after

    def write(self, count: int, **options: int) -> list[Batch]:
        """The next `count` batches."""
        return [self.batch(self.rng.randint(1, 3), **options) for _ in range(count)]


def fresh_log(disk: FaultyDisk, **options: int) -> TransactionLog:
    """An empty log of the lineage."""
    return TransactionLog(disk, LogContents(LINEAGE, [], START, 0), **options)


def reopened(disk: FaultyDisk, **options: int) -> tuple[Recovered, TransactionLog]:
    """Recovery, and the log after it."""
    recovered = recover(disk)
    return recovered, TransactionLog(disk, recovered.log, **options)


def synchronized(disk: FaultyDisk) -> None:
    """Give the disk the records of a member that counts."""
    save_epochs(disk, 1, 1)
    save_member(disk, MemberRecord(LINEAGE, 1))


def snapshot(disk: FaultyDisk, tree: DataTree, chain: bytes) -> str:
    """Write a snapshot of the tree as it is."""
    writer = SnapshotWriter(disk, tree.begin_snapshot(), LINEAGE, chain)
    writer.write()
    return writer.path


def held(log: TransactionLog) -> list[bytes]:
    """The raw bytes of every batch in the files."""
    return [batch.raw for batch in log.read(log.first_position[0], 1 << 40)]


def raws(batches: list[Batch]) -> list[bytes]:
    """The raw bytes of these."""
    return [batch.raw for batch in batches]
