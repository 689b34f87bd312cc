"""The text and JSON forms of what is in logs and snapshots, native or ZooKeeper's.

The text is that of ZooKeeper's own TxnLogToolkit (LogFormatter) and SnapshotFormatter, dates in UTC:

    11/21/26, 2:19:56 AM UTC session 0x100 cxid 0x2 zxid 0x3 create /a,DATA,[31,s{'world,'anyone}
    ],false,1

    /a
      cZxid = 0x00000000000003
      ctime = Sat Nov 21 02:19:56 UTC 2026
      …

Where the two differ, on purpose: the parts of a multi are printed with their fields, as their own transactions are,
where ZooKeeper's prints their bytes; and control characters and line ends in paths and data are made visible, so that
nobody's data is taken for a line of the log. Data is shown as UTF-8, undecodable bytes as U+FFFD, the way Java decodes.

JSON is that of all commands (`zab.cli.json_form`), a line for each transaction, znode and session; and beside it the
format of ncdu, as ZooKeeper's SnapshotFormatter has it. Deliberately not here: reading files, and writing to the
terminal (`zab.cli.files.inspect`).
"""

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from datatree.acl import explicit
from datatree.opcodes import TYPES, Effect, OpCode, types_with
from datatree.record import AclList, Txn
from datatree.znode import CONTAINER_OWNER, TTL_MS_MAX, is_ephemeral, is_ttl, ttl_ms
from datatree.zookeeper.snapshot import SnapshotZnode
from zab.cli.files.summaries import Difference, Total
from zab.cli.json_form import acl_entry, data_fields, hexadecimal, json_line, owner_or_none, time_text
from zab.cli.terminal import count_of, in_line

