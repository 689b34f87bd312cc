"""What the znode commands print for people: ZooKeeper's forms.

stat      eleven lines `cZxid = 0x…`, `ctime = Thu Jan 01 00:00:00 UTC 1970`, … as ZooKeeper's shell prints them
ACL       two lines per entry, `'digest,'bob:…` and `: cdrwa`
event     a blank line, `WATCHER::`, a blank line, `WatchedEvent state:… type:… path:… zxid: …`, the zxid in hexadecimal
          as everywhere, or -1 where the server does not tell it

Not here: what programs read (`zab.cli.json_form`).
"""

import time
from typing import Final

from zab.cli.terminal import in_line
from zab.client import Acl, EventType, Stat, State, WatchEvent

__all__ = ["acl_text", "event_block", "event_line", "stat_text"]

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
