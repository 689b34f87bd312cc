"""A state at one moment, put together in this process, without Spark: what `zab restore` writes.

    local_moment(dirs, at) -> Moment            which snapshot, which transactions (`zab.pipeline.state.moment`)
    local_state(moment) -> ZooKeeperState       the state there

The snapshot is loaded, and what the transactions after it come to (`zab.pipeline.state.condense`) is applied one after
the other, by the tolerant rules of `datatree.zookeeper.state`, which over an exact snapshot of ours do what a member
does. Memory holds the tree, as in a member that serves it; logs are read a piece at a time. `frames` does the same on a
cluster.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from datatree.opcodes import Effect, OpCode, types_with
from datatree.paths import ROOT, parent
from datatree.record import Txn
from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState
from zab.pipeline.decoding.acl_text import parse_acl_text
from zab.pipeline.decoding.snapshot_rows import SnapshotDamageError
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, MemberFiles, inventory
from zab.pipeline.reading.planning import Range, Task, plan, task_batches
from zab.pipeline.reading.snapshot_choice import Chosen, opened
from zab.pipeline.schema import SESSIONS, arrow_schema
from zab.pipeline.state.condense import COLUMNS, condensed
from zab.pipeline.state.epochs import Epoch, epochs_in, joined
from zab.pipeline.state.moment import Moment, ensembles_of, moment_of
from zab.pipeline.state.znode_rows import ZNODE_SCHEMA, as_znodes

__all__ = ["LocalLogs", "local_moment", "local_state"]

_COLUMNS: Final = (
    "zxid", "time", "session", "type", "path", "data", "version", "acl", "owner", "timeout", "paths",
)  # fmt: skip
_US_PER_MS: Final = 1000
_CREATES: Final = types_with(Effect.CREATE)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
_PLAIN: Final = types_with(Effect.DELETE, Effect.SET_DATA)


@frozen
class LocalLogs:
    """The logs of one ensemble, each transaction once, read in this process (`zab.pipeline.state.moment.Logs`)."""

    members: tuple[MemberFiles, ...]
    uncommitted: bool = False

    def batches(self, columns: Sequence[str], wanted: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range in the order of the history. Raises PipelineError."""
        for task in self.tasks(wanted):
            yield from task_batches(task, columns)

    def tasks(self, wanted: Range) -> list[Task]:
        """What reads each transaction of a range once. Raises PipelineError."""
        found = Inventory(list(self.members), [str(member.directory) for member in self.members])
        return plan(found, wanted, members="one", uncommitted=self.uncommitted)

    def last_at(self, time_ms: int) -> int | None:
        last: int | None = None
        for batch in self.batches(("zxid",), Range(time_max=time_ms)):
            if batch.num_rows:
                last = max(last or 0, pc.max(batch.column(0)).as_py())
        return last

    def epochs(self, after: int, until: int) -> list[Epoch]:
        return joined(epochs_in(self.tasks(Range.of(after + 1, until, None, None)))) if until > after else []


def local_moment(dirs: Dirs, at: int | datetime | None = None, *, uncommitted: bool = False) -> Moment:
    """The moment `at` of the one ensemble in these directories. Raises PipelineError."""
    groups = ensembles_of(inventory(dirs))
    if len(groups) != 1:
        names = ", ".join(group[0].ensemble for group in groups)
        raise PipelineError(f"the directories hold {len(groups)} ensembles ({names}); name those of one")
    return moment_of(LocalLogs(groups[0], uncommitted), groups[0], at, uncommitted=uncommitted)


def local_state(moment: Moment, *, uncommitted: bool = False) -> ZooKeeperState:
    """The state at this moment. Raises PipelineError."""
    state = ZooKeeperState.empty() if moment.base is None else _loaded(moment.base)
    if moment.zxid > moment.base_zxid and moment.txn_count:
        logs = LocalLogs(moment.members, uncommitted)
        batches = logs.batches(COLUMNS, Range.of(moment.base_zxid + 1, moment.zxid, None, None))
        for batch in condensed(batches, exact=moment.is_exact):
            for txn in _txns(batch):
                if txn.zxid < state.zxid:
                    raise PipelineError(f"the logs are out of order: {txn.zxid:#x} comes after {state.zxid:#x}")
                state.apply(txn)
    missing = sorted(path for path in state.children if path not in state.znodes)
    if missing:
        raise PipelineError(f"the state is no tree: {missing[0].decode()!r} has children, but does not exist")
    state.zxid = moment.zxid
    return state


def _loaded(base: Chosen) -> ZooKeeperState:
    try:
        rows = opened(base.file)
        sessions: dict[int, int] = {}
        for batch in rows.sessions(arrow_schema(SESSIONS), base.label):
            sessions |= zip(batch.column("session").to_pylist(), batch.column("timeout").to_pylist(), strict=True)
        znodes = (znode for batch in rows.znodes(ZNODE_SCHEMA, base.label) for znode in as_znodes(batch))
        return ZooKeeperState.build(_with_parents(znodes), sessions, base.file.zxid)
    except SnapshotDamageError as error:
        raise PipelineError(f"{error}; it was whole when it was chosen") from None


def _with_parents(znodes: Iterable[SnapshotZnode]) -> Iterator[SnapshotZnode]:
    """The same znodes. Raises PipelineError for one whose parent does not come before it."""
    seen: set[bytes] = set()
    for znode in znodes:
        if znode.path != ROOT and parent(znode.path) not in seen:
            raise PipelineError(f"the snapshot is no tree: {znode.path.decode()!r} has no parent before it")
        seen.add(znode.path)
        yield znode


def _txns(batch: pa.RecordBatch) -> Iterator[Txn]:
    """The rows that change a state, each as a transaction of its own; parts of a multi share their zxid."""
    columns: list[Any] = [batch.column(name) for name in _COLUMNS]
    columns[1] = pa.array(batch.column("time").cast(pa.int64()).to_numpy(zero_copy_only=False) // _US_PER_MS)
    for zxid, time, session, kind, path, data, version, acl, owner, timeout, paths in zip(
        *(column.to_pylist() for column in columns), strict=True
    ):
        number, target = version or 0, (path or "").encode()
        rest: Any = None
        if kind in _CREATES:
            rest = (parse_acl_text(acl), owner or 0)
        elif kind in _SET_ACLS:
            rest = (parse_acl_text(acl),)
        elif kind == OpCode.CREATE_SESSION:
            number = timeout
        elif kind == OpCode.CLOSE_SESSION:
            rest = tuple(each.encode() for each in paths or ())
        elif kind not in _PLAIN:
            continue
        yield Txn(zxid, time, session, 0, kind, number, target, data, rest)
