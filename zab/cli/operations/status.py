"""`zab status`: the members of an ensemble, its leader, the lag of each member, the brokers and bookies beside it, and
alarms.

Exit codes: 0 no alarms; 1 there are alarms; 2 wrong usage; 3 no member can be reached.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any

import trio
import typer
from attrs import evolve

from zab.cli.columns import cell, columns
from zab.cli.exits import REFUSED, UNREACHABLE, USAGE, fail, library_of
from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.operations.options import AdminOption, admin_ports
from zab.cli.registered_brokers import broker_lines, brokers_table
from zab.cli.terminal import in_line, say
from zab.cli.znodes.caller import options_of
from zab.cli.znodes.opening import opener, tls_of
from zab.client import ZabError
from zab.client.four_letter import servers_of
from zab.coordination.operations import CoordinationError
from zab.operations.asking import ask_all, ensemble_in_force, targets_of
from zab.operations.registered import read_registered
from zab.operations.verdicts.bookies import Bookies, bookie_alarms
from zab.operations.verdicts.brokers import Registered, alarms_of
from zab.operations.verdicts.status import Alarm, MemberStatus, Status, by_severity, status_of
from zab.partition.controller.znodes import MalformedError

__all__ = ["status_command"]

_CLEAR = "\x1b[H\x1b[2J"
_HEAD = ("member", "server", "state", "role", "zxid", "lag", "connections", "sessions", "watches", "latency ms")

_BOOKIES_HEAD = ("bookie", "state", "address", "rack")
NO_BOOKIES = Bookies(())


def status_command(
    context: typer.Context,
    admin: AdminOption = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch", metavar="SECONDS", min=0.1, help="Repeat at this interval until Ctrl-C.", show_default=False
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Brokers and bookies are those that are registered below the chroot of -s; bookies need the extra `ledgers`.

    Asks the servers of -s, those that the configuration in force names, and the admin ports, all at once; each has
    the time of `zab --wait`. A member tells most where its 4lw.commands.whitelist has mntr, or over its admin port.

    Exit code 0: nothing has to be looked at; 1: there are alarms; 3: no member can be reached.
    """
    look = looker(context, admin)
    look_for_brokers, look_for_bookies = _brokers_looker(context), _bookies_looker(context)
    code = 0

    async def run() -> None:
        nonlocal code
        while True:
            status, registered, bookies = await look(), await look_for_brokers(), await look_for_bookies()
            beside = [*(() if registered is None else alarms_of(registered)), *bookie_alarms(bookies)]
            if beside:
                status = evolve(status, alarms=by_severity([*status.alarms, *beside]))
            code = _code(status)
            _show(status, registered, bookies, json=json, again=watch is not None)
            if watch is None:
                return
            await trio.sleep(watch)

    trio.run(run, restrict_keyboard_interrupt_to_checkpoints=True)
    if code:
        raise typer.Exit(code)


def looker(context: typer.Context, admin: list[str] | None) -> Callable[[], Awaitable[Status]]:
    """The function that looks at the whole ensemble once. Ends the command if an option is wrong."""
    options = options_of(context)
    try:
        servers, tls = servers_of(options.hosts), tls_of(options)
        open_client = opener(options)
    except ValueError as error:
        fail(error, USAGE)
    admins = admin_ports(admin, options)
    seconds = options.wait_ms / 1000

    async def look() -> Status:
        ensemble = await ensemble_in_force(open_client, seconds)
        targets = await targets_of(servers, ensemble, admins, seconds, with_tls=tls is not None)
        return status_of(await ask_all(targets, tls, seconds), ensemble)

    return look


def _brokers_looker(context: typer.Context) -> Callable[[], Awaitable[Registered | None]]:
    """The function that reads what brokers have registered; it returns None where there is none, or nobody says so."""
    options = options_of(context)
    try:
        open_client = opener(options)
    except ValueError as error:
        fail(error, USAGE)

    async def look() -> Registered | None:
        with trio.move_on_after(options.wait_ms / 1000):
            try:
                async with open_client() as zk:
                    return await read_registered(zk)
            except MalformedError as error:
                say(f"zab: what brokers registered cannot be read: {error}", sys.stderr)
            except (ZabError, OSError):
                return None
        return None

    return look


