"""`zab changes`: the changes in the tree, one line each, after any zxid from which on the servers have the log.

    CREATED /app/a zxid=0x100000005 part=0 time=2026-11-20T22:00:16.123Z session=0x1000… version=0 data="hello"

Data is a JSON string, with escapes if it is not UTF-8, and `null` if there is none. So a change is always one line.
With `--json` it is an object (docs/reference/json.md).

The first line on standard error says after which zxid it begins. `--since` with that zxid, or with the one of the last
line printed, continues from there.

With `--to-topic` they become records instead (`zab.cli.brokers.change_feed`, which is loaded then).
"""

import json as json_module
import sys
from enum import StrEnum
from typing import Annotated, Final

import typer

from zab.cli.commands import PUBLICATION
from zab.cli.json_form import JsonOption, hexadecimal, json_line, time_text
from zab.cli.moments import parse_zxid
from zab.cli.terminal import on_terminal, say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import change_fields
from zab.cli.znodes.options import resolve_path
from zab.client import Change, ChangeKind, Client

__all__ = ["Values", "change_line", "changes_command"]

_TOPIC: Final = "To a topic"


class Values(StrEnum):
    """What the records of changes have as their values."""

    JSON = "json"
    DATA = "data"


_ToTopic = Annotated[
    str | None,
    typer.Option(
        "--to-topic", metavar="TOPIC", help="Append the changes to a topic, each exactly once.", rich_help_panel=_TOPIC
    ),
]
_Feed = Annotated[
    str | None,
    typer.Option(
        "--feed",
        metavar="NAME",
        help="The name under which the topic knows how far it is; zab-changes-TOPIC without it.",
        rich_help_panel=_TOPIC,
    ),
]
_Values = Annotated[
    Values,
    typer.Option(
        "--values", help="The value of records: the change in JSON, or only the data.", rich_help_panel=_TOPIC
    ),
]


def changes_command(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option("--since", metavar="ZXID", help="Include changes after this zxid; 0 means all.")
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix", "-p", metavar="PATH", callback=resolve_path, help="Only this znode and its descendants."
        ),
    ] = "/",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after N changes.")] = None,
    to_topic: _ToTopic = None,
    feed: _Feed = None,
    values: _Values = Values.JSON,
    json: JsonOption = False,
) -> None:
    """With --to-topic it goes on where the feed of this name has ended; --since is only where a new one begins."""
    start = None if since is None else parse_zxid(since, "--since")
    if to_topic is not None:
        if json:
            raise typer.BadParameter("records have JSON without it", param_hint="--json")
        publication = PUBLICATION.load()
        wanted = publication(
            topic=to_topic,
            feed=f"zab-changes-{to_topic}" if feed is None else feed,
            prefix=prefix,
            since=start,
            count=count,
            has_bare_data=values is Values.DATA,
        )
        wanted.publish(context)
        return
    if feed is not None or values is not Values.JSON:
        raise typer.BadParameter("it needs --to-topic", param_hint="--values" if feed is None else "--feed")

    async def work(zk: Client, _caller: Caller) -> None:
        begin = start
        if begin is None:
            await zk.sync()
            begin = zk.last_zxid
        changes = zk.changes(begin, prefix)
        say(f"following {prefix} from {begin:#x}", sys.stderr, flush=True)
        seen = 0
        async for change in changes:
            say(json_line(change_fields(change)) if json else change_line(change), flush=True)
            seen += 1
            if seen == count:
                return

    perform(context, work)


def change_line(change: Change) -> str:
    pairs = [
        f"zxid={change.zxid:#x}",
        f"part={change.part}",
        f"time={time_text(change.time) or f'{change.time}ms'}",
        f"session={hexadecimal(change.session)}",
    ]
    if change.kind is not ChangeKind.DELETED:
        pairs.append(f"version={change.version}")
    if change.ephemeral_owner:
        pairs.append("ephemeral")
    if change.kind.has_data:
        pairs.append(f"data={_text(change.data)}")
    return f"{change.kind.name} {on_terminal(change.path)} {' '.join(pairs)}"


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    return on_terminal(json_module.dumps(data.decode("utf-8", "backslashreplace"), ensure_ascii=False))
