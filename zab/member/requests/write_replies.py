"""The replies of successful writes, made from the result of applying them: one row in `WRITTEN` for each operation.

    function(xid, zxid, applied) -> the frame of the reply, ready to be sent

The zxid is that of the write. In a multi, an operation has the same body as alone.

Not here: refusals, which are only a header (`processor`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from datatree.opcodes import OpCode
from datatree.outcome import Applied, PartResult
from datatree.slices import PARTS
from zab.jute.replies import (
    DATA_REPLY_BYTES_MIN,
    STAT_REPLY_BYTES,
    multi_body,
    pack_data_reply,
    pack_reply,
    part,
    path_body,
    refused_part,
    reply,
)

Written: TypeAlias = Callable[[int, int, Applied], bytes]


def _path(xid: int, zxid: int, applied: Applied) -> bytes:
    _, path, _, _, _ = applied
    length = len(path)
    return pack_data_reply(DATA_REPLY_BYTES_MIN + length, xid, zxid, 0, length) + path


def _path_and_stat(xid: int, zxid: int, applied: Applied) -> bytes:
    _, path, stat, _, _ = applied
    assert stat is not None
    return reply(xid, zxid, 0, path_body(path, stat))


def _stat(xid: int, zxid: int, applied: Applied) -> bytes:
    _, _, stat, _, _ = applied
    assert stat is not None
    return pack_reply(STAT_REPLY_BYTES, xid, zxid, 0) + stat


def _nothing(xid: int, zxid: int, _applied: Applied) -> bytes:
    return reply(xid, zxid)


def _multi(xid: int, zxid: int, applied: Applied) -> bytes:
    """The reply of a multi. The header carries no error, even if the parts do."""
    _, _, _, results, _ = applied
    assert results is not None
    return reply(xid, zxid, 0, multi_body([_part(result) for result in results]))


def multi_in_slices(xid: int, zxid: int, results: list[PartResult]) -> Generator[None, None, bytes]:
    """The reply of a multi with many parts, in slices."""
    parts: list[bytes] = []
    for result in results:
        parts.append(_part(result))
        if not len(parts) % PARTS:
            yield
    return reply(xid, zxid, 0, multi_body(parts))


def reconfigured(xid: int, zxid: int, text: bytes, applied: Applied) -> bytes:
    """The reply of a reconfiguration: the new configuration, and the Stat of its znode."""
    _, _, stat, _, _ = applied
    assert stat is not None
    length = len(text)
    return pack_data_reply(DATA_REPLY_BYTES_MIN + length + len(stat), xid, zxid, 0, length) + text + stat


def _part(result: PartResult) -> bytes:
    kind, error, path, stat = result
    if kind == _ERROR:
        return refused_part(error)
    body = path_body(path) if kind in _WITH_PATH else b""
    if kind in _WITH_STAT:
        assert stat is not None
        body += stat
    return part(kind, body)


WRITTEN: Final[Mapping[int, Written]] = {
    int(OpCode.CREATE): _path,
    int(OpCode.CREATE2): _path_and_stat,
    int(OpCode.CREATE_CONTAINER): _path_and_stat,
    int(OpCode.CREATE_TTL): _path_and_stat,
    int(OpCode.CREATE_IF_NOT_EXISTS): _path,
    int(OpCode.DELETE): _nothing,
    int(OpCode.SET_DATA): _stat,
    int(OpCode.SET_ACL): _stat,
    int(OpCode.CHECK): _nothing,
    int(OpCode.CHECK_NOT_EXISTS): _nothing,
    int(OpCode.CHECK_STAT): _nothing,
    int(OpCode.REMOVE_RECURSIVE): _nothing,
    int(OpCode.TRY_REMOVE): _nothing,
    int(OpCode.HAND_OVER): _nothing,
    int(OpCode.MULTI): _multi,
    int(OpCode.CLOSE_SESSION): _nothing,
}

_ERROR: Final = int(OpCode.ERROR)
_WITH_PATH: Final = frozenset(opcode for opcode, written in WRITTEN.items() if written in (_path, _path_and_stat))
_WITH_STAT: Final = frozenset(opcode for opcode, written in WRITTEN.items() if written in (_stat, _path_and_stat))
