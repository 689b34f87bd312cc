"""The commands on one znode, or on its whole subtree.

Each says only what to do on a client and what to print: on standard output, with `--json` as one JSON object per line.
`perform` handles the client, the errors and the exit code.

`-w` sets a one-shot watch. On the command line the command then waits for its event. In the shell the event is printed
when it comes.
"""

import base64
import shlex
import sys
from typing import Annotated

import typer

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import REFUSED
from zab.cli.json_form import JsonOption, data_fields, json_line
from zab.cli.progress import progress
from zab.cli.rendering import event_line, stat_text
from zab.cli.terminal import say, say_data
from zab.cli.znodes.caller import Caller, next_change, perform
from zab.cli.znodes.json_values import event_fields, stat_value
from zab.cli.znodes.lockout import ForceOption, refuse_lockout
from zab.cli.znodes.options import (
    ACL_HELP,
    Base64Option,
    FileOption,
    PathArgument,
    StatOption,
    VersionOption,
    WatchOption,
    acl_of,
    data_of,
    tell_unread_input,
)
from zab.cli.znodes.subtree import DELETE_BATCH_COUNT, delete_subtree, walk
from zab.cli.znodes.versions import names_versions
from zab.client import OPEN_ACL, ChildrenPage, Client, NoAuthError, NoNodeError
from zab.client.znodes import PAGE_COUNT

__all__ = [
    "count_command",
    "create_command",
    "delete_command",
    "get_command",
    "ls_command",
    "set_command",
    "stat_command",
    "watch_command",
]


def create_command(
    context: typer.Context,
    path: PathArgument,
    data: Annotated[str | None, typer.Argument(metavar="DATA", show_default=False)] = None,
    acl: Annotated[str | None, typer.Argument(metavar="ACL", help=ACL_HELP, show_default=False)] = None,
    sequence: Annotated[bool, typer.Option("-s", "--sequence", help="Append a sequence number of ten digits.")] = False,
    ephemeral: Annotated[bool, typer.Option("-e", "--ephemeral", help="Delete it when the session ends.")] = False,
    container: Annotated[
        bool, typer.Option("-c", "--container", help="Delete it after its last child is deleted.")
    ] = False,
    ttl_ms: Annotated[
        int | None, typer.Option("-t", "--ttl", metavar="MS", help="Delete it if it is not changed for this long.")
    ] = None,
    is_base64: Base64Option = False,
    file: FileOption = None,
    parents: Annotated[bool, typer.Option("-p", "--parents", help="Create missing parents too.")] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if it exists. Off by default on servers.")
    ] = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    content = data_of(data, file, is_base64)
    entries = OPEN_ACL if acl is None else acl_of(acl)
    is_alone = isinstance(context.obj, ConnectionOptions)
    if content is None and is_alone:
        tell_unread_input()

    async def work(zk: Client, _caller: Caller) -> None:
        if not force:
            await refuse_lockout(zk, entries)
        if parents:
            await _create_parents(zk, path)
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        if if_not_exists:
            found = await zk.create(path, content, entries, **mode, ttl_ms=ttl_ms, if_not_exists=True)
            say(json_line({"path": found, "stat": None}) if json else f"{found} exists")
            return
        try:
            created, stat = await zk.create2(path, content, entries, **mode, ttl_ms=ttl_ms)
        except NoNodeError as error:
            raise error if parents else NoNodeError(path, detail=f"{error.detail}; -p creates it") from None
        say(json_line({"path": created, "stat": stat_value(stat)}) if json else f"Created {created}")
        if ephemeral and is_alone:
            say("zab: it is deleted now, with the session of this command; zab shell keeps its session", sys.stderr)

    perform(context, work)


async def _create_parents(zk: Client, path: str) -> None:
    above = ""
    for name in path.split("/")[1:-1]:
        above += "/" + name
        if await zk.exists(above) is None:
            await zk.create(above)


def get_command(
    context: typer.Context,
    path: PathArgument,
    stat: StatOption = False,
    watch: WatchOption = False,
    as_base64: Annotated[bool, typer.Option("-b", "--base64", help="Print the data as base64.")] = False,
    as_hex: Annotated[bool, typer.Option("-x", "--hex", help="Print the data as hexadecimal digits.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the bytes and nothing else.")] = False,
    json: JsonOption = False,
) -> None:
    """Text is printed as a line. Other data is written byte for byte, or with escapes to a terminal."""

    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        data, found = await zk.get(path, watch=watcher)
        if raw:
            sys.stdout.flush()
            sys.stdout.buffer.write(data or b"")
        elif json:
            say(json_line({"path": path, **data_fields(data), "stat": stat_value(found)}))
        elif as_base64:
            say(base64.b64encode(data or b"").decode())
        elif as_hex:
            say((data or b"").hex(" "))
        else:
            say_data(data, alone=not stat and watcher is None)
        if stat and not json:
            say(stat_text(found))
        if watcher is not None:
            await caller.follow(watcher, json=json)

    perform(context, work)


