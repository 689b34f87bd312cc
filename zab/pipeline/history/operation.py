"""One operation of a client in a recorded history: the request, the reply, and when.

It is one row of a history (`zab.pipeline.history.files` has the columns). A recorder that has to run without the extra
keeps its own records and converts them when they are written, as the simulator does
(`zab.simulator.ensemble.judges.recorder`).

Deliberately not here: how operations are stored, and what makes a history right (`zab.pipeline.history.znode`).
"""

from typing import Final

from attrs import define

__all__ = ["CREATE", "DELETE", "EXISTS", "FAILED", "GET", "OK", "SET", "SYNC", "UNKNOWN", "WRITES", "Operation"]

CREATE: Final = "create"
SET: Final = "set"
DELETE: Final = "delete"
GET: Final = "get"
EXISTS: Final = "exists"
SYNC: Final = "sync"
WRITES: Final = frozenset({CREATE, SET, DELETE})

OK: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"

_VALUE_SHOWN: Final = 24


@define(eq=False)
class Operation:
    """The fields are the columns of a history; times are in ns of one clock for all clients.

    `since` is not a column. The checker fills it in for operations that have to show all that was known at that time:
    for a write its own beginning, for a read the beginning of the last `sync` of its session before it.
    """

    session: int
    operation: int
    kind: str
    path: str
    status: str
    value: bytes | None = None
    expected: int | None = None
    version: int | None = None
    zxid: int | None = None
    mzxid: int | None = None
    error: int | None = None
    invoked: int | None = None
    returned: int | None = None
    client: str | None = None
    part: int | None = None
    history: str | None = None
    since: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is a write that was done, or may have been."""
        return self.kind in WRITES and self.status != FAILED

    @property
    def demand(self) -> int | None:
        """The version that it demands."""
        return self.expected if self.expected is not None and self.expected >= 0 else None

    @property
    def sent(self) -> tuple[int, int]:
        """Its place in its session."""
        return self.operation, -1 if self.part is None else self.part

    @property
    def order(self) -> tuple[int, int]:
        """Its place among all writes, for one whose zxid is known."""
        assert self.zxid is not None
        return self.zxid, -1 if self.part is None else self.part

    def __str__(self) -> str:
        """One line: who asked what, what came back, when (ms)."""
        words = [f"{self.client or 'the ensemble'} session {self.session:#x} #{self.operation}"]
        if self.part is not None:
            words[0] += f".{self.part}"
        words.append(f"{self.kind} {self.path}")
        if self.kind in (CREATE, SET) or (self.kind == GET and self.status == OK):
            words.append(f"= {_shown(self.value)}")
        if self.expected is not None and self.expected >= 0:
            words.append(f"if version {self.expected}")
        words.append(f"-> {self.status}" if self.error is None or self.status == OK else f"-> error {self.error}")
        if self.version is not None:
            words.append(f"version {self.version}")
        if self.mzxid is not None:
            words.append(f"mzxid {self.mzxid:#x}")
        if self.zxid is not None:
            words.append(f"zxid {self.zxid:#x}")
        words.append(f"[{_milliseconds(self.invoked)}, {_milliseconds(self.returned)}]")
        return " ".join(words)


def _shown(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value[:_VALUE_SHOWN].decode("utf-8", "backslashreplace")
    return repr(text) if len(value) <= _VALUE_SHOWN else f"{text!r}... ({len(value)} bytes)"


def _milliseconds(time_ns: int | None) -> str:
    return "?" if time_ns is None else f"{time_ns / 1e6:.3f}"
