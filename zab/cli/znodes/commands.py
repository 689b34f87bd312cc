"""The commands that talk to servers: one function each, with the options of ZooKeeper's shell where it has them.

Each prints its answer on standard output, with `--json` as one JSON object per line. `-w` leaves a one-shot watch: on
the command line the command then waits for its event, in the shell the event is printed when it comes.

A function only says what to do on a client and what to print; `perform` finds the client, the errors and the exit code.
"""

import base64
import binascii
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.cli.rendering import acl_text, data_text, event_line, json_data, json_event, json_line, stat_text
from zab.cli.znodes import quotas
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.subtree import DELETE_BATCH_COUNT, delete_subtree, set_subtree_acl, walk
from zab.client import OPEN_ACL, Acl, Client, NoNodeError, parse_acl

__all__ = [
    "acl_app",
    "config_command",
    "count_command",
    "create_command",
    "delete_command",
    "ephemerals_command",
    "get_command",
    "ls_command",
    "quota_app",
    "set_command",
    "stat_command",
    "sync_command",
    "watch_command",
    "whoami_command",
]

PathArgument = Annotated[str, typer.Argument(metavar="PATH", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StatOption = Annotated[bool, typer.Option("-s", "--stat", help="Print the stat too.")]
WatchOption = Annotated[bool, typer.Option("-w", "--watch", help="Leave a watch for one event.")]
VersionOption = Annotated[int, typer.Option("-v", "--version", help="Only this version; -1 is any.")]
Base64Option = Annotated[bool, typer.Option("-b", "--base64", help="DATA is base64.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Take the data from this file; - is standard input.")]

STDIN: Final = Path("-")


def _data(text: str | None, file: Path | None, is_base64: bool) -> bytes | None:
    """The data that the arguments name; None without any."""
    if file is not None and text is not None:
        raise typer.BadParameter("give either DATA or --file")
    if file is not None:
        try:
            data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--file") from error
    elif text is None:
        return None
    else:
        # surrogateescape: bytes of the command line that are not UTF-8 arrive in this form.
        data = text.encode("utf-8", "surrogateescape")
    if not is_base64:
        return data
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise typer.BadParameter(f"not base64: {error}", param_hint="DATA") from error


def _acl(text: str) -> tuple[Acl, ...]:
    try:
        return parse_acl(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ACL") from error


def create_command(
    context: typer.Context,
    path: PathArgument,
    data: Annotated[str | None, typer.Argument(metavar="DATA", show_default=False)] = None,
    acl: Annotated[str | None, typer.Argument(metavar="ACL", help="scheme:id:cdrwa,…", show_default=False)] = None,
    sequence: Annotated[bool, typer.Option("-s", "--sequence", help="Append ten digits that count up.")] = False,
    ephemeral: Annotated[bool, typer.Option("-e", "--ephemeral", help="Gone with the session.")] = False,
    container: Annotated[bool, typer.Option("-c", "--container", help="Gone once its last child is.")] = False,
    ttl_ms: Annotated[int | None, typer.Option("-t", "--ttl", metavar="MS", help="Gone unless changed.")] = None,
    is_base64: Base64Option = False,
    file: FileOption = None,
    parents: Annotated[bool, typer.Option("-p", "--parents", help="Create missing parents too.")] = False,
    json: JsonOption = False,
) -> None:
    """Create a znode."""
    content = _data(data, file, is_base64)
    entries = OPEN_ACL if acl is None else _acl(acl)

    async def work(zk: Client, _caller: Caller) -> None:
        if parents:
            await _create_parents(zk, path)
        created, stat = await zk.create2(
            path, content, entries, ephemeral=ephemeral, sequence=sequence, container=container, ttl_ms=ttl_ms
        )
        print(json_line({"path": created, "stat": stat}) if json else f"Created {created}")

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
    """Print a znode's data."""

    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        data, found = await zk.get(path, watch=watcher)
        if raw:
            sys.stdout.flush()
            sys.stdout.buffer.write(data or b"")
        elif json:
            print(json_line({"path": path, **json_data(data), "stat": found}))
        elif as_base64:
            print(base64.b64encode(data or b"").decode())
        elif as_hex:
            print((data or b"").hex(" "))
        else:
            print(data_text(data))
        if stat and not json:
            print(stat_text(found))
        if watcher is not None:
            await caller.follow(watcher)

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
    """Change a znode's data."""
    content = _data(data, file, is_base64)
    if content is None:
        raise typer.BadParameter("give DATA or --file")

    async def work(zk: Client, _caller: Caller) -> None:
        changed = await zk.set(path, content, version)
        if json:
            print(json_line({"path": path, "stat": changed}))
        elif stat:
            print(stat_text(changed))

    perform(context, work)


def delete_command(
    context: typer.Context,
    path: PathArgument,
    version: VersionOption = -1,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="All below it too.")] = False,
    batch_count: Annotated[
        int, typer.Option("-b", "--batch", min=1, help="Znodes per transaction of --recursive.")
    ] = DELETE_BATCH_COUNT,
) -> None:
    """Delete a znode, or a whole subtree."""
    if recursive and version != -1:
        raise typer.BadParameter("--version is of one znode, --recursive of many")

    async def work(zk: Client, _caller: Caller) -> None:
        if recursive:
            await delete_subtree(zk, path, batch_count)
        else:
            await zk.delete(path, version)

    perform(context, work)


def ls_command(
    context: typer.Context,
    path: PathArgument = "/",
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="The paths of the whole subtree.")] = False,
    stat: StatOption = False,
    watch: WatchOption = False,
    one_per_line: Annotated[bool, typer.Option("-1", help="One name per line.")] = False,
    json: JsonOption = False,
) -> None:
    """List a znode's children."""
    if recursive and watch:
        raise typer.BadParameter("-w is of one znode; zab watch --recursive watches many")

    async def work(zk: Client, caller: Caller) -> None:
        if recursive:
            paths = sorted(await walk(zk, path))
            print(json_line({"path": path, "paths": paths}) if json else "\n".join(paths))
            return
        watcher = caller.watcher(zk) if watch else None
        names, found = await zk.get_children2(path, watch=watcher)
        if json:
            print(json_line({"path": path, "children": names, "stat": found}))
        elif not one_per_line:
            print(f"[{', '.join(names)}]")
        elif names:
            print("\n".join(names))
        if stat and not json:
            print(stat_text(found))
        if watcher is not None:
            await caller.follow(watcher)

    perform(context, work)


