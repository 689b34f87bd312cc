"""`zab reconfig`: the members of the ensemble, and which of them vote; `zab lead`: which of them leads.

    zab reconfig show                               the configuration in force
    zab reconfig add 'server.4=host:2888:3888;2181' servers join, or replace those with the same ids
    zab reconfig remove 1,2                         servers leave
    zab reconfig add LINE --remove 3                both in one step
    zab reconfig set FILE                           the whole configuration at once; or its server lines
    … --plan                                        say what would happen or be refused; change nothing
    zab lead 2                                      server 2 leads

Not here: what a plan says (`reconfig_plan`).
"""

import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import trio
import typer
from attrs import frozen

from zab.cli.exits import REFUSED, USAGE, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say, say_data
from zab.cli.znodes.caller import Caller, options_of, perform
from zab.cli.znodes.opening import tls_of
from zab.cli.znodes.reconfig_plan import (
    ASKED_NOBODY,
    CONFIG_PATH,
    NOBODY_SERVES,
    Plan,
    Stand,
    best_of,
    rule_text,
    too_few,
    value_of,
)
from zab.client import (
    BadArgumentsError,
    BadVersionError,
    Client,
    ConnectionLossError,
    NewConfigNoQuorumError,
    NoAuthError,
    ReconfigDisabledError,
    RequestError,
    UnimplementedError,
)
from zab.client.four_letter import ask, servers_of
from zab.configuration.dynamic import Ensemble, ServerLine, bracketed
from zab.configuration.reconfiguration import ChangeError, ensemble_of, next_ensemble

__all__ = ["lead_command", "reconfig_app"]

WORD_SECONDS: Final = 2.0
"""How long one server may take to report its mode."""
LOOK_SECONDS: Final = 0.1
"""Seconds between two checks whether a server leads."""
_MAY_NOT: Final = (
    "no identity of the connection has the permission WRITE of it. At first the superuser alone has it: "
    "DigestAuthenticationProvider.superDigest in the zoo.cfg of all members names it, zab --auth @FILE logs it in, "
    "and it may grant the permission to others; docs/how-to/reconfigure.md says how. With skipACL=yes in these files "
    "everybody has it"
)
_NO_HANDOVER: Final = (
    "the leader, or the server that was asked, has a version that cannot hand over the lead, like ZooKeeper: end the "
    "leader instead, and another one leads"
)
_LINE: Final = "id=host:quorumPort:electionPort[:participant|observer];clientPort"

VersionOption: TypeAlias = Annotated[
    str | None,
    typer.Option("-v", "--version", metavar="HEX", help="Only if this is the version in force.", show_default=False),
]
PlanOption: TypeAlias = Annotated[
    bool, typer.Option("--plan", help="Print what would happen or be refused; change nothing.")
]

reconfig_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@frozen
class Change:
    """The arguments of the request."""

    joining: str | None = None
    leaving: str | None = None
    members: str | None = None


@reconfig_app.command("show")
def show_command(context: typer.Context, json: JsonOption = False) -> None:
    """Print the configuration in force."""

    async def work(zk: Client, _caller: Caller) -> None:
        _show(await _in_force(zk), json=json)

    perform(context, work)


