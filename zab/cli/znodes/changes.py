"""`zab changes`: the changes in the tree, one line each, after any zxid from which on the servers have the log.

    CREATED /app/a zxid=0x100000005 part=0 time=2026-11-20T22:00:16.123Z session=0x1000… version=0 data="hello"

Data is a JSON string, with escapes if it is not UTF-8, and `null` if there is none. So a change is always one line.
With `--json` it is an object (docs/reference/json.md).

The first line on standard error says after which zxid it begins. `--since` with that zxid, or with the one of the last
line printed, continues from there.

With `--to-topic` they become records instead (`zab.cli.brokers.change_feed`, which is loaded then), and with `--to-log`
entries of a managed ledger (`zab.cli.ledger.change_log`), in which `--from-log` goes on where servers have no log any
more.
"""

import json as json_module
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zab.cli.commands import CHANGE_LOG, PUBLICATION
from zab.cli.json_form import JsonOption, hexadecimal, json_line, time_text
from zab.cli.moments import parse_zxid
from zab.cli.terminal import on_terminal, say
from zab.cli.znodes.caller import perform
from zab.cli.znodes.json_values import change_fields
from zab.cli.znodes.options import resolve_path
from zab.client import Change, ChangeKind, Client

__all__ = ["Values", "change_line", "changes_command"]

_TOPIC: Final = "To a topic"
_LOG: Final = "To and from a log"
_ROOT: Final = "/ledgers"


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
_ToLog = Annotated[
    str | None,
    typer.Option(
        "--to-log",
        metavar="LOG",
        help="Append the changes to a managed ledger, each exactly once.",
        rich_help_panel=_LOG,
    ),
]
_FromLog = Annotated[
    str | None,
    typer.Option(
        "--from-log",
        metavar="LOG",
        help="Read changes that servers no longer have from this managed ledger.",
        rich_help_panel=_LOG,
    ),
]
_Root = Annotated[
    str, typer.Option("--root", metavar="PATH", help="The znode that ledgers are below.", rich_help_panel=_LOG)
]
_PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="The log's password is in this file.",
        show_default=False,
        rich_help_panel=_LOG,
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
    to_log: _ToLog = None,
    from_log: _FromLog = None,
    root: _Root = _ROOT,
    password_file: _PasswordFile = None,
    json: JsonOption = False,
) -> None:
    """With --to-topic or --to-log it goes on where the feed has ended; --since is only where a new one begins."""
    start = None if since is None else parse_zxid(since, "--since")
    targets = {"--to-topic": to_topic, "--to-log": to_log, "--from-log": from_log}
    given = [option for option, target in targets.items() if target is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"it does not go together with {given[0]}", param_hint=given[1])
    if json and (to_topic or to_log) is not None:
        raise typer.BadParameter(
            f"{'records' if to_log is None else 'entries'} have JSON without it", param_hint="--json"
        )
    if to_topic is None and (feed is not None or values is not Values.JSON):
        raise typer.BadParameter("it needs --to-topic", param_hint="--values" if feed is None else "--feed")
    if to_log is None and from_log is None and (root != _ROOT or password_file is not None):
        raise typer.BadParameter(
            "it needs --to-log or --from-log", param_hint="--root" if password_file is None else "--password-file"
        )
    if to_topic is not None:
        wanted = PUBLICATION.load()(
            topic=to_topic,
            feed=f"zab-changes-{to_topic}" if feed is None else feed,
            prefix=prefix,
            since=start,
            count=count,
            has_bare_data=values is Values.DATA,
        )
        wanted.publish(context)
        return
    show = _shower(prefix, count, json=json)
    if to_log is None and from_log is None:
        perform(context, lambda zk, _caller: _follow(zk, prefix, start, show))
        return
    log = CHANGE_LOG.load()(log=to_log or from_log, root=root, password_file=password_file)
    if to_log is not None:
        log.keep(context, prefix=prefix, since=start, count=count)
    else:
        log.follow(context, prefix=prefix, since=start, show=show)


async def _follow(zk: Client, prefix: str, since: int | None, show: Callable[[Any], Awaitable[None]]) -> None:
    if since is None:
        await zk.sync()
        since = zk.last_zxid
    await show(zk.changes(since, prefix))


def _shower(prefix: str, count: int | None, *, json: bool) -> Callable[[Any], Awaitable[None]]:
    """Prints changes, so many at most."""

    async def show(changes: Any) -> None:
        say(f"following {prefix} from {changes.place.zxid:#x}", sys.stderr, flush=True)
        seen = 0
        async for change in changes:
            say(json_line(change_fields(change)) if json else change_line(change), flush=True)
            seen += 1
            if seen == count:
                return

    return show


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
