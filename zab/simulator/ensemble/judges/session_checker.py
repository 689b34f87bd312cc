"""Checks every answer to one client against the state that the committed history makes.

    acked writes never lost          an acknowledged write is in the delivered sequence, as requested, with that zxid
    refused writes never reappear    a refused write is there as a refusal, with that error
    monotonic reads                  the zxids of a session's messages never fall, even with different servers
    read your writes                 follows: a read after a write has a zxid of at least the write's; and one before
                                     it, in the same connection, a lower one (A1 output order)
    reads                            a read shows the exact state at its zxid: data, stat, children
    real-time order of writes        a write has a higher zxid than everything that any client was told before it was
                                     sent
    sync                             the zxid of a sync is at least everything that any client was told before it began
                                     (invariant 9); no earlier request of this client, on any connection, is done above
                                     it
    read-only mode                   a server without a quorum refuses writes and syncs; what it shows is committed, and
                                     this client has seen nothing newer
    order                            replies come in the order of the requests

`watch_checker` checks watches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from zab.jute.replies import MultiResult, ReplyHeader, decode_body
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.judges.requests import Asked
from zab.simulator.ensemble.judges.watch_checker import WatchChecker
from zab.simulator.world.verdict import SafetyError

_NONODE: Final = int(ErrorCode.NONODE)
_NOTREADONLY: Final = int(ErrorCode.NOTREADONLY)
_QUOTAEXCEEDED: Final = int(ErrorCode.QUOTAEXCEEDED)


class SessionChecker:
    """The judge of one client, with its successive sessions and connections."""

    def __init__(self, name: str, history: History) -> None:
        self._name = name
        self._history = history
        self.seen = 0
        """The highest zxid that this client was told."""
        self._replied = 0
        """The highest zxid in replies; events are left out, since those of a write come before its reply."""
        self.watches = WatchChecker(history.model)
        self.is_read_only = False
        """Whether the current connection is to a server without a quorum."""

    def connected(self) -> None:
        """Begin a new connection: watches start again, and `seen` stays."""
        self.watches = WatchChecker(self._history.model)

    def fail(self, rule: str, reason: str) -> None:
        raise SafetyError(rule, f"{self._name}: {reason}")

    # ------------------------------------------------------------------------------------------------------- messages

    def event(self, zxid: int, kind: int, path: bytes) -> None:
        """Check a watch event."""
        self.watches.event(zxid, kind, path)
        if zxid != -1:
            self._saw(zxid)

    def told(self, zxid: int) -> None:
        """Check a message that does not answer a request, such as the answer to a ping."""
        self.watches.reply(zxid)
        self._saw(zxid)
        self._replied = zxid

    def reply(self, asked: Asked, header: ReplyHeader, payload: bytes) -> None:
        """Check the answer to a request."""
        zxid = header.zxid
        if asked.is_write and header.error == _QUOTAEXCEEDED and not self._is_logged(asked, header):
            self._history.refused_by_a_member(asked)
            self.told(zxid)
            return
        if self.is_read_only and (asked.is_write or asked.opcode == OpCode.SYNC):
            if header.error != _NOTREADONLY:
                self.fail("read-only mode", f"{_shown(asked)} is answered with {header.error}")
            if asked.is_write:
                self._history.refused_by_a_member(asked)
            self.told(zxid)
            return
        if asked.is_write and zxid <= self._replied:
            self.fail(
                "read your writes", f"{_shown(asked)} is done at {zxid:#x}, a reply said {self._replied:#x} before"
            )
        self.told(zxid)
        body = None
        if not header.error:
            body = decode_body(asked.opcode, payload)
        if asked.is_write:
            self._written(asked, header, body)
        else:
            _ANSWERED[asked.opcode](self, asked, header, body)

    def _is_logged(self, asked: Asked, header: ReplyHeader) -> bool:
        """Whether the leader refused it; otherwise the client's member did, since no quorum has disk space."""
        txn = self._history.txns.get(header.zxid)
        is_news = header.zxid > self._replied and txn is not None and asked.may_be(txn)
        return is_news and txn is not None and (txn.type, txn.number) == (-1, header.error)

    def _saw(self, zxid: int) -> None:
        if zxid < self.seen:
            self.fail("monotonic reads", f"is told {zxid:#x} after {self.seen:#x}")
        if zxid > self._history.end_txn:
            self.fail("agreement", f"is told {zxid:#x}, nothing above {self._history.end_txn:#x} is delivered")
        self.seen = zxid
        self._history.told = max(self._history.told, zxid)

    # --------------------------------------------------------------------------------------------------------- writes

    def _written(self, asked: Asked, header: ReplyHeader, body: Any) -> None:
        txn = self._history.txns.get(header.zxid)
        if txn is None or not asked.may_be(txn):
            self.fail("acked writes are never lost", f"{_shown(asked)} is answered at {header.zxid:#x}, where {txn} is")
            return
        if header.zxid <= asked.told:
            reason = (
                f"{_shown(asked)} is done at {header.zxid:#x}; {asked.told:#x} was told to a client before it began"
            )
            self.fail("real-time order of writes", reason)
        if header.error:
            if (txn.type, txn.number) != (-1, header.error):
                self.fail(
                    "refused writes never reappear", f"{_shown(asked)} is refused with {header.error}, and it is {txn}"
                )
            return
        if txn.type != asked.opcode:
            self.fail("acked writes are never lost", f"{_shown(asked)} is acknowledged, and it is {txn}")
        if asked.opcode == OpCode.CREATE:
            self._same("path", body, txn.path, asked)
        elif asked.opcode in (OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL):
            self._same("path and stat", body, (txn.path, self._stat(txn.path, header.zxid)), asked)
        elif asked.opcode in (OpCode.SET_DATA, OpCode.SET_ACL):
            self._same("stat", body, self._stat(txn.path, header.zxid), asked)
        elif asked.opcode == OpCode.MULTI:
            self._multi_written(asked, body, txn.rest)

    def _multi_written(self, asked: Asked, body: list[MultiResult], parts: Any) -> None:
        refused = any(part[0] == -1 for part in parts)
        if len(body) != len(parts):
            self.fail("acked writes are never lost", f"{_shown(asked)} has {len(body)} results, {len(parts)} parts")
        for result, (kind, number, path, _, _) in zip(body, parts, strict=True):
            if refused:
                self._same("error of a part", (result.opcode, result.error), (-1, number), asked)
            elif kind == OpCode.CREATE:
                self._same("path of a part", result.value, path, asked)
            elif kind == OpCode.CREATE2:
                self._same("path of a part", result.value[0], path, asked)

    # ---------------------------------------------------------------------------------------------------------- reads

    def _stat(self, path: bytes, zxid: int) -> bytes | None:
        znode = self._history.model.znode_at(path, zxid)
        return None if znode is None else znode.stat()

    def _same(self, what: str, got: Any, wanted: Any, asked: Asked) -> None:
        if got != wanted:
            self.fail("reads", f"{_shown(asked)}: {what} is {got!r}, it should be {wanted!r} at {self.seen:#x}")

    def _is_there(self, asked: Asked, header: ReplyHeader) -> bool:
        """Whether the znode exists; checks that the error agrees."""
        is_there = self._history.model.znode_at(asked.body.path, header.zxid) is not None
        self._same("error", header.error, 0 if is_there else _NONODE, asked)
        return is_there

    def _exists(self, asked: Asked, header: ReplyHeader, body: Any) -> None:
        is_there = self._is_there(asked, header)
        if is_there:
            self._same("stat", body, self._stat(asked.body.path, header.zxid), asked)
        if asked.body.watch:
            self.watches.set_data(asked.body.path, is_there=is_there)

    def _get_data(self, asked: Asked, header: ReplyHeader, body: Any) -> None:
        if not self._is_there(asked, header):
            return
        znode = self._history.model.znode_at(asked.body.path, header.zxid)
        assert znode is not None
        self._same("data and stat", body, (znode.data, znode.stat()), asked)
        if asked.body.watch:
            self.watches.set_data(asked.body.path, is_there=True)

    def _get_children(self, asked: Asked, header: ReplyHeader, body: Any) -> None:
        if not self._is_there(asked, header):
            return
        path = asked.body.path
        names = body
        if asked.opcode == OpCode.GET_CHILDREN2:
            names, stat = body
            self._same("stat", stat, self._stat(path, header.zxid), asked)
        self._same("children", sorted(names), sorted(self._history.model.children_at(path, header.zxid)), asked)
        if asked.body.watch:
            self.watches.set_child(path)

    def _multi_read(self, asked: Asked, header: ReplyHeader, body: list[MultiResult]) -> None:
        model = self._history.model
        for (opcode, part), result in zip(asked.body.parts, body, strict=True):
            znode = model.znode_at(part.path, header.zxid)
            self._same("error of a part", result.error, _NONODE if znode is None else 0, asked)
            if znode is not None and opcode == OpCode.GET_DATA:
                self._same("data of a part", result.value, (znode.data, znode.stat()), asked)
            elif znode is not None:
                wanted = sorted(model.children_at(part.path, header.zxid))
                self._same("children of a part", sorted(result.value), wanted, asked)

    def _sync(self, asked: Asked, header: ReplyHeader, _body: Any) -> None:
        self._same("error", header.error, 0, asked)
        if header.zxid < asked.told:
            reason = f"a sync returns at {header.zxid:#x}; {asked.told:#x} was told to a client before it began"
            self.fail("sync", reason)
        self._history.synced(asked, header.zxid)

    def _add_watch(self, asked: Asked, header: ReplyHeader, _body: Any) -> None:
        self._same("error", header.error, 0, asked)
        self.watches.set_mode(asked.body.path, asked.body.kind)

    def _set_watches(self, asked: Asked, header: ReplyHeader, _body: Any) -> None:
        self._same("error", header.error, 0, asked)
        self.watches.restored(asked.body, header.zxid)


def _shown(asked: Asked) -> str:
    return f"{OpCode(asked.opcode).name} {getattr(asked.body, 'path', b'')!r} (xid {asked.xid})"


_ANSWERED: Final[dict[int, Callable[[SessionChecker, Asked, ReplyHeader, Any], None]]] = {
    int(OpCode.EXISTS): SessionChecker._exists,
    int(OpCode.GET_DATA): SessionChecker._get_data,
    int(OpCode.GET_CHILDREN): SessionChecker._get_children,
    int(OpCode.GET_CHILDREN2): SessionChecker._get_children,
    int(OpCode.MULTI_READ): SessionChecker._multi_read,
    int(OpCode.SYNC): SessionChecker._sync,
    int(OpCode.ADD_WATCH): SessionChecker._add_watch,
    int(OpCode.SET_WATCHES2): SessionChecker._set_watches,
}
