"""`zab broker run FILE`: one broker of the partitioned log in this process, for Kafka's clients.

It ends with one of the exit codes of `zab server`: 0 stopped as asked (SIGINT, SIGTERM), 1 unexpected, 2 usage or
configuration, 3 the directory of the logs, 14 a port cannot be bound. `--check` ends with 0 or 2.

Not here: what a broker does (`zab.broker`), one beside a local ensemble (`zab.cli.servers.local_broker`).
"""

from pathlib import Path
from typing import Annotated

import typer

from zab.cli.terminal import say

__all__ = ["run_command"]


def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A broker's server.properties.", show_default=False)],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Read FILE and the files of secrets in it, and print the first error.",
        ),
    ] = False,
) -> None:
    """Run one broker, until SIGINT or SIGTERM.

    FILE has Kafka's keys. A key that cannot be honoured refuses the start; one that has no effect causes a warning. The
    members of the coordination service that zookeeper.connect names have to run.
    """
    if check:
        raise typer.Exit(_report(str(file)))
    from zab.broker.__main__ import main

    raise typer.Exit(main(["--", str(file)]))


def _report(file: str) -> int:
    """Print what was found; the exit code."""
    from zab.broker.configuration import StartRefusedError, hints, load
    from zab.host.process.run_service import USAGE_ERROR

    try:
        config = load(file)
    except StartRefusedError as error:
        say(f"error: {error}")
        return USAGE_ERROR
    for hint in hints(config):
        say(f"warning: {file}: {hint}")
    say(f"{file}: its settings are good: {', '.join(map(str, config.broker.listeners))}")
    say(f"not checked: the ports, the directory, the members (zab doctor {file} looks at directory and members)")
    return 0
