"""`zab server FILE` and `zab ensemble`: one member in this process, and a local ensemble with one process per member.

Both end with one of ZooKeeper's exit codes: 0 stopped as asked (SIGINT, SIGTERM), 1 unexpected, 2 usage or
configuration, 3 data directory, 14 a port cannot be bound. `zab server --check` ends with the code that a start would
end with for what it finds.

The members of an ensemble are `python -m zab.server`, which imports neither typer nor rich. They are started before
this process imports trio.

Not here: what a server does (`zab.server`), the processes of an ensemble (`zab.cli.servers.local_ensemble`).
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.servers.local_ensemble import (
    BOOKIES_MAX,
    BROKERS_MAX,
    DEFAULT_BOOKIE_PORT,
    DEFAULT_BROKER_PORT,
    SIZE_MAX,
    EnsembleError,
    LocalEnsemble,
)
from zab.cli.terminal import say

if TYPE_CHECKING:
    from zab.server.config_check import Checked

DEFAULT_CLIENT_PORT = 2181


class LogFormat(StrEnum):
    """The format of a server's journal."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least level of journal lines."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def server_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ZooKeeper zoo.cfg.", show_default=False)],
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format", case_sensitive=False, help="The format of the server's log output; overrides log.format."
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option("--log-level", case_sensitive=False, help="The lowest level that is logged; overrides log.level."),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file", metavar="PATH", help="The file to log to instead of standard error; overrides log.file."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check FILE and the files that it names; start nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --check: print JSON, one object a line.")] = False,
) -> None:
    """FILE is a ZooKeeper zoo.cfg; the server's id is in dataDir/myid. Keys that have no effect cause a warning."""
    if check:
        from zab.server.config_check import check as check_configuration

        raise typer.Exit(_report(str(file), check_configuration(str(file)), json=json))
    if json:
        raise typer.BadParameter("a server writes its journal: --log-format=json", param_hint="--json")
    from zab.server.__main__ import main

    named = {"--log-format": log_format, "--log-level": log_level, "--log-file": log_file}
    given = [f"{option}={value}" for option, value in named.items() if value is not None]
    raise typer.Exit(main([*given, "--", str(file)]))


def _report(file: str, checked: "Checked", *, json: bool) -> int:
    """Print what was found; the exit code."""
    code = checked.exit_code
    if json:
        for line in checked.lines(file):
            say(json_line(line))
        return code
    for fault in checked.faults:
        say(f"error: {fault}")
    for warning in checked.warnings:
        say(f"warning: {warning}")
    if not code:
        assert checked.config is not None
        config = checked.config
        kind = "standalone" if config.is_standalone else f"server {config.server_id} of {len(config.ensemble.servers)}"
        say(f"{file}: a server would start with it, {kind}, if its ports are free")
    return code


def ensemble_command(
    size: Annotated[int, typer.Option("--size", metavar="N", min=1, max=SIZE_MAX, help="How many members.")] = 3,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Member N keeps its data in DIR/N.", file_okay=False)
    ] = Path("data"),
    client_port: Annotated[
        int,
        typer.Option(
            "--client-port",
            metavar="P",
            min=1,
            max=65535 - SIZE_MAX,
            help="The client port of member 1; the next ports are the others'.",
        ),
    ] = DEFAULT_CLIENT_PORT,
    brokers: Annotated[
        int,
        typer.Option("--brokers", metavar="N", min=0, max=BROKERS_MAX, help="How many brokers, for Kafka's clients."),
    ] = 0,
    broker_port: Annotated[
        int,
        typer.Option(
            "--broker-port", metavar="P", min=1, max=65535, help="Where the first broker listens; the others follow."
        ),
    ] = DEFAULT_BROKER_PORT,
    bookies: Annotated[
        int,
        typer.Option(
            "--bookies", metavar="N", min=0, max=BOOKIES_MAX, help="How many bookies, for clients of BookKeeper."
        ),
    ] = 0,
    bookie_port: Annotated[
        int,
        typer.Option(
            "--bookie-port", metavar="P", min=1, max=65535, help="Where the first bookie listens; the others follow."
        ),
    ] = DEFAULT_BOOKIE_PORT,
    json: JsonOption = False,
) -> None:
    """Prints the connection string when it serves. Each member's zoo.cfg is written at every start, its journal is
    DIR/N/server.log. Admin ports are P + 5900 and the following: 8081, 8082, … with the usual P.

    A broker keeps its files in DIR/broker-1, a bookie in DIR/bookie-1. It is printed, too, when clients may connect to
    them: for bookies, the metadataServiceUri of clients of BookKeeper.
    """
    os.umask(0o077)
    try:
        ensemble = LocalEnsemble(size, data, client_port, brokers, broker_port, bookies, bookie_port)
        ensemble.start()
    except EnsembleError as error:
        fail(error, error.exit_code)
    import trio

    raise typer.Exit(trio.run(ensemble.run, lambda text, fields: typer.echo(json_line(fields) if json else text)))
