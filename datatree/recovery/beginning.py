"""A state that a new history begins with: what forced recovery makes of the one copy that is left.

    begin_history(disk, tree, zxid, lineage, server_id)

writes version-1/snapshot.<zxid>, then acceptedEpoch and currentEpoch, sessionKeys without a key, and the member's
record, each durably. The chain begins with the lineage, the zxid and the tree's digest, so the snapshot says of itself
that it is a beginning (`datatree.recovery.recover.Recovered.beginning`). Who belongs to the ensemble is what the files
of its servers say, not what reconfigurations said in the old one.

Invariants: the epoch of `zxid` is over, so that the first leader begins the one after; the record comes last, so that a
directory without it does not count.

Deliberately not here: which state, and where the directory is (`zab.cli.files.recover`); states out of rows, as restore
and the pipeline have them (`zab.pipeline.state.snapshot_output`).
"""

from datatree.log.batch import imported
from datatree.log.disk import Disk
from datatree.log.epochs import MemberRecord, save_epochs, save_member
from datatree.log.session_keys import save_session_keys
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
    assert not disk.list("version-1")
    if tree.configuration:
        tree.apply(Txn(zxid, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, b"", None))
    tree.applied = zxid
    writer = SnapshotWriter(disk, tree.begin_snapshot(), lineage, imported(lineage, Zxid(zxid), tree.digest))
    writer.write()
    epoch = zxid >> 32
    save_epochs(disk, epoch, epoch)
    save_session_keys(disk, lineage, [])
    save_member(disk, MemberRecord(lineage, server_id, founder=True))
    return writer.path
