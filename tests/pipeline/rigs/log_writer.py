"""Logs that grow while they are followed, and the rows of them that following finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from datatree.log.batch import Batch, build, genesis
from datatree.log.epochs import MemberRecord, save_member
from datatree.log.frame import pack_frame, seed_of
from datatree.log.segment import log_files, log_path
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.opcodes import OpCode
from datatree.record import Txn, encode
from zab.host.storage.disk import RealDisk
from zab.pipeline.streaming.following import Ensemble, Following, Route
from zab.pipeline.streaming.stream import read_leg

LINEAGE = bytes(range(16))

COLUMNS = ("zxid", "part", "operation", "path", "data", "session", "time")

Rows = list[dict[str, object]]


def rows_of(following: Following, route: Route) -> Rows:
    dirs = [str(one) for one in following.dirs]
    rows = [row for leg in route.legs for batch in read_leg(leg, dirs, COLUMNS) for row in batch.to_pylist()]
    for row in rows:
        if row["operation"] == "error":
            # What a refused multi asked for is not logged alike by all of ZooKeeper's members.
            del row["path"]
    return rows


def zxids_of(following: Following, route: Route) -> list[int]:
    return list(dict.fromkeys(row["zxid"] for row in rows_of(following, route)))  # type: ignore[misc]


def poll(dirs: Iterable[Path]) -> tuple[Following, Ensemble]:
    following = Following([str(path) for path in dirs])
    following.poll()
    (ensemble,) = following.ensembles.values()
    return following, ensemble


class History:
    """Batches of one lineage. `mark` of a batch is that of the one before it, unless told otherwise."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.chain, self.zxid = genesis(LINEAGE), 0

    def add(self, count: int = 1, *, epoch: int | None = None, mark: int | None = None) -> Batch:
        epoch = epoch or self.zxid >> 32 or 1
        first = self.zxid + 1 if epoch == self.zxid >> 32 else (epoch << 32) + 1
        body = b"".join(
            encode(Txn(zxid, 1_700_000_000_000 + zxid % 1000, 7, 1, OpCode.SET_DATA, 1, b"/a", b"%d" % zxid, None))
            for zxid in range(first, first + count)
        )
        batch = build(
            self.chain,
            epoch=epoch,
            first=first,
            count=count,
            time=1_700_000_000_000,
            flags=0,
            mark=self.zxid if mark is None else mark,
            applied=0,
            digest=0,
            body=body,
        )
        self.batches.append(batch)
        self.chain, self.zxid = batch.chain, batch.zxid
        return batch

    def fork(self) -> History:
        """Another history that has begun as this one."""
        other = History()
        other.batches, other.chain, other.zxid = list(self.batches), self.chain, self.zxid
        return other

    def zxids(self) -> list[int]:
        return [zxid for batch in self.batches for zxid in range(batch.first, batch.zxid + 1)]


class LogWriter:
    """The log of one member, written by the code that members write it with."""

    def __init__(self, directory: Path, server_id: int = 1) -> None:
        self.directory = directory
        self.disk = RealDisk(str(directory))
        save_member(self.disk, MemberRecord(LINEAGE, server_id))
        self.log = TransactionLog(self.disk, LogContents(LINEAGE, [], (0, genesis(LINEAGE))))

    def path(self, number: int = -1) -> Path:
        return self.directory / log_path(log_files(self.disk)[number])

    def torn(self, batch: Batch, length: int) -> bytes:
        """Write only so much of the frame of a batch, as a write that goes on does; return the rest of it."""
        data = self.path().read_bytes()
        frame = pack_frame(seed_of(log_files(self.disk)[-1]), len(data), len(data), [batch.raw])
        with self.path().open("ab") as file:
            file.write(frame[:length])
        return frame[length:]
