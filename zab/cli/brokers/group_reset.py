"""`zab group reset GROUP --to POSITION`: where a group goes on.

    topic      partition  committed  new  change
    greetings  0          17         3    -14

It shows this plan, and does it with `--execute`, as Kafka's tool does. A group with members is refused: they would
commit over it. The broker refuses them too, so a member that joins meanwhile ends the command with nothing changed.

The topics are those that the group has committed in, or those of `--topic`.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.consumer_groups import members_of
from zab.cli.brokers.group_offsets import committed_of
from zab.cli.brokers.options import GroupArgument, topic_partitions_of
from zab.cli.brokers.positions import POSITION_HELP, parse_position, resolved
from zab.cli.brokers.refusals import RefusedError
from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import count_of, in_line, say
from zab.kafka.errors import ErrorCode

__all__ = ["reset_command"]

_HEAD: Final = ("topic", "partition", "committed", "new", "change")


def reset_command(
    context: typer.Context,
    group: GroupArgument,
    to: Annotated[str, typer.Option("--to", metavar="POSITION", help=POSITION_HELP, show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:PARTITION,…]", help="Only these topics. May be repeated."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Apply the plan. Without it, the plan is only printed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Set what a group without members has committed. An offset that a partition does not have becomes its beginning or
    its end. A group that does not exist is created, if --topic says where.
    """
    position = parse_position(to, "--to")
    wanted = topic_partitions_of(topic)

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            _refuse_members(brokers, admin, group)
            before = {place: one.offset for place, one in committed_of(brokers, admin, group).items()}
            places = _places(brokers, admin, wanted) if wanted else sorted(before)
            if not places:
                detail = "the group has committed nothing; --topic says where it begins"
                raise RefusedError(group, ErrorCode.GROUP_ID_NOT_FOUND, detail)
            after = resolved(admin, places, position)
            for (name, number), offset in sorted(after.items()) if isinstance(position, int) else ():
                if offset != position:
                    say(f"zab: {name}-{number} has no offset {position}; {offset} is the nearest", sys.stderr)
            if execute:
                _commit(brokers, admin, group, after)
        _tell(group, before, after, done=execute, json=json)

    carry_out(context, work, writes=execute)


def _refuse_members(brokers: Brokers, admin: Any, group: str) -> None:
    """Raises RefusedError for a group with members; one that does not exist has none."""
    count = members_of(brokers, admin, group)
    if count:
        detail = f"it has {count_of(count, 'member')}, which would commit over it; stop them first"
        raise RefusedError(group, ErrorCode.NON_EMPTY_GROUP, detail)


def _places(brokers: Brokers, admin: Any, wanted: dict[str, list[int] | None]) -> list[tuple[str, int]]:
    """Raises RefusedError for what does not exist."""
    places = []
    for topic, numbers in wanted.items():
        found = sorted(each["partition_index"] for each in brokers.described(admin, topic)["partitions"])
        for number in found if numbers is None else numbers:
            if number not in found:
                detail = f"the topic has {count_of(len(found), 'partition')}"
                raise RefusedError(f"{topic}-{number}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
            places.append((topic, number))
    return places


def _commit(brokers: Brokers, admin: Any, group: str, after: dict[tuple[str, int], int]) -> None:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in after.items()}
    answer = brokers.patiently(lambda: admin.alter_group_offsets(group, offsets))
    for place, error in sorted(answer.items()):
        if error.errno:
            raise RefusedError(f"{group}, {place.topic}-{place.partition}", error.errno)


def _tell(
    group: str, before: dict[tuple[str, int], int | None], after: dict[tuple[str, int], int], *, done: bool, json: bool
) -> None:
    rows = [
        {"topic": topic, "partition": number, "committed": before.get((topic, number)), "new": offset}
        for (topic, number), offset in sorted(after.items())
    ]
    for row in rows:
        old, new = row["committed"], row["new"]
        row["change"] = None if old is None else new - old  # type: ignore[operator]
    if json:
        for row in rows:
            say(json_line({"group": group, **row, "is_done": done}))
        return
    for text in columns([_HEAD, *(tuple(in_line(cell(row[key])) for key in _HEAD) for row in rows)]):
        say(text)
    say(f"{group}: {count_of(len(rows), 'offset')} {'set' if done else 'would be set; --execute sets them'}")
