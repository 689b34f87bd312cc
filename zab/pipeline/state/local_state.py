"""Builds a state at one moment in this process, without Spark, for `zab restore`.

    local_moment(dirs, at) -> Moment        which snapshot, which transactions (`zab.pipeline.state.moment`)
    local_state(moment) -> LocalState       the state there, in columns (`zab.pipeline.state.replay`)

Memory holds the tree, as in a member that serves it, and the condensed logs (`zab.pipeline.state.condense`), which are
read a piece at a time. `state_of` builds the state on a cluster.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from zab.pipeline.decoding.snapshot_rows import SnapshotDamageError
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.planning import ZXID_MAX, Range, Task, plan, read_task, task_batches
from zab.pipeline.reading.snapshot_choice import Chosen, opened
from zab.pipeline.schema import SESSIONS, arrow_schema
from zab.pipeline.state.condense import condensed
from zab.pipeline.state.epochs import Epoch, epochs_of, joined
from zab.pipeline.state.moment import Moment, Stretch, ensembles_of, moment_of
from zab.pipeline.state.replay import BASE, first_znodes, replayed
from zab.pipeline.state.sessions import SessionChanges, sessions_open

__all__ = ["LocalLogs", "LocalState", "LocalStretch", "local_moment", "local_state", "read_base", "read_in_order"]


@frozen
class LocalStretch(Stretch):
    """A condensed stretch of the logs. changes: tables of CHANGES, in the order of the history."""

    changes: Sequence[pa.Table] = ()
    sessions: SessionChanges = field(factory=lambda: SessionChanges(is_exact=True))


@frozen
class LocalState:
    """A state in memory. batches: rows of ZNODES, by rising path. sessions: timeouts in ms by id."""

    zxid: int
    sessions: dict[int, int]
    batches: Sequence[pa.RecordBatch]


@frozen
class LocalLogs:
    """The logs of one ensemble, each transaction once, read in this process (`zab.pipeline.state.moment.Logs`)."""

    members: tuple[MemberFiles, ...]
    uncommitted: bool = False

    def batches(self, columns: Sequence[str], wanted: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in the order of the history. Raises PipelineError."""
        for task in self.tasks(wanted):
            yield from task_batches(task, columns)

    def tasks(self, wanted: Range) -> list[Task]:
        """The tasks that read each transaction of a range once. Raises PipelineError."""
        found = Inventory(list(self.members), [str(member.directory) for member in self.members])
        return plan(found, wanted, members="one", uncommitted=self.uncommitted)

    def last_at(self, time_ms: int) -> int | None:
        last: int | None = None
        for batch in self.batches(("zxid",), Range(zxid_max=ZXID_MAX, time_max=time_ms)):
            if batch.num_rows:
                last = max(last or 0, pc.max(batch.column(0)).as_py())
        return last

    def time_of(self, zxid: int) -> datetime | None:
        times = (batch.column(0).to_pylist() for batch in self.batches(("time",), Range.of(zxid, zxid, None, None)))
        return next((time for found in times for time in found), None)

    def stretch(self, after: int, until: int, *, is_exact: bool) -> Stretch:
        epochs: list[Epoch] = []
        sessions = SessionChanges(is_exact)
        transactions = read_in_order(self.tasks(Range.of(after + 1, until, None, None)), epochs, sessions)
        is_native = self.members[0].kind == "native"
        return LocalStretch(epochs, list(condensed(transactions, is_exact=is_exact, is_native=is_native)), sessions)


def read_in_order(tasks: Iterable[Task], epochs: list[Epoch], sessions: SessionChanges) -> Iterator[Transactions]:
    """Yield the transactions of consecutive tasks, and add their epochs and session changes to the two arguments.
    Raises PipelineError if zxids do not rise."""
    last = -1
    for task in tasks:
        for _, rows in read_task(task):
            if isinstance(rows, Transactions) and len(rows):
                first = int(rows.zxid[0])
                if first <= last:
                    raise PipelineError(f"the logs are out of order: {first:#x} comes after {last:#x}")
                last = int(rows.zxid[-1])
                epochs[:] = joined([*epochs, *epochs_of(rows)])
                sessions.add(rows)
                yield rows


def local_moment(dirs: Dirs, at: int | datetime | None = None, *, uncommitted: bool = False) -> Moment:
    """The moment `at` of the one ensemble in these directories. Raises PipelineError."""
    groups = ensembles_of(inventory(dirs))
    if len(groups) != 1:
        names = ", ".join(group[0].ensemble for group in groups)
        raise PipelineError(f"the directories hold {len(groups)} ensembles ({names}); name those of one")
    return moment_of(LocalLogs(groups[0], uncommitted), groups[0], at, uncommitted=uncommitted)


def local_state(moment: Moment) -> LocalState:
    """The state at a moment that was made with LocalLogs. Raises PipelineError."""
    is_native = moment.kind == "native"
    base, sessions = read_base(moment.base, is_native=is_native)
    read = moment.stretch if isinstance(moment.stretch, LocalStretch) else LocalStretch()
    closed = read.sessions.unlisted
    batches = list(replayed(base, read.changes, moment.label, is_native=is_native, closed=closed))
    return LocalState(moment.zxid, sessions_open({**sessions, **read.sessions.last}), batches)


def read_base(base: Chosen | None, *, is_native: bool) -> tuple[pa.Table, dict[int, int]]:
    """The rows of BASE in a snapshot, and its sessions; without a snapshot, those of a new ensemble. Raises
    PipelineError."""
    if base is None:
        return first_znodes(is_native=is_native), {}
    try:
        rows = opened(base.file)
        sessions: dict[int, int] = {}
        for batch in rows.sessions(arrow_schema(SESSIONS), base.label):
            sessions |= zip(batch.column("session").to_pylist(), batch.column("timeout").to_pylist(), strict=True)
        return pa.Table.from_batches(rows.znodes(BASE, base.label), BASE), sessions
    except SnapshotDamageError as error:
        raise PipelineError(f"{error}; it was whole when it was chosen") from None
