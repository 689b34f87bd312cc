"""Files that are kept but do not count any more: their history was given up.

    ….stale          belonged to a history that was given up: an installed snapshot took its place, or another lineage
    ….conflict[.N]   has other bytes than the leader had at the same zxid, which only a broken promise can explain
    version-1.damaged/…[.N]
                     could not be read, or stood beside what could not, when others filled this member again

Nothing reads them again; `datatree.recovery.retention` removes the stale ones in time, the others stay for somebody to
look at. So no such file takes the place of an earlier one: it gets a number.

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
    """What a file is called when it is set aside."""
    wanted = f"{DAMAGED_DIRECTORY}/{path.rpartition('/')[2]}" if suffix == DAMAGED else path + suffix
    name, number = wanted, 1
    while suffix != STALE and disk.exists(name):
        number += 1
        name = f"{wanted}.{number}"
    return name


def set_aside_logs(disk: Disk, suffix: str = STALE) -> None:
    """Set all log files aside. The newest goes first and each is durable before the next, so a power cut leaves a
    shorter history, never a gap."""
    for first in reversed(log_files(disk)):
        set_aside(disk, log_path(first), suffix)