def set_command(
    context: typer.Context,
    path: PathArgument,
    data: Annotated[str | None, typer.Argument(metavar="DATA", show_default=False)] = None,
    version: VersionOption = -1,
    stat: StatOption = False,
    is_base64: Base64Option = False,
    file: FileOption = None,
    json: JsonOption = False,
) -> None:
    content = data_of(data, file, is_base64)
    if content is None:
        raise typer.BadParameter("give DATA, or --file, where - is standard input")

    async def work(zk: Client, _caller: Caller) -> None:
        async with names_versions(zk, path, version):
            changed = await zk.set(path, content, version)
        if json:
            say(json_line({"path": path, "stat": stat_value(changed)}))
        elif stat:
            say(stat_text(changed))

    perform(context, work)


def delete_command(
    context: typer.Context,
    path: PathArgument,
    version: VersionOption = -1,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Include all descendants.")] = False,
    batch_count: Annotated[
        int, typer.Option("-b", "--batch", min=1, help="Znodes per transaction of --recursive.")
    ] = DELETE_BATCH_COUNT,
    json: JsonOption = False,
) -> None:
    if recursive and version != -1:
        raise typer.BadParameter("--version applies to one znode, --recursive to many")

    async def work(zk: Client, _caller: Caller) -> None:
        count = 1
        if recursive:
            with progress("deleted") as told:
                count = await delete_subtree(zk, path, batch_count, told.add)
        else:
            async with names_versions(zk, path, version):
                await zk.delete(path, version)
        if json:
            say(json_line({"path": path, "count": count}))

    perform(context, work)


def ls_command(
    context: typer.Context,
    path: PathArgument = "/",
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="List the paths of the whole subtree.")] = False,
    stat: StatOption = False,
    watch: WatchOption = False,
    one_per_line: Annotated[bool, typer.Option("-1", help="One name per line.")] = False,
    page: Annotated[int | None, typer.Option("--page", min=1, metavar="N", help="At most N names.")] = None,
    after: Annotated[str, typer.Option("--after", metavar="NAME", help="Only names after this one.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Only names with this prefix.")] = "",
    json: JsonOption = False,
) -> None:
    if recursive and watch:
        raise typer.BadParameter("-w watches one znode; zab watch --recursive watches many")
    is_paged = page is not None or bool(after) or bool(prefix)
    if is_paged and (recursive or watch):
        raise typer.BadParameter("--page, --after and --prefix apply to the names of one znode, without -R and -w")

    async def work(zk: Client, caller: Caller) -> None:
        if recursive:
            skipped: list[NoAuthError] = []
            paths = sorted(await walk(zk, path, skipped))
            say(json_line({"path": path, "paths": paths}) if json else "\n".join(paths), flush=True)
            for error in skipped:
                say(f"zab: what is below is left out: {error}", sys.stderr)
            if skipped:
                raise typer.Exit(REFUSED)
            return
        watcher = caller.watcher(zk) if watch else None
        has_more = False
        if is_paged:
            names, has_more, found = await _page(zk, path, after, prefix, page)
        else:
            names, found = await zk.get_children2(path, watch=watcher)
        if json:
            more = {} if page is None else {"more": has_more}
            say(json_line({"path": path, "children": names, **more, "stat": stat_value(found)}))
        elif not one_per_line:
            say(f"[{', '.join(names)}]")
        elif names:
            say("\n".join(names))
        if stat and not json:
            say(stat_text(found))
        if has_more and not json:
            say(f"zab: more follow: --after {shlex.quote(names[-1])}", sys.stderr)
        if watcher is not None:
            await caller.follow(watcher, json=json)

    perform(context, work)


async def _page(zk: Client, path: str, after: str, prefix: str, count: int | None) -> ChildrenPage:
    """At most `count` names, or all; a server returns them in parts. The stat is that of the last answer."""
    names: list[str] = []
    while True:
        wanted = PAGE_COUNT if count is None else count - len(names)
        some, has_more, stat = await zk.get_children_page(path, after=after, prefix=prefix, count=wanted)
        names += some
        if not has_more or len(names) == count:
            return ChildrenPage(names, has_more, stat)
        after = some[-1]


def stat_command(
    context: typer.Context, path: PathArgument, watch: WatchOption = False, json: JsonOption = False
) -> None:
    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        found = await zk.exists(path, watch=watcher)
        if found is None and watcher is None:
            raise NoNodeError(path)
        if found is not None:
            say(json_line({"path": path, "stat": stat_value(found)}) if json else stat_text(found))
        if watcher is not None:
            await caller.follow(watcher, json=json)

    perform(context, work)


def watch_command(
    context: typer.Context,
    path: PathArgument,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Include all descendants.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after N events.")] = None,
    json: JsonOption = False,
) -> None:
    """When it loses its server it continues at another one, and says so on standard error: changes made until it is
    connected again are not reported.
    """

    async def work(zk: Client, caller: Caller) -> None:
        async with zk.watch(path, recursive=recursive) as events:
            say(f"watching {path}", sys.stderr, flush=True)
            seen = 0
            while seen != count:
                event = await next_change(events, caller)
                say(json_line(event_fields(event)) if json else event_line(event), flush=True)
                seen += 1

    perform(context, work)


def count_command(context: typer.Context, path: PathArgument = "/", json: JsonOption = False) -> None:
    async def work(zk: Client, _caller: Caller) -> None:
        count = await zk.get_all_children_number(path)
        say(json_line({"path": path, "count": count}) if json else str(count))

    perform(context, work)
