"""The commands about the session (its ephemerals, its identities, `sync`) and about its ensemble."""

from typing import Final

import typer

from zab.cli.json_form import JsonOption, data_fields, hexadecimal, json_line
from zab.cli.rendering import stat_text
from zab.cli.terminal import in_line, say, say_data
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.options import PathArgument, StatOption, WatchOption
from zab.client import Client

__all__ = ["config_command", "ephemerals_command", "sync_command", "whoami_command"]

_CONFIG_PATH: Final = "/zookeeper/config"


def sync_command(context: typer.Context, path: PathArgument = "/", json: JsonOption = False) -> None:
    async def work(zk: Client, _caller: Caller) -> None:
        await zk.sync(path)
        if json:
            say(json_line({"path": path, "zxid": hexadecimal(zk.last_zxid)}))

    perform(context, work)


def whoami_command(context: typer.Context, json: JsonOption = False) -> None:
    async def work(zk: Client, _caller: Caller) -> None:
        identities = sorted(await zk.who_am_i())
        if json:
            say(json_line({"identities": [identity._asdict() for identity in identities]}))
            return
        say("Auth scheme: User")
        for identity in identities:
            say(f"{in_line(identity.scheme)}: {in_line(identity.user)}")

    perform(context, work)


def ephemerals_command(context: typer.Context, prefix: PathArgument = "/", json: JsonOption = False) -> None:
    """For the shell: the session of a single command has no ephemerals."""

    async def work(zk: Client, _caller: Caller) -> None:
        paths = await zk.get_ephemerals(prefix)
        say(json_line({"path": prefix, "paths": paths}) if json else f"[{', '.join(paths)}]")

    perform(context, work)


def config_command(
    context: typer.Context, stat: StatOption = False, watch: WatchOption = False, json: JsonOption = False
) -> None:
    async def work(zk: Client, caller: Caller) -> None:
        watcher = caller.watcher(zk) if watch else None
        data, found = await zk.get_config(watch=watcher)
        if json:
            say(json_line({"path": _CONFIG_PATH, **data_fields(data), "stat": stat_value(found)}))
        else:
            say_data(data, alone=not stat and watcher is None)
        if stat and not json:
            say(stat_text(found))
        if watcher is not None:
            await caller.follow(watcher, json=json)

    perform(context, work)
