"""`zab wait`: until a znode exists, is gone, has certain data, or changes.

    0    the condition is met
    124  it was not met within --timeout
    1    refused, 2 wrong usage, 3 no server reachable, or the session is over

It does not poll: each read sets a watch, and the next read follows when it fires. When the connection is lost, the
client sets the watch again at the next server, which reports a change made meanwhile; so the wait lasts as long as the
session. A condition that is met only briefly, between two reads, may be missed.
"""

import base64
import binascii
import os
from typing import Annotated

import typer

from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, next_change, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.options import PathArgument
from zab.client import Client, NoNodeError, Stat, Watcher
from zab.client.znodes import Znodes

__all__ = ["wait_command"]


def wait_command(
    context: typer.Context,
    path: PathArgument,
    exists: Annotated[bool, typer.Option("--exists", help="Until it exists.")] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Until it does not exist.")] = False,
    equals: Annotated[str | None, typer.Option("--equals", metavar="DATA", help="Until it has this data.")] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Until its data is changed, or it is created or deleted.")
    ] = False,
    version: Annotated[
        int | None, typer.Option("-v", "--version", min=0, help="With --changes: since this version of the data.")
    ] = None,
    is_base64: Annotated[bool, typer.Option("-b", "--base64", help="DATA of --equals is base64.")] = False,
    json: JsonOption = False,
) -> None:
    """Say which with one of --exists, --gone, --equals, --changes; how long with --timeout."""
    if (exists, gone, changes, equals is not None).count(True) != 1:
        raise typer.BadParameter("give one of --exists, --gone, --equals, --changes")
    if version is not None and not changes:
        raise typer.BadParameter("--version belongs to --changes")
    wanted = None if equals is None else _data_of(equals, is_base64)

    async def work(zk: Client, caller: Caller) -> None:
        watcher = zk.watcher()
        try:
            stat = await _wait(zk, caller, watcher)
        finally:
            watcher.close()
        if json:
            say(json_line({"path": path, "stat": None if stat is None else stat_value(stat)}))

    async def _wait(zk: Client, caller: Caller, watcher: Watcher) -> Stat | None:
        reading = zk.retrying()
        first: Stat | None = None
        is_first = True
        while True:
            stat, data = await _look(reading, path, watcher, with_data=wanted is not None)
            if is_first:
                first, is_first = stat, False
            is_so = (
                (exists and stat is not None)
                or (gone and stat is None)
                or (wanted is not None and stat is not None and (data or b"") == wanted)
                or (changes and _is_other(stat, first, version))
            )
            if is_so:
                return stat
            await next_change(watcher, caller)

    perform(context, work)


def _data_of(text: str, is_base64: bool) -> bytes:
    if not is_base64:
        return os.fsencode(text)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise typer.BadParameter(f"not base64: {error}", param_hint="--equals") from None


def _is_other(stat: Stat | None, first: Stat | None, version: int | None) -> bool:
    """Than what it was, or than this version."""
    if version is not None:
        return stat is None or stat.version != version
    if stat is None or first is None:
        return stat is not first
    return (stat.czxid, stat.mzxid) != (first.czxid, first.mzxid)


async def _look(zk: Znodes, path: str, watcher: Watcher, *, with_data: bool) -> tuple[Stat | None, bytes | None]:
    """The current state. The watcher is told of the next change."""
    while True:
        stat = await zk.exists(path, watch=watcher)
        if stat is None or not with_data:
            return stat, None
        try:
            data, stat = await zk.get(path, watch=watcher)
        except NoNodeError:
            continue
        return stat, data