def stat_command(
    context: typer.Context, path: PathArgument, watch: WatchOption = False, json: JsonOption = False
) -> None:
    """Print a znode's stat."""

    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        found = await zk.exists(path, watch=watcher)
        if found is None and watcher is None:
            raise NoNodeError(path)
        if found is not None:
            print(json_line({"path": path, "stat": found}) if json else stat_text(found))
        if watcher is not None:
            await caller.follow(watcher)

    perform(context, work)


def watch_command(
    context: typer.Context,
    path: PathArgument,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Every znode below it too.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many events.")] = None,
    json: JsonOption = False,
) -> None:
    """Print changes as they happen, until Ctrl-C."""

    async def work(zk: Client, _caller: Caller) -> None:
        async with zk.watch(path, recursive=recursive) as events:
            print(f"watching {path}", file=sys.stderr, flush=True)
            seen = 0
            async for event in events:
                print(json_line(json_event(event)) if json else event_line(event), flush=True)
                seen += 1
                if seen == count:
                    return

    perform(context, work)


acl_app = typer.Typer(help="Who may do what with a znode.", no_args_is_help=True, rich_markup_mode=None)


@acl_app.command("get")
def acl_get_command(
    context: typer.Context, path: PathArgument, stat: StatOption = False, json: JsonOption = False
) -> None:
    """Print a znode's ACL."""

    async def work(zk: Client, _caller: Caller) -> None:
        acl, found = await zk.get_acl(path)
        print(json_line({"path": path, "acl": acl, "stat": found}) if json else acl_text(acl))
        if stat and not json:
            print(stat_text(found))

    perform(context, work)


@acl_app.command("set")
def acl_set_command(
    context: typer.Context,
    path: PathArgument,
    acl: Annotated[str, typer.Argument(metavar="ACL", help="scheme:id:cdrwa,…")],
    version: Annotated[int, typer.Option("-v", "--version", help="Only this version of the ACL; -1 is any.")] = -1,
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Of all below it too.")] = False,
    stat: StatOption = False,
) -> None:
    """Change a znode's ACL."""
    entries = _acl(acl)

    async def work(zk: Client, _caller: Caller) -> None:
        if recursive:
            await set_subtree_acl(zk, path, entries, version)
            return
        changed = await zk.set_acl(path, entries, version)
        if stat:
            print(stat_text(changed))

    perform(context, work)