__all__ = [
    "java_text",
    "ncdu_pieces",
    "session_json",
    "session_line",
    "txn_json",
    "txn_line",
    "txn_name",
    "znode_block",
    "znode_json",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_CREATES: Final = types_with(Effect.CREATE)
_DELETES: Final = types_with(Effect.DELETE)
_SETS: Final = types_with(Effect.SET_DATA)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
_EPHEMERAL_CREATES: Final = frozenset({OpCode.CREATE, OpCode.CREATE2})

# Jute's text form: these characters would end or split a field.
_JUTE_ESCAPES: Final = str.maketrans(
    {"\0": "%00", "\n": "%0A", "\r": "%0D", ",": "%2C", "}": "%7D", "%": "%25"},
)
# A surrogate encoded as UTF-8: one wrong character for Java, three for Python.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def java_text(data: bytes) -> str:
    """`data` as Java decodes UTF-8."""
    return _SURROGATE.sub("\ufffd".encode(), data).decode(errors="replace")


def _hex(value: int) -> str:
    """A 64-bit integer as Java's toHexString has it."""
    return f"{value & 0xFFFFFFFFFFFFFFFF:x}"


def _padded(value: int) -> str:
    """As C's %#016x: sixteen characters, `0x` among them, unless there are more digits."""
    return f"0x{value & 0xFFFFFFFFFFFFFFFF:014x}"


@lru_cache(maxsize=1024)
def _utc(seconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def short_date(time_ms: int) -> str:
    """`11/21/26, 2:19:56 AM UTC`; the number itself when it is no date of our calendar."""
    at = _utc(time_ms // 1000)
    if at is None:
        return f"{time_ms} ms"
    half = "AM" if at.hour < 12 else "PM"
    clock = f"{(at.hour + 11) % 12 + 1}:{at.minute:02d}:{at.second:02d} {half} UTC"
    return f"{at.month}/{at.day}/{at.year % 100:02d}, {clock}"


def long_date(time_ms: int) -> str:
    """`Sat Nov 21 02:19:56 UTC 2026`."""
    at = _utc(time_ms // 1000)
    if at is None:
        return f"{time_ms} ms"
    clock = f"{at.hour:02d}:{at.minute:02d}:{at.second:02d}"
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at.day:02d} {clock} UTC {at.year}"


def txn_name(kind: int) -> str:
    """The name of a transaction's type."""
    return OpCode(kind).spelled if kind in TYPES else f"unknown {kind}"


def txn_line(txn: Txn) -> str:
    """One transaction without line end. The list of permissions of a create has line ends, as ZooKeeper prints it; what
    a client made up has none."""
    fields = _txn_fields(txn.type, txn.number, txn.path, txn.data, txn.rest)
    return (
        f"{short_date(txn.time)} session 0x{_hex(txn.session)} cxid 0x{_hex(txn.cxid)} zxid 0x{_hex(txn.zxid)} "
        f"{txn_name(txn.type)} {fields}"
    )


def _txn_fields(kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> str:
    if kind in (OpCode.CREATE_SESSION, OpCode.ERROR):
        return str(number)
    if kind in _CREATES:
        return _create_fields(kind, number, path, data, rest)
    if kind in _SETS:
        return f"{_text(path)},{_text(data or b'')},{number}"
    if kind == OpCode.CHECK:
        return f"{_text(path)},{number}"
    if kind in _DELETES:
        return _jute_text(path)
    if kind in _SET_ACLS:
        entries = ",".join(f"s{{{perms},{_id_text(scheme, name)}}}" for perms, scheme, name in explicit(rest[0]))
        return f"{_jute_text(path)},v{{{entries}}},{number}"
    if kind == OpCode.CLOSE_SESSION:
        return "" if rest is None else f"v{{{','.join(map(_jute_text, rest))}}}"
    assert kind == OpCode.MULTI
    return ";".join(f"{txn_name(part[0])}:{_txn_fields(*part)}" for part in rest)


def _create_fields(kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> str:
    acl, owner = rest
    entries = ", ".join(f"{perms},{_id_text(scheme, name)}\n" for perms, scheme, name in explicit(acl))
    fields = [_text(path), _text(data or b""), f"[{entries}]"]
    if kind in _EPHEMERAL_CREATES:
        fields.append("true" if owner else "false")
    fields.append(str(number))
    if kind == OpCode.CREATE_TTL:
        fields.append(str(owner & TTL_MS_MAX))
    return ",".join(fields)


def _text(data: bytes) -> str:
    return in_line(java_text(data))


def _jute_text(text: bytes) -> str:
    return "'" + in_line(java_text(text).translate(_JUTE_ESCAPES))


def _id_text(scheme: bytes, name: bytes) -> str:
    return f"s{{{_jute_text(scheme)},{_jute_text(name)}}}"


def txn_json(txn: Txn, *, committed: bool | None, digest: int | None, intact: bool) -> str:
    """One transaction, with what its log says of it."""
    return json_line(
        {
            "zxid": hexadecimal(txn.zxid),
            "time": time_text(txn.time),
            "session": owner_or_none(txn.session),
            "cxid": txn.cxid,
            "committed": committed,
            "digest": None if digest is None else hexadecimal(digest),
            "intact": intact,
            **_txn_value(txn.type, txn.number, txn.path, txn.data, txn.rest),
        }
    )


def _txn_value(kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> dict[str, Any]:
    """The type, and the fields that it has."""
    value: dict[str, Any] = {"type": txn_name(kind)}
    if kind == OpCode.CREATE_SESSION:
        return value | {"timeout_ms": number}
    if kind == OpCode.ERROR:
        return value | {"error": number}
    if kind == OpCode.CLOSE_SESSION:
        return value | {"paths": None if rest is None else [java_text(each) for each in rest]}
    if kind == OpCode.MULTI:
        return value | {"parts": [_txn_value(*part) for part in rest]}
    value["path"] = java_text(path)
    if kind in _CREATES:
        acl, owner = rest
        return value | data_fields(data) | {"acl": _acl_value(acl), **_owner_fields(owner), "parent_cversion": number}
    if kind in _SETS:
        value |= data_fields(data)
    elif kind in _SET_ACLS:
        value["acl"] = _acl_value(rest[0])
    return value if kind in _DELETES else value | {"version": number}


def _acl_value(acl: AclList) -> list[dict[str, str]]:
    return [acl_entry(perms, java_text(scheme), java_text(name)) for perms, scheme, name in explicit(acl)]


def _owner_fields(owner: int) -> dict[str, Any]:
    """What the stored owner of a znode says of it."""
    return {
        "ephemeral_owner": hexadecimal(owner) if is_ephemeral(owner) else None,
        "container": owner == CONTAINER_OWNER,
        "ttl_ms": ttl_ms(owner) if is_ttl(owner) else None,
    }


def znode_json(znode: SnapshotZnode) -> str:
    """One znode of a snapshot."""
    return json_line(
        {
            "type": "znode",
            "path": java_text(znode.path),
            **data_fields(znode.data),
            "acl": _acl_value(znode.acl),
            "czxid": hexadecimal(znode.czxid),
            "mzxid": hexadecimal(znode.mzxid),
            "pzxid": hexadecimal(znode.pzxid),
            "ctime": time_text(znode.ctime),
            "mtime": time_text(znode.mtime),
            "version": znode.version,
            "cversion": znode.cversion,
            "aversion": znode.aversion,
            **_owner_fields(znode.owner),
            "data_length": len(znode.data or b""),
        }
    )


def znode_block(znode: SnapshotZnode, *, with_data: bool) -> str:
    """One znode of a snapshot, from `----` to its last line end."""
    data = znode.data or b""
    last = f"data = {base64.b64encode(data).decode()}" if with_data else f"dataLength = {len(data)}"
    return (
        f"----\n{java_text(znode.path)}\n"
        f"  cZxid = {_padded(znode.czxid)}\n  ctime = {long_date(znode.ctime)}\n"
        f"  mZxid = {_padded(znode.mzxid)}\n  mtime = {long_date(znode.mtime)}\n"
        f"  pZxid = {_padded(znode.pzxid)}\n  cversion = {znode.cversion}\n"
        f"  dataVersion = {znode.version}\n  aclVersion = {znode.aversion}\n"
        f"  ephemeralOwner = {_padded(znode.owner)}\n  {last}\n"
    )


def session_line(session: int, timeout_ms: int, ephemeral_count: int) -> str:
    return f"{_padded(session)}, {timeout_ms}, {ephemeral_count}\n"


def session_json(session: int, timeout_ms: int, ephemeral_count: int) -> str:
    return json_line(
        {
            "type": "session",
            "session": hexadecimal(session),
            "timeout_ms": timeout_ms,
            "ephemeral_count": ephemeral_count,
        }
    )


def summary_text(level: int, path: bytes, total: Total, *, as_json: bool) -> str:
    """One znode of a summary, as ZooKeeper's SnapshotRecursiveSummary prints it."""
    if as_json:
        fields = {"type": "subtree", "path": java_text(path), "count": total.descendants, "bytes": total.size}
        return f"{json_line(fields)}\n"
    lines = f" {in_line(java_text(path))}", f"   children: {total.descendants}", f"   data: {total.size}"
    return "".join(f"{'--' * level}{line}\n" for line in lines)


_SIDES = {"-": "only_first", "+": "only_second", "~": "differs"}


def difference_text(difference: Difference, *, as_json: bool) -> str:
    """One line of a comparison of snapshots."""
    path = java_text(difference.path)
    if as_json:
        fields: dict[str, Any] = {"type": _SIDES[difference.mark], "path": path}
        fields |= {"count": difference.count, "bytes": difference.size, "fields": list(difference.fields)}
        return f"{json_line(fields)}\n"
    if difference.fields:
        return f"{difference.mark} {in_line(path)}: {', '.join(difference.fields)}\n"
    return f"{difference.mark} {in_line(path)}: {count_of(difference.count, 'znode')}, {difference.size} bytes\n"


def ncdu_pieces(sizes: dict[str, int], *, program: str, version: str, timestamp_ms: int) -> Iterator[str]:
    """A snapshot in the format of ncdu, piece by piece. sizes: path to length of the data, "/" among them."""
    children: dict[str, list[str]] = {}
    for path in sorted(sizes):
        if path != "/":
            children.setdefault(path.rpartition("/")[0] or "/", []).append(path)
    head = {"progname": program, "progver": version, "timestamp": timestamp_ms}
    yield f"[1,0,{json.dumps(head, separators=(',', ':'))}"
    # A znode with children is a list of itself and them, so a pending None closes one.
    pending: list[str | None] = ["/"]
    number = 1001
    while pending:
        each = pending.pop()
        if each is None:
            yield "]"
            continue
        below = children.get(each, [])
        name, size = each.rpartition("/")[2] or "/", sizes[each]
        value = {"name": name, "asize": size, "dsize": size, "dev": 0, "ino": number}
        yield f",{'[' if below else ''}{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        number += 1
        if below:
            pending += [None, *reversed(below)]
    yield "]"
