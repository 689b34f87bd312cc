"""`zab acl get` and `zab acl set`."""

from typing import Annotated

import typer

from zab.cli.json_form import JsonOption, json_line
from zab.cli.rendering import acl_text, stat_text
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import acl_value, stat_value
from zab.cli.znodes.lockout import ForceOption, refuse_lockout
from zab.cli.znodes.options import ACL_HELP, PathArgument, StatOption, acl_of
from zab.cli.znodes.subtree import set_subtree_acl
from zab.cli.znodes.versions import names_versions
from zab.client import Client

__all__ = ["acl_app"]

acl_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@acl_app.command("get")
def acl_get_command(
    context: typer.Context, path: PathArgument, stat: StatOption = False, json: JsonOption = False
) -> None:
    """Print a znode's ACL."""

    async def work(zk: Client, _caller: Caller) -> None:
        acl, found = await zk.get_acl(path)
        if json:
            say(json_line({"path": path, "acl": acl_value(acl), "stat": stat_value(found)}))
            return
        say(acl_text(acl))
        if stat:
            say(stat_text(found))

    perform(context, work)


@acl_app.command("set")
def acl_set_command(
    context: typer.Context,
    path: PathArgument,
    acl: Annotated[str, typer.Argument(metavar="ACL", help=ACL_HELP)],
    version: Annotated[int, typer.Option("-v", "--version", help="Only this version of the ACL; -1 is any.")] = -1,
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Include all descendants.")] = False,
    stat: StatOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Change a znode's ACL. One that gives you no permission, or nobody ADMIN, is refused without --force."""
    entries = acl_of(acl)

    async def work(zk: Client, _caller: Caller) -> None:
        if not force:
            await refuse_lockout(zk, entries)
        if recursive:
            count = await set_subtree_acl(zk, path, entries, version)
            if json:
                say(json_line({"path": path, "count": count, "stat": None}))
            return
        async with names_versions(zk, path, version, of_acl=True):
            changed = await zk.set_acl(path, entries, version)
        if json:
            say(json_line({"path": path, "count": 1, "stat": stat_value(changed)}))
        elif stat:
            say(stat_text(changed))

    perform(context, work)
