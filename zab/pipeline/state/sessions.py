"""Finds which sessions are open at one moment: those of a snapshot, and those created and closed after it.

    changes = SessionChanges(is_exact=…)
    changes.add(transactions)       in the order of the history
    changes.last                    by id, the timeout in ms of an open session; None for a closed one
    changes.unlisted                by id, the zxid of a closeSession that does not say what it deleted
    sessions_open(last)             the open ones
    session_batches(sessions, …)    rows of SESSIONS

Memory: the sessions that were created and not closed, or closed and not created, in what was added. ZooKeeper copies
the sessions into a snapshot at a moment other than its zxid, so one that was created and closed may be in it: over such
a snapshot these are remembered, too (`is_exact`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from attrs import define, field

from datatree.opcodes import OpCode
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.schema import SESSIONS, arrow_schema

__all__ = ["SessionChanges", "session_batches", "sessions_open"]

_SCHEMA: Final = arrow_schema(SESSIONS)
_LABEL: Final = ("ensemble", "member", "snapshot", "zxid")


@define
class SessionChanges:
    """The sessions that transactions created and closed. is_exact: the state before them is exact."""

    is_exact: bool
    last: dict[int, int | None] = field(factory=dict)
    unlisted: dict[int, int] = field(factory=dict)

    def add(self, rows: Transactions) -> None:
        """Add these transactions, which come after all that were added before."""
        opened = rows.type == OpCode.CREATE_SESSION
        which = np.flatnonzero(opened | (rows.type == OpCode.CLOSE_SESSION))
        columns = (rows.session[which].tolist(), opened[which].tolist(), rows.number[which].tolist())
        for session, is_open, timeout in zip(*columns, strict=True):
            if is_open:
                self.last[session] = timeout
            elif self.is_exact and self.last.get(session) is not None:
                del self.last[session]
            else:
                self.last[session] = None
        for row, paths in rows.closed.items():
            if paths is None:
                self.unlisted[int(rows.session[row])] = int(rows.zxid[row])


def sessions_open(last: Mapping[int, int | None]) -> dict[int, int]:
    """Timeouts in ms by id."""
    return {session: timeout for session, timeout in last.items() if timeout is not None}


def session_batches(sessions: Mapping[int, int], label: Label) -> Iterator[pa.RecordBatch]:
    """Rows of SESSIONS."""
    count = len(sessions)
    columns = [pa.repeat(pa.scalar(getattr(label, name), _SCHEMA.field(name).type), count) for name in _LABEL]
    columns += [pa.array(sessions.keys(), pa.int64()), pa.array(sessions.values(), pa.int32())]
    yield pa.record_batch(columns, schema=_SCHEMA)
