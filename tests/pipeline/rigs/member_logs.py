"""The logs of members that are compared with each other, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from datatree.log.batch import Batch, build
from datatree.log.epochs import MemberRecord, save_epochs, save_member
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.record import Txn, encode
from tests.datatree.histories import LINEAGE, START
from tests.pipeline.rigs.native_files import NativeLog
from zab.host.storage.disk import RealDisk
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.verify import find
from zab.pipeline.reading.planning import Range, plan, task_batches
from zab.pipeline.verify.findings import DEVIATIONS, STATED, Finding

SEGMENT_BYTES = 4096


def history(*epochs: int, seed: int = 1, committed: int | None = None) -> list[Batch]:
    """So many batches of each epoch, of one to three transactions; `committed`: how many of them some mark covers."""
    rng = Random(seed)
    batches: list[Batch] = []
    zxid, chain, mark = START[0], START[1], 0
    for epoch, count in enumerate(epochs, 1):
        zxid = epoch << 32
        for _ in range(count):
            number = rng.randint(1, 3)
            txns = [
                Txn(zxid + each, 1000 + each, 5, each, 5, each, b"/x%d" % each, rng.randbytes(30), None)
                for each in range(1, number + 1)
            ]
            body = b"".join(map(encode, txns))
            places = {"epoch": epoch, "first": zxid + 1, "count": number, "mark": mark, "applied": mark}
            batches.append(build(chain, time=1000 + zxid, flags=0, digest=7, body=body, **places))
            zxid, chain = batches[-1].zxid, batches[-1].chain
            if committed is None or len(batches) <= committed:
                mark = zxid
    return batches


def member(directory: Path, number: int, batches: list[Batch], *, mark: int | None = None) -> Path:
    """The data directory of a member that logged these, in files of SEGMENT_BYTES, and stopped."""
    directory.mkdir(parents=True)
    disk = RealDisk(str(directory))
    save_epochs(disk, 9, 9)
    save_member(disk, MemberRecord(LINEAGE, number))
    start = START if batches[0].first == (1 << 32 | 1) else (batches[0].first - 1, b"\0" * 16)
    log = TransactionLog(disk, LogContents(LINEAGE, [], start, 0), segment_bytes=SEGMENT_BYTES)
    for at in range(0, len(batches), 3):
        log.append(batches[at : at + 3])
    log.set_mark(batches[-1].zxid if mark is None else mark)
    log.close()
    disk.close()
    return directory


def ensemble(tmp_path: Path, *histories: list[Batch], marks: dict[int, int] | None = None) -> list[Path]:
    return [
        member(tmp_path / f"server{number}", number, batches, mark=(marks or {}).get(number))
        for number, batches in enumerate(histories, 1)
    ]


def found(directories: list[Path] | tuple[Path, ...], **options: bool) -> list[Finding]:
    findings = find(inventory([str(path) for path in directories]), **options)
    assert [one.kind for one in findings if one.kind not in (DEVIATIONS if one.deviation else STATED)] == []
    return findings


def logs(directory: Path) -> list[NativeLog]:
    names = (directory / "version-1").glob("log.*[0-9a-f]")
    paths = sorted(names, key=lambda path: int(path.name.partition(".")[2], 16))
    return [NativeLog.read(path) for path in paths]


def zxids(directories: Sequence[Path]) -> list[int]:
    tasks = plan(inventory(directories), Range(), members="one")
    return [zxid for task in tasks for batch in task_batches(task, ("zxid",)) for zxid in batch.column(0).to_pylist()]
