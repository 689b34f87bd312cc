"""A state that a new history begins with: what forced recovery makes of the one copy that is left, and what a running
member is given (`datatree.recovery.restoring`).

    begin_history(disk, tree, zxid, lineage, server_id)    in an empty directory, by one member for all
    write_beginning(disk, tree, lineage, directory)        the snapshot alone, without the member's records

The chain begins with the lineage, the zxid and the tree's digest, so a reader of the snapshot can tell that it is a
beginning (`datatree.recovery.recovered.Recovered.beginning`). Who belongs to the ensemble is what the files of its
servers say, not what reconfigurations said in the old one.

Invariants: the epoch of `zxid` is over, so that the first leader begins a later one; the record comes last, so that a
directory without it does not count.

Deliberately not here: which state, and where the directory is (`zab.cli.files.recover`); states out of rows, as restore
and the pipeline have them (`zab.pipeline.state.snapshot_output`).
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
    """Make an empty directory that of a member which holds all of a new history: this tree, at `zxid`. Its path.

    Raises OSError: then the directory must not be used."""
    assert zxid > tree.applied, "no zxid comes a second time"
    assert not disk.list(DIRECTORY)
    tree.applied = zxid
    writer = write_beginning(disk, tree, lineage)
    epoch = zxid >> 32
    save_mark(disk, lineage, zxid, durable=True)
    found(disk, MemberRecord(lineage, server_id, founder=True), epoch, epoch)
    return writer.path


def write_beginning(disk: Disk, tree: DataTree, lineage: bytes, directory: str = DIRECTORY) -> SnapshotWriter:
    """Write the tree as it stands, without a configuration, durably. What has written it says where and what it is.

    Raises OSError: then it is not there."""
    zxid = tree.applied
    if tree.configuration:
        tree.applied -= 1  # what is taken out is part of the state at its zxid
        tree.apply(Txn(zxid, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, b"", None))
    chain = imported(lineage, Zxid(zxid), tree.digest)
    writer = SnapshotWriter(disk, tree.begin_snapshot(), lineage, chain, directory)
    try:
        writer.write()
    except OSError:
        writer.abandon()
        raise
    return writer
