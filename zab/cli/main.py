"""The entry point: `zab [options] COMMAND [arguments]`.

Every command stands in one table with the module that has it; the module is imported when its command is called, so
that `zab --help` loads neither trio nor the servers. The other commands are entered as placeholders with their one line
of help, which a test compares with the commands themselves.

At the start it is checked that the top-level packages `datatree` and `session` are this project's own
(`zab.server.refusal`).
"""

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from attrs import frozen

from zab.cli.arguments import DEFAULT_HOSTS, ConnectionOptions, arrange
from zab.cli.exits import INTERRUPTED, REFUSED
from zab.server.refusal import foreign_packages

__all__ = ["COMMANDS", "Command", "build", "main"]

ZNODES: Final = "Znodes"
SERVERS: Final = "Servers and files"


@frozen
class Command:
    """`attribute` of `module` is the command's function, or its Typer when it has commands of its own."""

    module: str
    attribute: str
    panel: str
    summary: str

    def load(self) -> Any:
        return getattr(importlib.import_module(self.module), self.attribute)


def _znode(attribute: str, summary: str) -> Command:
    return Command("zab.cli.znodes.commands", attribute, ZNODES, summary)


COMMANDS: Final = {
    "create": _znode("create_command", "Create a znode."),
    "get": _znode("get_command", "Print a znode's data."),
    "set": _znode("set_command", "Change a znode's data."),
    "delete": _znode("delete_command", "Delete a znode, or a whole subtree."),
    "ls": _znode("ls_command", "List a znode's children."),
    "stat": _znode("stat_command", "Print a znode's stat."),
    "watch": _znode("watch_command", "Print changes as they happen, until Ctrl-C."),
    "changes": Command(
        "zab.cli.znodes.changes", "changes_command", ZNODES, "Print every change of the tree in order, until Ctrl-C."
    ),
    "acl": _znode("acl_app", "Who may do what with a znode."),
    "quota": _znode("quota_app", "Limits on subtrees."),
    "count": _znode("count_command", "Print how many descendants a znode has."),
    "ephemerals": _znode("ephemerals_command", "List this session's ephemerals."),
    "sync": _znode("sync_command", "Wait until the server has applied all that was acknowledged before."),
    "whoami": _znode("whoami_command", "Print whom the server takes this client for."),
    "config": _znode("config_command", "Print the ensemble's configuration."),
    "shell": Command(
        "zab.cli.znodes.shell", "shell_command", ZNODES, "Run commands one after the other in one session."
    ),
    "server": Command("zab.cli.servers.server", "server_command", SERVERS, "Run one member, until SIGINT or SIGTERM."),
    "ensemble": Command(
        "zab.cli.servers.server",
        "ensemble_command",
        SERVERS,
        "Run a local ensemble, one process per member, until SIGINT or SIGTERM.",
    ),
    "snapshot": Command(
        "zab.cli.files.inspect", "snapshot_command", SERVERS, "Print what is in a snapshot, native or ZooKeeper's."
    ),
    "log": Command(
        "zab.cli.files.inspect", "log_command", SERVERS, "Print the transactions of a log, native or ZooKeeper's."
    ),
    "restore": Command(
        "zab.cli.files.restore",
        "restore_command",
        SERVERS,
        "Make new members' directories out of backups, with the state of any moment.",
    ),
    "recover": Command(
        "zab.cli.files.recover",
        "recover_command",
        SERVERS,
        "Begin a new ensemble with what one stopped member has, after a majority lost its data.",
    ),
    "pipeline": Command(
        "zab.cli.pipeline.commands",
        "pipeline_app",
        SERVERS,
        "Analyse logs and snapshots with Spark, native and ZooKeeper's.",
    ),
    "simulate": Command(
        "zab.cli.servers.simulate",
        "simulate_command",
        SERVERS,
        "Run whole ensembles in simulated time, with faults, and check every promise.",
    ),
}


def _placeholder() -> None:
    raise AssertionError("a command that is called is loaded first")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"zab {importlib.metadata.version('zab')}")
        raise typer.Exit


def _root(
    context: typer.Context,
    hosts: Annotated[
        str,
        typer.Option(
            "--server",
            "-s",
            metavar="HOSTS",
            envvar="ZAB_HOSTS",
            help="host:port,… and a chroot, such as /app, behind the last.",
        ),
    ] = DEFAULT_HOSTS,
    timeout_seconds: Annotated[float, typer.Option("--timeout", min=0.001, help="Session timeout, seconds.")] = 30.0,
    wait_seconds: Annotated[float, typer.Option("--wait", min=0.001, help="Seconds to look for a server.")] = 5.0,
    auth: Annotated[
        list[str] | None, typer.Option("--auth", metavar="SCHEME:CREDENTIALS", help="Such as digest:user:password.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", "-r", help="A server without a quorum will do.")] = False,
    _show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """A ZooKeeper-compatible coordination service: its servers, its tools, and a client for the command line.

    Exit codes of the znode commands: 0 done, 1 refused or not found, 2 wrong usage, 3 no server reachable.
    """
    context.obj = ConnectionOptions(
        hosts=hosts,
        session_timeout_ms=round(timeout_seconds * 1000),
        wait_ms=round(wait_seconds * 1000),
        auth=tuple(auth or ()),
        read_only=read_only,
    )


def build(called: str | None) -> typer.Typer:
    """The whole command line, with `called` loaded and the others as placeholders."""
    app = typer.Typer(
        name="zab",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        loaded = command.load() if name == called else _placeholder
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, rich_help_panel=command.panel)
        else:
            summary = None if name == called else command.summary
            app.command(name, help=summary, rich_help_panel=command.panel)(loaded)
    return app


def main(words: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    problems = foreign_packages()
    if problems:
        print("\n".join(f"zab: {problem}" for problem in problems), file=sys.stderr)
        print("zab: install zab into an environment of its own", file=sys.stderr)
        raise SystemExit(REFUSED)
    called, arranged = arrange(list(sys.argv[1:] if words is None else words))
    try:
        build(called)(args=arranged, prog_name="zab")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BaseExceptionGroup as group:
        # Ctrl-C reaches one task of several, and the others' end comes with it.
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the output has enough. What is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(REFUSED) from None


if __name__ == "__main__":
    main()