@reconfig_app.command("add")
def add_command(
    context: typer.Context,
    lines: Annotated[list[str], typer.Argument(metavar="LINE...", help=f"server.{_LINE}", show_default=False)],
    leaving: Annotated[
        str | None,
        typer.Option("--remove", metavar="IDS", help="Servers to remove in the same step: 1,2", show_default=False),
    ] = None,
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Servers join, or replace those with the same ids. They have to be running, and following: their zoo.cfg names
    them and the existing members.
    """
    joining = ",".join(line if line.startswith("server.") else f"server.{line}" for line in lines)
    _change(context, Change(joining=joining, leaving=leaving), version, plan=plan, json=json)


@reconfig_app.command("remove")
def remove_command(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="1 2, or 1,2", show_default=False)],
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Servers leave. They keep running without a vote until they are stopped; a leader hands over the lead."""
    _change(context, Change(leaving=",".join(ids)), version, plan=plan, json=json)


@reconfig_app.command("set")
def set_command(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Argument(metavar="FILE|LINE...", help="server, group and weight lines; - is standard input."),
    ],
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Exactly these servers from now on."""
    text = _text_of(source)
    if not text.strip():
        # The protocol does not distinguish an empty text from none: nothing would change, but it would look done.
        fail(f"{'standard input' if source == ['-'] else source[0]} is empty: no server line is in it", USAGE)
    _change(context, Change(members=text), version, plan=plan, json=json)


def _text_of(source: list[str]) -> str:
    if len(source) > 1 or source[0].startswith("server."):
        return "\n".join(source)
    try:
        return sys.stdin.read() if source == ["-"] else Path(source[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(error, USAGE)


def lead_command(
    context: typer.Context,
    server_id: Annotated[int, typer.Argument(metavar="ID", help="The server that is to lead.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Hand the lead over to a server that follows, for example before the leader is restarted. Writes wait meanwhile,
    as long as an election takes. The command ends when that server leads. It needs the permission to write
    /zookeeper/config, which at first only the superuser has.
    """

    async def work(zk: Client, _caller: Caller) -> None:
        servers = (await _in_force(zk)).servers
        line = servers.get(server_id)
        if line is None:
            raise BadArgumentsError(CONFIG_PATH, detail=f"server {server_id} is in no server line")
        try:
            await zk.hand_over(server_id)
        except NewConfigNoQuorumError as error:
            raise NewConfigNoQuorumError(error.path, detail=f"server {server_id} does not follow") from None
        except NoAuthError as error:
            raise NoAuthError(error.path, detail=_MAY_NOT) from None
        except UnimplementedError as error:
            detail = "a standalone server leads itself" if len(servers) == 1 else _NO_HANDOVER
            raise UnimplementedError(error.path, detail=detail) from None
        except ConnectionLossError:
            # A learner may learn of the new leader at the moment when it learns of the commit.
            pass
        if line.client_port is None:
            fail(f"whether server {server_id} leads is not known: its server line has no client port to ask it at")
        while True:
            if (await _stand(context, _client_place(line))).mode == "leader":
                break
            await trio.sleep(LOOK_SECONDS)
        say(json_line({"leader": server_id}) if json else f"server {server_id} leads")

    perform(context, work)


# --------------------------------------------------------------------------------------------------------- the change


def _change(context: typer.Context, change: Change, version: str | None, *, plan: bool, json: bool) -> None:
    try:
        wanted = -1 if version is None else int(version, 16)
    except ValueError:
        raise typer.BadParameter(f"{version!r} is not a hexadecimal number", param_hint="--version") from None

    async def work(zk: Client, _caller: Caller) -> None:
        before = await _in_force(zk)
        after = _next(before, change)
        for leaver in filter(None, (change.leaving or "").split(",")):
            if int(leaver) not in before.servers:
                # An ensemble would report success.
                fail(f"server {leaver} is in no server line", USAGE)
        if plan:
            refused = await _refused_at_once(zk, change, after)
            _say_plan(Plan(before, after, await _stands(context, before, after), wanted, refused), json=json)
            return
        try:
            data = await _ask_for(zk, change, wanted)
        except RequestError as error:
            raise _explained(error, after) from None
        _show(ensemble_of(data), json=json)

    perform(context, work)


async def _ask_for(zk: Client, change: Change, version: int) -> bytes:
    data, _ = await zk.reconfig(joining=change.joining, leaving=change.leaving, members=change.members, version=version)
    return data or b""


async def _in_force(zk: Client) -> Ensemble:
    data, _ = await zk.get_config()
    try:
        return ensemble_of(data or b"")
    except ChangeError as error:
        fail(f"{CONFIG_PATH} holds no configuration of an ensemble: {error}", REFUSED)


def _next(before: Ensemble, change: Change) -> Ensemble:
    joining, leaving, members = [
        None if text is None else text.encode() for text in (change.joining, change.leaving, change.members)
    ]
    try:
        return next_ensemble(before, joining, leaving, members, before.version + 1)
    except ChangeError as error:
        fail(error, USAGE)


def _explained(error: RequestError, after: Ensemble) -> RequestError:
    """The error, with what to do about it."""
    if isinstance(error, ReconfigDisabledError):
        return ReconfigDisabledError(error.path, detail="reconfigEnabled=true in the zoo.cfg of all members allows it")
    if isinstance(error, NoAuthError):
        return NoAuthError(error.path, detail=_MAY_NOT)
    if isinstance(error, NewConfigNoQuorumError):
        return NewConfigNoQuorumError(
            error.path, detail=f"no quorum of the new configuration follows: {rule_text(after)}; --plan says who does"
        )
    if isinstance(error, BadArgumentsError) and len(after.participants) < 2:
        return too_few(after)
    return error


def _show(ensemble: Ensemble, *, json: bool) -> None:
    if json:
        say(json_line(value_of(ensemble)))
    else:
        say_data(str(ensemble).encode(), alone=True)


# ----------------------------------------------------------------------------------------------------------- the plan

_NO_VERSION: Final = -2
"""A version that no configuration has: a change that requires it is always refused."""


def _say_plan(plan: Plan, *, json: bool) -> None:
    for line in [json_line(plan.value)] if json else plan.lines:
        say(line)
    if plan.refused is not None:
        raise typer.Exit(REFUSED)


async def _refused_at_once(zk: Client, change: Change, after: Ensemble) -> RequestError | None:
    """Why the leader refuses any change now, which only it knows. It checks the version after all of this."""
    try:
        await _ask_for(zk, change, _NO_VERSION)
    except RequestError as error:
        return None if isinstance(error, BadVersionError) else _explained(error, after)
    else:
        fail("the servers did what they were to refuse: zab reconfig show says what is in force", REFUSED)


async def _stands(context: typer.Context, before: Ensemble, after: Ensemble) -> dict[int, Stand]:
    """The mode of each server in either configuration; one that moves is asked at both of its addresses."""
    lines = [line for ensemble in (before, after) for line in ensemble.servers.values()]
    places = {(line.server_id, _client_place(line)) for line in lines}
    found: dict[int, list[Stand]] = {}

    async def look(sid: int, place: str | None) -> None:
        stand = await _stand(context, place)
        found.setdefault(sid, []).append(stand)

    async with trio.open_nursery() as nursery:
        for sid, place in places:
            nursery.start_soon(look, sid, place)
    return {sid: best_of(stands) for sid, stands in found.items()}


def _client_place(line: ServerLine) -> str | None:
    """The addresses at which it can be asked."""
    if line.client_port is None:
        return None
    host = line.host if line.client_host in (None, "0.0.0.0", "::") else line.client_host
    assert host is not None
    return f"{bracketed(host)}:{line.client_port}"


async def _stand(context: typer.Context, place: str | None) -> Stand:
    """What the server at this address reports."""
    if place is None:
        return ASKED_NOBODY
    answer = ""
    with trio.move_on_after(WORD_SECONDS):
        try:
            [server] = servers_of(place)
            answer = await ask(server, "srvr", tls=tls_of(options_of(context)))
        except ConnectionRefusedError:
            return NOBODY_SERVES
        except (OSError, UnicodeError):
            return ASKED_NOBODY
    mode = [text.partition(": ")[2] for text in answer.splitlines() if text.startswith("Mode: ")]
    if mode:
        return Stand(mode[0])
    return NOBODY_SERVES if "not currently serving" in answer else ASKED_NOBODY
