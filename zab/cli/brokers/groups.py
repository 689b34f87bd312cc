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
                say(
                    json_line(
                        {"group": each["group_id"], "state": each.get("group_state"), "protocol": each["protocol_type"]}
                    )
                )
        elif found:
            rows = [(in_line(each["group_id"]), in_line(cell(each.get("group_state")))) for each in found]
            for text in columns([("group", "state"), *rows]):
                say(text)

    carry_out(context, work)


@group_app.command("describe")
def describe_command(context: typer.Context, group: GroupArgument, json: JsonOption = False) -> None:
    """Print what a group has committed, how far it lags, and its members."""

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            found = described(brokers, admin, group)
            committed = committed_of(brokers, admin, group)
        lines = list(_lines(group, found, committed))
        for text in map(json_line, lines) if json else _text_of(lines):
            say(text)

    carry_out(context, work)


def _lines(group: str, found: dict[str, Any], committed: dict[tuple[str, int], Committed]) -> Iterator[dict[str, Any]]:
    """The lines of JSON: one for the group, one for each member, one for each partition."""
    members = found["members"]
    lags = [each.lag for each in committed.values() if each.lag is not None]
    yield {
        "type": "group",
        "group": group,
        "state": found["group_state"],
        "protocol": found["protocol_type"],
        "assignor": found["protocol_data"] or None,
        "members": len(members),
        "lag": sum(lags) if lags else None,
    }
    owners: dict[tuple[str, int], dict[str, Any]] = {}
    for member in members:
        places = list(_assigned(member))
        owners.update((place, member) for place in places)
        yield {
            "type": "member",
            "group": group,
            "member": member["member_id"],
            "instance": member.get("group_instance_id"),
            "client": member["client_id"],
            "host": member["client_host"],
            "partitions": len(places),
        }
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
            "member": None if owner is None else owner["member_id"],
            "host": None if owner is None else owner["client_host"],
        }


def _assigned(member: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """What the member's assignment says; nothing where the library does not know its protocol."""
    assignment = member.get("member_assignment")
    if isinstance(assignment, dict):
        for each in assignment.get("assigned_partitions") or ():
            for partition in each["partitions"]:
                yield each["topic"], partition


def _text_of(lines: list[dict[str, Any]]) -> Iterator[str]:
    table = []
    for line in lines:
        if line["type"] == "group":
            counts = f"{count_of(line['members'], 'member')}, lag {cell(line['lag'])}"
            yield in_line(f"{line['group']}: {line['state']}, {counts}")
        elif line["type"] == "member":
            client = f"client {line['client']} at {line['host']}"
            yield in_line(f"  {line['member']}: {client}, {count_of(line['partitions'], 'partition')}")
        else:
            table.append(tuple(in_line(cell(line[key])) for key in _HEAD))
    if table:
        yield from columns([_HEAD, *table])


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
