"""The replies of writes that were done, out of what applying them handed back: one function for each operation.

    function(xid, zxid, outcome) -> the frame of the reply

The zxid is the write's own. Not here: refusals, which are a header alone (`processor`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from datatree.opcodes import OpCode
from datatree.outcome import Outcome, PartResult
from zab.jute.replies import multi_body, part, path_body, refused_part, reply, stat_reply

Written: TypeAlias = Callable[[int, int, Outcome], bytes]


def _path(xid: int, zxid: int, outcome: Outcome) -> bytes:
    return reply(xid, zxid, 0, path_body(outcome.path))


def _path_and_stat(xid: int, zxid: int, outcome: Outcome) -> bytes:
    assert outcome.stat is not None
    return reply(xid, zxid, 0, path_body(outcome.path, outcome.stat))


def _stat(xid: int, zxid: int, outcome: Outcome) -> bytes:
    assert outcome.stat is not None
    return stat_reply(xid, zxid, outcome.stat)


def _nothing(xid: int, zxid: int, _outcome: Outcome) -> bytes:
    return reply(xid, zxid)


def _multi(xid: int, zxid: int, outcome: Outcome) -> bytes:
    """The header carries no error, even when the parts do."""
    assert outcome.results is not None
    return reply(xid, zxid, 0, multi_body([_part(result) for result in outcome.results]))


def _part(result: PartResult) -> bytes:
    kind, error, path, stat = result
    if kind == OpCode.ERROR:
        return refused_part(error)
    if kind == OpCode.SET_DATA:
        assert stat is not None
        return part(kind, stat)
    if kind in (OpCode.DELETE, OpCode.CHECK):
        return part(kind)
    return part(kind, path_body(path, b"" if kind == OpCode.CREATE or stat is None else stat))


WRITTEN: Mapping[int, Written] = {
    int(OpCode.CREATE): _path,
    int(OpCode.CREATE2): _path_and_stat,
    int(OpCode.CREATE_CONTAINER): _path_and_stat,
    int(OpCode.CREATE_TTL): _path_and_stat,
    int(OpCode.DELETE): _nothing,
    int(OpCode.SET_DATA): _stat,
    int(OpCode.SET_ACL): _stat,
    int(OpCode.MULTI): _multi,
    int(OpCode.CLOSE_SESSION): _nothing,
}