def sync_command(context: typer.Context, path: PathArgument = "/") -> None:
    """Wait until the server has applied all that was acknowledged before."""

    async def work(zk: Client, _caller: Caller) -> None:
        await zk.sync(path)

    perform(context, work)


def whoami_command(context: typer.Context, json: JsonOption = False) -> None:
    """Print whom the server takes this client for."""

    async def work(zk: Client, _caller: Caller) -> None:
        identities = sorted(await zk.who_am_i())
        if json:
            print(json_line({"identities": identities}))
            return
        print("Auth scheme: User")
        for identity in identities:
            print(f"{identity.scheme}: {identity.user}")

    perform(context, work)


def ephemerals_command(context: typer.Context, prefix: PathArgument = "/", json: JsonOption = False) -> None:
    """List this session's ephemerals; one command's own session has none but those of the shell."""

    async def work(zk: Client, _caller: Caller) -> None:
        paths = await zk.get_ephemerals(prefix)
        print(json_line({"paths": paths}) if json else f"[{', '.join(paths)}]")

    perform(context, work)


def count_command(context: typer.Context, path: PathArgument = "/") -> None:
    """Print how many descendants a znode has."""

    async def work(zk: Client, _caller: Caller) -> None:
        print(await zk.get_all_children_number(path))

    perform(context, work)


def config_command(context: typer.Context, stat: StatOption = False, watch: WatchOption = False) -> None:
    """Print the ensemble's configuration."""

    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        data, found = await zk.get_config(watch=watcher)
        print(data_text(data))
        if stat:
            print(stat_text(found))
        if watcher is not None:
            await caller.follow(watcher)

    perform(context, work)


quota_app = typer.Typer(help="Limits on subtrees.", no_args_is_help=True, rich_markup_mode=None)


def _limit(options: dict[str, int | None]) -> tuple[str, int]:
    given = [(kind, limit) for kind, limit in options.items() if limit is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of -n, -b, -N, -B")
    return given[0]


@quota_app.command("set")
def quota_set_command(
    context: typer.Context,
    path: PathArgument,
    count: Annotated[int | None, typer.Option("-n", metavar="COUNT", min=-1, help="Znodes; only logged.")] = None,
    size_bytes: Annotated[int | None, typer.Option("-b", metavar="BYTES", min=-1, help="Data; only logged.")] = None,
    hard_count: Annotated[int | None, typer.Option("-N", metavar="COUNT", min=-1, help="Znodes; enforced.")] = None,
    hard_bytes: Annotated[int | None, typer.Option("-B", metavar="BYTES", min=-1, help="Data; enforced.")] = None,
) -> None:
    """Set one limit of a subtree."""
    kind, limit = _limit({"n": count, "b": size_bytes, "N": hard_count, "B": hard_bytes})

    async def work(zk: Client, _caller: Caller) -> None:
        await quotas.set_quota(zk, path, kind, limit)

    perform(context, work)


@quota_app.command("list")
def quota_list_command(context: typer.Context, path: PathArgument, json: JsonOption = False) -> None:
    """Print the limits of a subtree and what it holds."""

    async def work(zk: Client, _caller: Caller) -> None:
        limits, sums = await quotas.read_quota(zk, path)
        if json:
            print(json_line({"path": path, "limits": limits, "sums": sums}))
            return
        print(f"absolute path is /zookeeper/quota{path}/zookeeper_limits")
        print(f"Output quota for {path} {limits}")
        print(f"Output stat for {path} {sums}")

    perform(context, work)


@quota_app.command("delete")
def quota_delete_command(
    context: typer.Context,
    path: PathArgument,
    count: Annotated[bool, typer.Option("-n", help="Only the limit on znodes that is logged.")] = False,
    size_bytes: Annotated[bool, typer.Option("-b", help="Only the limit on data that is logged.")] = False,
    hard_count: Annotated[bool, typer.Option("-N", help="Only the limit on znodes that is enforced.")] = False,
    hard_bytes: Annotated[bool, typer.Option("-B", help="Only the limit on data that is enforced.")] = False,
) -> None:
    """Remove a subtree's quota, or one of its limits."""
    given = {"n": count, "b": size_bytes, "N": hard_count, "B": hard_bytes}
    kinds = [kind for kind, is_given in given.items() if is_given]
    if len(kinds) > 1:
        raise typer.BadParameter("give one of -n, -b, -N, -B, or none")

    async def work(zk: Client, _caller: Caller) -> None:
        await quotas.delete_quota(zk, path, kinds[0] if kinds else None)

    perform(context, work)
