"""Which sessions are open at one moment: what a snapshot says, and those that were created and closed after it.

    changes = SessionChanges(is_exact=…)
    changes.add(transactions)       in the order of the history
    changes.last                    by id, the timeout in ms of what is open; None of what was closed
    changes.unlisted                by id, the zxid of a closeSession that does not say what it deleted
    sessions_open(last)             those of them that are open
    session_batches(sessions, …)    rows of SESSIONS

Memory: the sessions that were created and not closed, or closed and not created, in what was added. A snapshot of
ZooKeeper copies the sessions at another moment than its zxid, so one that was created and closed may be in it: there
they count, too (`is_exact`).
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
    """See the module."""

    is_exact: bool
    last: dict[int, int | None] = field(factory=dict)
    unlisted: dict[int, int] = field(factory=dict)

    def add(self, rows: Transactions) -> None:
        """What these transactions did; they come after all that were added before."""
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