def _bookies_looker(context: typer.Context) -> Callable[[], Awaitable[Bookies]]:
    """The function that reads what bookies have registered; none without the extra `ledgers`, or without an answer."""
    options = options_of(context)
    try:
        open_client = opener(options)
    except ValueError as error:
        fail(error, USAGE)

    async def look() -> Bookies:
        try:
            from zab.operations.registered_bookies import read_registered_bookies
        except ModuleNotFoundError as error:
            if library_of(error) == "zab":
                raise
            return Bookies(())
        with trio.move_on_after(options.wait_ms / 1000):
            try:
                async with open_client() as zk:
                    return await read_registered_bookies(zk)
            except (ZabError, CoordinationError, OSError):
                return Bookies(())
        return Bookies(())

    return look


def _code(status: Status) -> int:
    if all(member.state == "unreachable" for member in status.members):
        return UNREACHABLE
    return REFUSED if status.alarms else 0


def _show(status: Status, registered: Registered | None, bookies: Bookies, *, json: bool, again: bool) -> None:
    if json:
        brokers = () if registered is None else broker_lines(registered)
        for fields in (*brokers, *_bookie_lines(bookies), *lines_of(status)):
            say(json_line(fields))
    else:
        if again and sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        for line in text_of(status, registered, bookies):
            say(line)
    sys.stdout.flush()


def lines_of(status: Status) -> Iterator[dict[str, Any]]:
    """The lines of JSON: one for each member, one for each alarm, then one for the ensemble."""
    for member in status.members:
        yield {
            "type": "member",
            "member": member.member,
            "server": member.server,
            "state": member.state,
            "role": member.role,
            "zxid": None if member.zxid is None else hexadecimal(member.zxid),
            "lag": member.lag,
            "connections": member.connections,
            "sessions": member.sessions,
            "watches": member.watches,
            "outstanding": member.outstanding,
            "latency_ms": member.latency_ms,
            "version": member.version,
            "reason": member.reason,
        }
    for alarm in status.alarms:
        yield {
            "type": "alarm",
            "severity": alarm.severity,
            "name": alarm.name,
            "server": alarm.server or None,
            "reason": alarm.reason,
            "action": alarm.action,
        }
    taking_part, needed = status.quorum or (None, None)
    yield {
        "type": "ensemble",
        "leader": status.leader,
        "voters_taking_part": taking_part,
        "voters_needed": needed,
        "is_well": status.is_well,
    }


def _bookie_lines(found: Bookies) -> Iterator[dict[str, Any]]:
    """A line of JSON for each bookie."""
    for each in found.bookies:
        yield {
            "type": "bookie",
            "bookie": each.bookie,
            "state": each.state,
            "address": each.address,
            "rack": each.rack,
        }


def text_of(status: Status, registered: Registered | None = None, bookies: Bookies = NO_BOOKIES) -> Iterator[str]:
    yield from columns([_HEAD, *map(_row, status.members)])
    if status.quorum is not None:
        yield f"quorum: {status.quorum[0]} voters take part, {status.quorum[1]} are needed"
    if registered is not None and registered.brokers:
        yield from brokers_table(registered)
    if bookies.bookies:
        rows = [(each.bookie, each.state, each.address, each.rack) for each in bookies.bookies]
        yield from columns([_BOOKIES_HEAD, *(tuple(in_line(cell(value)) for value in row) for row in rows)])
    for alarm in status.alarms:
        yield _alarm(alarm)
    if status.is_well:
        yield "all is well"


def _row(member: MemberStatus) -> tuple[str, ...]:
    return (
        cell(member.member),
        member.server,
        in_line(member.state),
        cell(member.role),
        "-" if member.zxid is None else hexadecimal(member.zxid),
        cell(member.lag),
        cell(member.connections),
        cell(member.sessions),
        cell(member.watches),
        "-" if member.latency_ms is None else f"{member.latency_ms:.1f}",
    )


def _alarm(alarm: Alarm) -> str:
    where = f"{alarm.server}: " if alarm.server else ""
    return f"{alarm.severity}: {where}{in_line(alarm.reason)}; {alarm.action}"
