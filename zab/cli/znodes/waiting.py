"""`zab wait`: until a znode is there, is gone, has some data, or is another one than it was.

    zab wait /ready --exists --timeout 60 && ./start

Nothing is asked again and again: a one-shot watch is left with each look, and the next look follows its event. A lost
connection changes nothing: the watch goes along to the next server, which tells what was missed.

A look is `exists`, and for the data `get`, which leaves no watch where there is no znode: then `exists` leaves one, and
says whether the znode came in between.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeAlias

import typer

from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, next_change, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.options import Base64Option, PathArgument, data_of
from zab.client import Client, NoNodeError, Stat, Watcher

__all__ = ["wait_command"]

Looked: TypeAlias = tuple[bool, Stat | None]
"""Whether what is waited for is so, and the znode's stat; None where there is none."""
Look: TypeAlias = Callable[[Watcher], Awaitable[Looked]]

_CONDITIONS: Final = "--exists, --gone, --equals and --changes"


def wait_command(
    context: typer.Context,
    path: PathArgument,
    exists: Annotated[bool, typer.Option("--exists", help="Until it is there.")] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Until it is not there.")] = False,
    equals: Annotated[
        str | None, typer.Option("--equals", metavar="DATA", help="Until this is its data.", show_default=False)
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Until its data is set, or it comes or goes, from now on.")
    ] = False,
    is_base64: Base64Option = False,
    json: JsonOption = False,
) -> None:
    """It goes on at another server when it loses its own, and says so on standard error.

    Exit codes: 0 it is so, 3 no server could be reached or the session is lost, 124 the time of --timeout is over.
    """
    if [exists, gone, equals is not None, changes].count(True) != 1:
        raise typer.BadParameter(f"give one of {_CONDITIONS}")
    if is_base64 and equals is None:
        raise typer.BadParameter("--base64 says how the data of --equals is written")
    wanted = data_of(equals, None, is_base64) or b""

    async def work(zk: Client, caller: Caller) -> None:
        if equals is not None:
            look = _data_is(zk, path, wanted)
        elif changes:
            look = _differs(zk, path)
        else:
            look = _is_there(zk, path, exists)
        stat = await _wait(zk, path, look, caller)
        if json:
            say(json_line({"path": path, "stat": None if stat is None else stat_value(stat)}))

    perform(context, work)


def _is_there(zk: Client, path: str, wanted: bool) -> Look:
    async def look(watcher: Watcher) -> Looked:
        stat = await zk.retrying().exists(path, watch=watcher)
        return (stat is not None) == wanted, stat

    return look


def _data_is(zk: Client, path: str, wanted: bytes) -> Look:
    """Data that is null is as good as none."""

    async def look(watcher: Watcher) -> Looked:
        while True:
            try:
                data, stat = await zk.retrying().get(path, watch=watcher)
                return (data or b"") == wanted, stat
            except NoNodeError:
                if await zk.retrying().exists(path, watch=watcher) is None:
                    return False, None

    return look


def _differs(zk: Client, path: str) -> Look:
    """From the first look on. A znode that was deleted and created again is another one."""
    first: list[tuple[int, int] | None] = []

    async def look(watcher: Watcher) -> Looked:
        stat = await zk.retrying().exists(path, watch=watcher)
        now = None if stat is None else (stat.czxid, stat.mzxid)
        if not first:
            first.append(now)
        return now != first[0], stat

    return look


async def _wait(zk: Client, path: str, look: Look, caller: Caller) -> Stat | None:
    """The stat of the znode when it was so."""
    watcher = zk.watcher()
    try:
        is_so, stat = await look(watcher)
        if not is_so:
            say(f"waiting for {path}", sys.stderr, flush=True)
        while not is_so:
            await next_change(watcher, caller)
            is_so, stat = await look(watcher)
        return stat
    finally:
        watcher.close()
