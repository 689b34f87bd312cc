"""Records the requests and answers of clients in a run, for checkers of histories (`zab.pipeline`).

A record has the fields of an operation of `zab.pipeline.history.operation`, by name; nothing else is shared, so that
recording needs only the simulator. It records writes of znodes, getData and exists, also in multis, and sync. A write
without a reply is `unknown`. Deletions by the ensemble itself (ephemerals of ended sessions, containers, znodes with a
TTL) are taken from the committed history, and have no client and no time.

Invariants: recording does not change a run. A sequential create without a reply has the path that it got, and no record
if it was never committed. Times are virtual, in ns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.znode import STAT_LAYOUT
from zab.jute.replies import ReplyHeader, decode_body

if TYPE_CHECKING:
    from zab.simulator.ensemble.judges.history import History
    from zab.simulator.ensemble.judges.requests import Asked

__all__ = ["Record", "Recorder"]

_NS_PER_US: Final = 1000
_FLAGS_OF_SEQUENTIAL: Final = frozenset({2, 3, 6})
_KINDS: Final = {
    int(OpCode.CREATE): "create",
    int(OpCode.CREATE2): "create",
    int(OpCode.CREATE_CONTAINER): "create",
    int(OpCode.CREATE_TTL): "create",
    int(OpCode.SET_DATA): "set",
    int(OpCode.DELETE): "delete",
    int(OpCode.GET_DATA): "get",
    int(OpCode.EXISTS): "exists",
    int(OpCode.SYNC): "sync",
}
_MULTIS: Final = frozenset({int(OpCode.MULTI), int(OpCode.MULTI_READ)})
# The answer to a refused multi says which part was refused, and why. Each part is checked in the state that the parts
# before it made, which nobody else sees.
_REFUSED_AS_A_WHOLE: Final = int(ErrorCode.RUNTIMEINCONSISTENCY)


@define
class Record:
    """One operation; see `zab.pipeline.history.files` for the meaning of each field."""

    client: str | None
    session: int
    operation: int
    part: int | None
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


class Recorder:
    """Gets every request and reply from the clients; call `finish` at the end of the run."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._waiting: dict[tuple[int, int], tuple[Asked, list[Record]]] = {}
        """By session and number of the request."""
        self._beginning: frozenset[str] = frozenset()
        """The paths that existed when the lineage began."""

    def begin_anew(self, history: History) -> None:
        """Start again with another lineage, which began with this history. Existing znodes are not recorded, since
        judges of histories take all znodes for absent at first."""
        self.records.clear()
        self._waiting.clear()
        self._beginning = frozenset(path.decode() for path in history.model.paths())

    def asked(self, client: str, asked: Asked) -> None:
        """Record a request that a client sends."""
        parts: list[tuple[int | None, Any]] = [(None, (asked.opcode, asked.body))]
        if asked.opcode in _MULTIS:
            parts = list(enumerate(asked.body.parts))
        made = [_record(client, asked, part, opcode, body) for part, (opcode, body) in parts if int(opcode) in _KINDS]
        self.records += made
        self._waiting[asked.session, asked.number] = asked, made

    def replied(self, asked: Asked, header: ReplyHeader, payload: bytes, now_us: int) -> None:
        """Record an answer."""
        _, records = self._waiting.pop((asked.session, asked.number), (asked, []))
        body: Any = None if header.error else decode_body(asked.opcode, payload)
        for record in records:
            record.returned = now_us * _NS_PER_US
            record.zxid = header.zxid
            if asked.opcode not in _MULTIS:
                _answer(record, asked.opcode, header.error, body)
            elif header.error:
                _answer(record, asked.opcode, _REFUSED_AS_A_WHOLE, None)
            else:
                assert record.part is not None
                result, opcode = body[record.part], asked.body.parts[record.part][0]
                is_refused = result.opcode == OpCode.ERROR and asked.opcode == OpCode.MULTI
                _answer(record, int(opcode), _REFUSED_AS_A_WHOLE if is_refused else result.error, result.value)

    def finish(self, history: History) -> None:
        """Add what the ensemble did by itself, and find the paths of sequential creates without a reply."""
        committed = {(one.session, one.number): history.txns[zxid] for zxid, one in history.requested.items()}
        for of, (asked, records) in self._waiting.items():
            txn = committed.get(of)
            for record in records:
                if not (asked.is_write and _is_sequential(asked, record.part)):
                    continue
                path = None if txn is None else _path_in(txn, record.part)
                record.path = path.decode() if path is not None else ""
        self.records = [record for record in self.records if record.path and record.path not in self._beginning]
        for zxid in sorted(zxid for zxid in history.txns if zxid > history.beginning):
            txn = history.txns[zxid]
            paths = txn.rest if txn.type == OpCode.CLOSE_SESSION else ()
            if txn.type == OpCode.DELETE_CONTAINER:
                paths = (txn.path,)
            for path in paths:
                if path.decode() in self._beginning:
                    continue
                self.records.append(Record(None, 0, 0, None, "delete", path.decode(), "ok", zxid=zxid))


def _record(client: str, asked: Asked, part: int | None, opcode: int, body: Any) -> Record:
    """The record of a request."""
    kind = _KINDS[int(opcode)]
    record = Record(client, asked.session, asked.number, part, kind, body.path.decode(), "unknown")
    record.invoked = asked.sent_at * _NS_PER_US
    if kind in ("create", "set"):
        record.value = body.data
    if kind in ("set", "delete"):
        record.expected = body.version
    return record


def _answer(record: Record, opcode: int, error: int, body: Any) -> None:
    """Fill in what the reply says about the znode."""
    if error:
        record.status, record.error = "failed", error
        return
    record.status = "ok"
    if record.kind == "create":
        record.path = (body if opcode == OpCode.CREATE else body[0]).decode()
        record.version = 0
    elif record.kind == "set":
        record.version = STAT_LAYOUT.unpack(body)[4]
    elif record.kind in ("get", "exists"):
        data, stat = body if record.kind == "get" else (None, body)
        record.value = data
        _, record.mzxid, _, _, record.version, *_ = STAT_LAYOUT.unpack(stat)


def _is_sequential(asked: Asked, part: int | None) -> bool:
    body = asked.body if part is None else asked.body.parts[part][1]
    return bool(getattr(body, "flags", 0) in _FLAGS_OF_SEQUENTIAL)


def _path_in(txn: Any, part: int | None) -> bytes | None:
    path: bytes = txn.path if part is None else txn.rest[part][2]
    return path
