"""`zab group`: groups of consumers, as Kafka's `kafka-consumer-groups.sh` has them.

`lag` is how many offsets a group has not committed: the next offset of the partition less the committed one. It is not
known of a partition without a leader, or of one that was deleted.

Not here: `reset` (`group_reset.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.consumer_groups import MEMBER_TYPES, described_consumer_group, partitions_of
from zab.cli.brokers.group_offsets import Committed, committed_of, described
from zab.cli.brokers.group_reset import reset_command
from zab.cli.brokers.options import GroupArgument
from zab.cli.brokers.refusals import RefusedError
from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import count_of, in_line, say
from zab.kafka.errors import ErrorCode

__all__ = ["group_app"]

group_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_LISTED: Final = {"group": "group_id", "state": "group_state", "kind": "group_type", "protocol": "protocol_type"}
"""The fields of `zab group list`, with the library's names."""
_HEAD: Final = ("topic", "partition", "committed", "end", "lag", "member", "host")


@group_app.callback()
def _group() -> None:
    """Groups of consumers of the brokers at --bootstrap-server, which is an option of zab."""


@group_app.command("list")
def list_command(
    context: typer.Context,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only these: Stable, Empty, …; once for each."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print all groups with their states."""
    wanted = {each.lower() for each in state or ()}

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            groups = sorted(admin.list_groups(), key=lambda group: str(group["group_id"]))
        found = [each for each in groups if not wanted or each.get("group_state", "").lower() in wanted]
        if json:
            for each in found:
                say(json_line({name: each.get(key) for name, key in _LISTED.items()}))
        elif found:
            head = ("group", "state", "kind")
            rows = [tuple(in_line(cell(each.get(_LISTED[name]))) for name in head) for each in found]
            for text in columns([head, *rows]):
                say(text)

    carry_out(context, work, writes=False)


@group_app.command("describe")
def describe_command(context: typer.Context, group: GroupArgument, json: JsonOption = False) -> None:
    """Print what a group has committed, how far it lags, and its members."""

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            classic = described(brokers, admin, group)
            found = _of_classic(classic) if classic is not None else _of_consumers(brokers, admin, group)
            committed = committed_of(brokers, admin, group)
        lines = list(_lines(group, found, committed))
        for text in map(json_line, lines) if json else _text_of(lines):
            say(text)

    carry_out(context, work, writes=False)


def _of_classic(found: dict[str, Any]) -> dict[str, Any]:
    """A group of JoinGroup's protocol, in the form that both have here."""
    return {
        "state": found["group_state"],
        "kind": "classic",
        "protocol": found["protocol_type"],
        "assignor": found["protocol_data"] or None,
        "epoch": None,
        "target_epoch": None,
        "members": [
            {
                "member": member["member_id"],
                "instance": member.get("group_instance_id"),
                "client": member["client_id"],
                "host": member["client_host"],
                "kind": "classic",
                "epoch": None,
                "topics": _subscribed(member),
                "regex": None,
                "assigned": _assigned(member),
                "target": None,
            }
            for member in found["members"]
        ],
    }


def _of_consumers(brokers: Brokers, admin: Any, group: str) -> dict[str, Any]:
    """A group of KIP-848. Raises RefusedError, also for a group that does not exist."""
    found = described_consumer_group(brokers, admin, group)
    return {
        "state": found["group_state"],
        "kind": "consumer",
        "protocol": "consumer",
        "assignor": found["assignor_name"] or None,
        "epoch": found["group_epoch"],
        "target_epoch": found["assignment_epoch"],
        "members": [
            {
                "member": member["member_id"],
                "instance": member["instance_id"],
                "client": member["client_id"],
                "host": member["client_host"],
                "kind": MEMBER_TYPES.get(member.get("member_type", -1)),
                "epoch": member["member_epoch"],
                "topics": sorted(member["subscribed_topic_names"]),
                "regex": member["subscribed_topic_regex"] or None,
                "assigned": partitions_of(member["assignment"]),
                "target": partitions_of(member["target_assignment"]),
            }
            for member in sorted(found["members"], key=lambda member: str(member["member_id"]))
        ],
    }


def _lines(group: str, found: dict[str, Any], committed: dict[tuple[str, int], Committed]) -> Iterator[dict[str, Any]]:
    """The lines of JSON: one for the group, one for each member, one for each partition."""
    members = found["members"]
    lags = [each.lag for each in committed.values() if each.lag is not None]
    lag = sum(lags) if lags else None
    yield {"type": "group", "group": group, **found, "members": len(members), "lag": lag}
    owners: dict[tuple[str, int], dict[str, Any]] = {}
    for member in members:
        places = [(topic, partition) for topic, each in member["assigned"].items() for partition in each]
        owners.update((place, member) for place in places)
        yield {"type": "member", "group": group, **member, "partitions": len(places)}
    nothing = Committed(None, None)
    for topic, partition in sorted(committed.keys() | owners.keys()):
        one, owner = committed.get((topic, partition), nothing), owners.get((topic, partition))
        yield {
            "type": "partition",
            "group": group,
            "topic": topic,
            "partition": partition,
            "committed": one.offset,
            "end": one.end,
            "lag": one.lag,
            "member": None if owner is None else owner["member"],
            "host": None if owner is None else owner["host"],
        }


def _assigned(member: dict[str, Any]) -> dict[str, list[int]]:
    """What the member's assignment says; nothing where the library does not know its protocol."""
    assignment = member.get("member_assignment")
    if not isinstance(assignment, dict):
        return {}
    return {each["topic"]: sorted(each["partitions"]) for each in assignment.get("assigned_partitions") or ()}


def _subscribed(member: dict[str, Any]) -> list[str]:
    metadata = member.get("member_metadata")
    return sorted(metadata.get("topics") or ()) if isinstance(metadata, dict) else []


def _text_of(lines: list[dict[str, Any]]) -> Iterator[str]:
    table = []
    for line in lines:
        if line["type"] == "group":
            counts = f"{count_of(line['members'], 'member')}, lag {cell(line['lag'])}"
            epochs = "" if line["epoch"] is None else f", epoch {line['epoch']}, target of epoch {line['target_epoch']}"
            yield in_line(f"{line['group']}: {line['state']}, {counts}{epochs}")
        elif line["type"] == "member":
            yield in_line(f"  {line['member']}: {_text_of_member(line)}")
        else:
            table.append(tuple(in_line(cell(line[key])) for key in _HEAD))
    if table:
        yield from columns([_HEAD, *table])


def _text_of_member(line: dict[str, Any]) -> str:
    said = [f"client {line['client']} at {line['host']}", count_of(line["partitions"], "partition")]
    if line["epoch"] is not None:
        topics = [*line["topics"], *([f"regex {line['regex']}"] if line["regex"] else [])]
        said += [f"epoch {line['epoch']}", f"subscribes to {', '.join(topics) or 'nothing'}"]
        if line["kind"] == "classic":
            said.append("classic protocol")
        if line["target"] != line["assigned"]:
            said.append(f"is to have {sum(map(len, line['target'].values()))}")
    return ", ".join(said)


@group_app.command("delete")
def delete_command(context: typer.Context, group: GroupArgument, json: JsonOption = False) -> None:
    """Delete a group without members, with all that it has committed."""

    def work(brokers: Brokers) -> None:
        from kafka import errors

        with brokers.admin() as admin:
            # The library tells the name of its class for the error.
            kind = brokers.patiently(lambda: admin.delete_groups([group]))[group]
        if kind not in ("OK", "NoError"):
            raise RefusedError(group, getattr(getattr(errors, kind, None), "errno", ErrorCode.UNKNOWN_SERVER_ERROR))
        say(json_line({"group": group}) if json else f"Deleted {group}")

    carry_out(context, work)


group_app.command("reset")(reset_command)
