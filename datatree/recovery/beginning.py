"""The state with which a new history begins: what a forced recovery makes of the one copy that is left, and what a
running member is restored to (`datatree.recovery.restoring`).

    begin_history(disk, tree, zxid, lineage, server_id)    in an empty directory, by one member for all
    write_beginning(disk, tree, lineage, directory)        the snapshot alone, without the member's records

The chain begins with the lineage, the zxid and the tree's digest, so a reader of the snapshot can tell that it is a
beginning (`datatree.recovery.recovered.Recovered.beginning`). The ensemble's members are those in the configuration
files, not those of reconfigurations in the old history.

Invariants: the epoch of `zxid` is over, so that the first leader begins a later one; the member record is written last,
so that a directory without it does not count.

Not here: which state, and where the directory is (`zab.cli.files.recover`); states from rows, as in restore and the
pipeline (`zab.pipeline.state.snapshot_output`).
"""

from datatree.log.batch import imported
from datatree.log.disk import Disk
from datatree.log.epochs import DIRECTORY, MemberRecord, save_mark
from datatree.log.founding import found
from datatree.log.zxid import Zxid
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree


def begin_history(disk: Disk, tree: DataTree, zxid: int, lineage: bytes, server_id: int) -> str:
    """Turn an empty directory into that of a member that has all of a new history: this tree, at `zxid`. Returns its
    path.

    If it raises OSError, the directory must not be used.
    """
    assert zxid > tree.applied, "no zxid comes a second time"
    assert not disk.list(DIRECTORY)
    tree.applied = zxid
    writer = write_beginning(disk, tree, lineage)
    epoch = zxid >> 32
    save_mark(disk, lineage, zxid, durable=True)
    found(disk, MemberRecord(lineage, server_id, founder=True), epoch, epoch)
    return writer.path


def write_beginning(disk: Disk, tree: DataTree, lineage: bytes, directory: str = DIRECTORY) -> SnapshotWriter:
    """Write the tree as it is, without a configuration, durably. Returns the writer, which knows path and header.

    If it raises OSError, there is no snapshot.
    """
    zxid = tree.applied
    if tree.configuration:
        tree.applied -= 1  # the configuration's removal is part of the state at its zxid
        tree.apply(Txn(zxid, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, b"", None))
    chain = imported(lineage, Zxid(zxid), tree.digest)
    writer = SnapshotWriter(disk, tree.begin_snapshot(), lineage, chain, directory)
    try:
        writer.write()
    except OSError:
        writer.abandon()
        raise
    return writer
