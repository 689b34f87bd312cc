"""`zab broker`: `run`, one broker in this process (`zab.cli.servers.broker`), `list`, what is registered, `drain`
(`drain.py`), and `acl`, the access lists (`acl.py`).

`list` asks the members at `-s`, and looks below the chroot there: it also tells of brokers that do not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from zab.cli.brokers.acl import acl_app
from zab.cli.brokers.drain import drain_command
from zab.cli.brokers.quota import quota_app
from zab.cli.exits import REFUSED, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.registered_brokers import broker_lines, brokers_table
from zab.cli.servers.broker import run_command
from zab.cli.terminal import count_of, say
from zab.cli.time_limit import timed
from zab.cli.znodes.caller import Caller, options_of, perform
from zab.client import Client, NoNodeError
from zab.operations.registered import read_registered
from zab.operations.verdicts.brokers import Registered
from zab.partition.controller.znodes import BROKERS, MalformedError

__all__ = ["broker_app"]

broker_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@broker_app.callback()
def _broker() -> None:
    """Brokers of the partitioned log, which Kafka's clients use."""


broker_app.command("run")(run_command)


@timed
def list_command(context: typer.Context, json: JsonOption = False) -> None:
    """Print the brokers that are registered below the chroot of zab -s.

    leads: partitions that the broker leads. replicas: partitions of which it has a replica. lagging: of these, how many
    replicas are not in sync.
    """

    async def work(zk: Client, _caller: Caller) -> None:
        try:
            found = await read_registered(zk)
        except NoNodeError as error:
            if error.path != BROKERS:
                raise
            fail(f"no broker has registered at {options_of(context).hosts}")
        except MalformedError as error:
            fail(error, REFUSED)
        for text in map(json_line, _lines(found)) if json else _text(found):
            say(text)

    perform(context, work)


broker_app.command("list")(list_command)
broker_app.command("drain")(timed(drain_command))
broker_app.add_typer(acl_app, name="acl")
broker_app.add_typer(quota_app, name="quota")


def _lines(found: Registered) -> Iterator[dict[str, Any]]:
    """The lines of JSON: one for each broker, one for all."""
    yield from broker_lines(found)
    yield {
        "type": "brokers",
        "count": len(found.brokers),
        "controller": found.controller,
        "under_replicated": len(found.under_replicated),
        "offline": len(found.offline),
    }


def _text(found: Registered) -> Iterator[str]:
    if found.brokers:
        yield from brokers_table(found)
    counts = (f"{len(found.under_replicated)} under-replicated", f"{len(found.offline)} offline")
    yield f"{count_of(len(found.brokers), 'broker')}; partitions: {', '.join(counts)}"
