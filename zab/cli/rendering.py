"""What the znode commands print: ZooKeeper's forms for people, JSON for programs.

stat      eleven lines `cZxid = 0x…`, `ctime = Thu Jan 01 00:00:00 UTC 1970`, … as ZooKeeper's shell prints them
ACL       two lines per entry, `'digest,'bob:…` and `: cdrwa`
event     a blank line, `WATCHER::`, a blank line, `WatchedEvent state:… type:… path:… zxid: …`, the zxid in hexadecimal
          as everywhere, or -1 where the server does not tell it
JSON      one object per line; a Stat has the names of `zab.client.Stat`, data is a string under "data" when it is
          UTF-8, else base64 under "data_base64"
"""

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from zab.cli.terminal import UNSEEN, in_line
from zab.client import Acl, EventType, Stat, State, WatchEvent

__all__ = ["acl_text", "event_block", "event_line", "json_data", "json_event", "json_line", "stat_text"]

# The names of ZooKeeper's own messages.
_STATES: Final = {
    State.CONNECTING: "Disconnected",
    State.CONNECTED: "SyncConnected",
    State.CONNECTED_READ_ONLY: "ConnectedReadOnly",
    State.AUTH_FAILED: "AuthFailed",
    State.EXPIRED: "Expired",
    State.CLOSED: "Closed",
}
_EVENTS: Final = {
    EventType.SESSION: "None",
    EventType.CREATED: "NodeCreated",
    EventType.DELETED: "NodeDeleted",
    EventType.DATA_CHANGED: "NodeDataChanged",
    EventType.CHILDREN_CHANGED: "NodeChildrenChanged",
    EventType.DATA_WATCH_REMOVED: "DataWatchRemoved",
    EventType.CHILD_WATCH_REMOVED: "ChildWatchRemoved",
    EventType.PERSISTENT_WATCH_REMOVED: "PersistentWatchRemoved",
}
# Those that JSON does not escape by itself.
_CONTROL: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *UNSEEN)}


def stat_text(stat: Stat) -> str:
    return "\n".join(
        (
            f"cZxid = {stat.czxid:#x}",
            f"ctime = {_date(stat.ctime)}",
            f"mZxid = {stat.mzxid:#x}",
            f"mtime = {_date(stat.mtime)}",
            f"pZxid = {stat.pzxid:#x}",
            f"cversion = {stat.cversion}",
            f"dataVersion = {stat.version}",
            f"aclVersion = {stat.aversion}",
            f"ephemeralOwner = {stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:#x}",
            f"dataLength = {stat.data_length}",
            f"numChildren = {stat.num_children}",
        )
    )


def _date(time_ms: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(time_ms / 1000))


def acl_text(acl: tuple[Acl, ...]) -> str:
    return "\n".join(f"'{in_line(entry.scheme)},'{in_line(entry.id)}\n: {entry.permissions.letters}" for entry in acl)


def event_block(event: WatchEvent) -> str:
    path = event.path or "null"
    named = f"state:{_STATES[event.state]} type:{_EVENTS[event.type]} path:{path} zxid: {_zxid(event)}"
    return f"\nWATCHER::\n\nWatchedEvent {named}"


def event_line(event: WatchEvent) -> str:
    """One line for `zab watch`."""
    return f"{event.type.name} {event.path} zxid={_zxid(event)}"


def _zxid(event: WatchEvent) -> str:
    return "-1" if event.zxid == -1 else f"{event.zxid:#x}"


def json_event(event: WatchEvent) -> dict[str, Any]:
    return {"type": event.type.name, "path": event.path, "state": event.state.name, "zxid": event.zxid}


def json_data(data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {"data": None}
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def json_line(fields: Mapping[str, Any]) -> str:
    """One object on one line, without control characters. A Stat becomes an object, an ACL a list of objects."""
    text = json.dumps({name: _plain(value) for name, value in fields.items()}, ensure_ascii=False)
    return text.translate(_CONTROL)


def _plain(value: Any) -> Any:
    if isinstance(value, Acl):
        return {"scheme": value.scheme, "id": value.id, "permissions": value.permissions.letters}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(field) for name, field in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
