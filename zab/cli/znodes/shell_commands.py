"""The commands of `zab shell`: the znode commands, and those that need a lasting session."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Final

import trio
import typer
from attrs import evolve

from zab.cli.arguments import expand_alias
from zab.cli.commands import ALIASES, COMMANDS, NOT_IN_SHELL
from zab.cli.terminal import say
from zab.cli.time_limit import time_limit, timed
from zab.cli.znodes.discreet_history import without_secrets
from zab.cli.znodes.options import OtherPathArgument, PathArgument, resolved
from zab.cli.znodes.shell_session import Shell
from zab.client import Client, NoNodeError, WatchKind, WatchMode

__all__ = ["NAMES", "SESSION_COMMANDS", "ZNODE_COMMANDS", "shell_app"]

HISTORY_SHOWN_COUNT: Final = 11


def _shell(context: typer.Context) -> Shell:
    assert isinstance(context.obj, Shell)
    return context.obj


def add_auth_command(
    context: typer.Context, scheme: Annotated[str, typer.Argument()], credentials: Annotated[str, typer.Argument()] = ""
) -> None:
    """Add an identity, such as: addauth digest user:password."""

    async def work(zk: Client, _caller: object) -> None:
        await zk.add_auth(scheme, credentials)

    _shell(context).run(work, time_limit(context))


def add_watch_command(
    context: typer.Context,
    path: PathArgument,
    mode: Annotated[WatchMode, typer.Option("-m", "--mode", parser=lambda text: _mode(text))] = (
        WatchMode.PERSISTENT_RECURSIVE
    ),
) -> None:
    """Watch a znode until the watch is removed; -m PERSISTENT or PERSISTENT_RECURSIVE."""
    shell = _shell(context)

    async def work(zk: Client, _caller: object) -> None:
        await zk.add_watch(path, shell.events, mode)

    shell.run(work, time_limit(context))


def _mode(text: str | WatchMode) -> WatchMode:
    if isinstance(text, WatchMode):
        return text
    try:
        return WatchMode[text]
    except KeyError:
        raise typer.BadParameter(f"{text} is neither PERSISTENT nor PERSISTENT_RECURSIVE") from None


def remove_watches_command(
    context: typer.Context,
    path: PathArgument,
    children: Annotated[bool, typer.Option("-c", help="Watches of the children.")] = False,
    data: Annotated[bool, typer.Option("-d", help="Watches of the data.")] = False,
    _every: Annotated[bool, typer.Option("-a", help="All watches; the default.")] = False,
    local: Annotated[bool, typer.Option("-l", help="Remove them even if no server can be told.")] = False,
) -> None:
    """Remove the watches of a znode."""
    kind = WatchKind.CHILDREN if children else WatchKind.DATA if data else WatchKind.ANY

    async def work(zk: Client, _caller: object) -> None:
        await zk.remove_watches(path, kind, local=local)

    _shell(context).run(work, time_limit(context))


def print_watches_command(
    context: typer.Context, setting: Annotated[str | None, typer.Argument(metavar="[on|off]")] = None
) -> None:
    """Print events, or not."""
    shell = _shell(context)
    if setting not in (None, "on", "off"):
        raise typer.BadParameter("say on or off")
    if setting is None:
        say(f"printwatches is {'on' if shell.prints_events else 'off'}")
    else:
        shell.prints_events = setting == "on"


def cd_command(
    context: typer.Context,
    path: OtherPathArgument = None,
) -> None:
    """Change the current znode, where relative paths start; without PATH to the root. `..` is the parent."""
    shell = _shell(context)
    place = resolved("/", (path or "/").rstrip("/") or "/")

    async def work(zk: Client, _caller: object) -> None:
        if await zk.exists(place) is None:
            raise NoNodeError(place)
        shell.place = place

    shell.run(work, time_limit(context))


def pwd_command(context: typer.Context) -> None:
    """Print the current znode."""
    say(_shell(context).place)


def connect_command(
    context: typer.Context,
    hosts: Annotated[str | None, typer.Argument(metavar="HOSTS", show_default=False)] = None,
) -> None:
    """End the session, and begin one with these servers; without HOSTS with the same ones.

    Identities added with addauth are gone.
    """
    shell = _shell(context)
    shell.connect(shell.options if hosts is None else evolve(shell.options, hosts=hosts))


def close_command(context: typer.Context) -> None:
    """End the session, with its ephemerals; the shell keeps running."""
    _shell(context).close()


def history_command(context: typer.Context) -> None:
    """Print the last commands with their numbers."""
    lines = list(enumerate(_shell(context).lines))
    for number, line in lines[-HISTORY_SHOWN_COUNT:]:
        say(f"{number} - {without_secrets(line)}")


def redo_command(context: typer.Context, number: Annotated[int, typer.Argument(metavar="NUMBER", min=0)]) -> None:
    """Run a command of the history again."""
    shell = _shell(context)
    # This line is the last one, and must not run itself.
    if number >= len(shell.lines) - 1:
        raise typer.BadParameter(f"there is no command {number} before this one")
    trio.from_thread.run(shell.execute, shell.lines[number])


def version_command() -> None:
    """Print the version."""
    say(f"zab {version('zab')}")


def help_command(
    context: typer.Context, command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]")] = None
) -> None:
    """Print the commands, or the help of one."""
    assert context.parent is not None
    if command:
        _shell(context).call([*expand_alias(command), "--help"])
    else:
        say(context.parent.get_help())


def quit_command(context: typer.Context) -> None:
    """End the shell; its ephemerals go with it."""
    _shell(context).is_ended = True


SESSION_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "addauth": add_auth_command,
    "addWatch": add_watch_command,
    "removewatches": remove_watches_command,
    "printwatches": print_watches_command,
    "cd": cd_command,
    "pwd": pwd_command,
    "connect": connect_command,
    "close": close_command,
    "history": history_command,
    "redo": redo_command,
    "version": version_command,
    "help": help_command,
    "quit": quit_command,
    "exit": quit_command,
}
_ASKING: Final = frozenset({"addauth", "addWatch", "removewatches", "cd"})
"""The commands that send requests to servers."""
ZNODE_COMMANDS: Final = {
    name: command for name, command in COMMANDS.items() if command.room == "znodes" and name not in NOT_IN_SHELL
}
NAMES: Final = frozenset({*ZNODE_COMMANDS, *SESSION_COMMANDS, *ALIASES})
"""All words that may begin a line."""


def shell_app() -> typer.Typer:
    """All commands of the prompt, without aliases."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    for name, command in ZNODE_COMMANDS.items():
        command.add_to(app, name)
    for name, function in SESSION_COMMANDS.items():
        app.command(name)(timed(function) if name in _ASKING else function)
    return app
