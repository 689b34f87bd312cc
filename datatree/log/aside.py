"""Files that are kept but no longer count, because their history was given up.

    ….stale          belonged to a history that an installed snapshot, or another lineage, has replaced
    ….conflict[.N]   differs from the leader's bytes at the same zxid, which only a broken promise can explain
    version-1.damaged/…[.N]
                     was unreadable, or beside an unreadable file, when others filled this member again

Nothing reads them again; `datatree.recovery.retention` removes stale ones in time, the others stay for an operator to
look at. So no such file replaces an earlier one: it gets a number.

Not here: snapshots that no longer fit the log (`datatree.recovery.stale`).
"""

from datatree.log.disk import Disk
from datatree.log.epochs import DIRECTORY
from datatree.log.segment import index_path, log_files, log_path

STALE = ".stale"
CONFLICT = ".conflict"
DAMAGED = ".damaged"
DAMAGED_DIRECTORY = f"{DIRECTORY}{DAMAGED}"


def set_aside(disk: Disk, path: str, suffix: str = STALE) -> None:
    """Take a file out of the history, durably."""
    disk.rename(path, aside_path(disk, path, suffix))
    if disk.exists(index_path(path)):
        disk.remove(index_path(path))
    if suffix == DAMAGED:
        disk.sync_directory(DAMAGED_DIRECTORY)
    disk.sync_directory(DIRECTORY)


def aside_path(disk: Disk, path: str, suffix: str) -> str:
    """The name of a file that is set aside."""
    wanted = f"{DAMAGED_DIRECTORY}/{path.rpartition('/')[2]}" if suffix == DAMAGED else path + suffix
    name, number = wanted, 1
    while suffix != STALE and disk.exists(name):
        number += 1
        name = f"{wanted}.{number}"
    return name


def set_aside_logs(disk: Disk, suffix: str = STALE) -> None:
    """Set all log files aside. The newest goes first, and each is durable before the next, so a power cut leaves a
    shorter history, never a gap."""
    for first in reversed(log_files(disk)):
        set_aside(disk, log_path(first), suffix)
