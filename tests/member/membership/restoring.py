"""Members that are given a snapshot."""

from __future__ import annotations

from datatree.recovery.restoring import stage, take_staged
from datatree.snapshot import SnapshotWriter, snapshot_path
from tests.rigs.direct.members import Ensemble, Server
from zab.quorum.ids import ServerId
from zab.simulator.world.disk import FaultyDisk


def state_of(server: Server) -> tuple[bytes, int]:
    """The file of its state as it is, and the zxid."""
    disk, tree = FaultyDisk(), server.member.tree
    writer = SnapshotWriter(disk, tree.begin_snapshot(), server.member.peer.lineage, bytes(16))
    writer.write()
    return disk.read(writer.path), tree.applied


def restore(ensemble: Ensemble, sid: int, state: tuple[bytes, int]) -> None:
    """As a server does it: the member ends, and starts again."""
    data, zxid = state
    server = ensemble.servers[ServerId(sid)]
    path = f"{snapshot_path(zxid)}.restore.tmp"
    server.disk.replace(path, data)
    stage(server.disk, path, server.member.peer.lineage)
    assert take_staged(server.disk, sid) is not None
    ensemble.restart(sid)
    ensemble.settle()


def serving(ensemble: Ensemble) -> set[int]:
    return {int(sid) for sid, server in ensemble.servers.items() if server.member.serving}
