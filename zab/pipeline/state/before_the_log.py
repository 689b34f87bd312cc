"""Reads from snapshots what there was before the logs begin, for jobs that need to know it.

    znodes = read_before(spark, dirs)                       rows of ZNODES, or None
    sessions = read_before(spark, dirs, sessions=True)      rows of SESSIONS, or None

One snapshot is read for each ensemble whose logs do not go back to its beginning: the newest whole one that is not
later than the first transaction in the logs, else the oldest whole one. Its later content is also in the logs.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zab.pipeline.inventory import Dirs, inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.missing import beginning_zxid
from zab.pipeline.reading.snapshot_choice import Chosen, choose
from zab.pipeline.reading.snapshot_source import SnapshotTask, read_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["may_have_bare_closes", "read_before"]


def read_before(
    spark: "SparkSession", dirs: Dirs, *, columns: Iterable[str] | None = None, sessions: bool = False
) -> "DataFrame | None":
    """The rows of these snapshots; None if there are none, or none are needed. Raises PipelineError."""
    chosen = [_before(group) for group in inventory(dirs).ensembles.values()]
    tasks = [SnapshotTask(one.file, one.label) for one in chosen if one is not None]
    return read_tasks(spark, tasks, columns=columns, sessions=sessions) if tasks else None


def _before(members: Sequence[MemberFiles]) -> Chosen | None:
    firsts = [log.first for member in members for log in member.logs if log.is_usable]
    if firsts and min(firsts) == beginning_zxid(members):
        return None
    kept = sorted({file.zxid for member in members for file in member.snapshots})
    early = [zxid for zxid in kept if firsts and zxid <= min(firsts)]
    for at in [*early[-1:], *(zxid for zxid in kept if zxid not in early)]:
        chosen = choose(members, at).chosen
        if chosen is not None:
            return chosen
    return None


def may_have_bare_closes(dirs: Dirs) -> bool:
    """Whether the logs may have closeSessions without a list of ephemerals: only ZooKeeper's may. Raises
    PipelineError."""
    return any(member.kind == "version-2" for member in inventory(dirs).members)
