"""The values of `zab.client` in JSON (`zab.cli.json_form`): stat, ACL, event, change."""

from collections.abc import Iterable
from typing import Any

from zab.cli.json_form import acl_entry, data_fields, hexadecimal, owner_or_none, time_text
from zab.client import Acl, Change, Stat, WatchEvent

__all__ = ["acl_value", "change_fields", "event_fields", "stat_value"]


def stat_value(stat: Stat) -> dict[str, Any]:
    return {
        "czxid": hexadecimal(stat.czxid),
        "mzxid": hexadecimal(stat.mzxid),
        "pzxid": hexadecimal(stat.pzxid),
        "ctime": time_text(stat.ctime),
        "mtime": time_text(stat.mtime),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": owner_or_none(stat.ephemeral_owner),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    }


def acl_value(acl: Iterable[Acl]) -> list[dict[str, str]]:
    return [acl_entry(entry.permissions, entry.scheme, entry.id) for entry in acl]


def event_fields(event: WatchEvent) -> dict[str, Any]:
    """`zxid` is null if the server does not send it."""
    zxid = None if event.zxid == -1 else hexadecimal(event.zxid)
    return {"type": event.type.name, "path": event.path, "state": event.state.name, "zxid": zxid}


def change_fields(change: Change) -> dict[str, Any]:
    """`version` is null if the znode was deleted. Kinds without data have no `data`."""
    return {
        "zxid": hexadecimal(change.zxid),
        "part": change.part,
        "time": time_text(change.time),
        "session": owner_or_none(change.session),
        "kind": change.kind.name,
        "path": change.path,
        **data_fields(change.data if change.kind.has_data else None),
        "version": None if change.version == -1 else change.version,
        "ephemeral_owner": owner_or_none(change.ephemeral_owner),
    }
