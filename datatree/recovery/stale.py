"""Sets snapshots aside that no longer count, because their history was given up or they cannot be read."""

from datatree.log.aside import STALE, set_aside
from datatree.log.disk import Disk
from datatree.snapshot import read_snapshot_header, snapshot_files, snapshot_path


def set_aside_snapshots(disk: Disk, lineage: bytes, zxid: int, chain: bytes, suffix: str = STALE) -> None:
    """Set every snapshot aside except those of this lineage up to (zxid, chain). Called after the log was cut: the
    newest goes first and each is durable before the next, so a power cut leaves a shorter history, never a gap."""
    for snapshot in reversed(snapshot_files(disk)):
        header = read_snapshot_header(disk, snapshot_path(snapshot))
        keeps = header is not None and header.lineage == lineage and snapshot <= zxid
        if not keeps or (snapshot == zxid and header is not None and header.chain != chain):
            set_aside(disk, snapshot_path(snapshot), suffix)
