"""`zab reconfig`: who belongs to the ensemble, and who of them decides; `zab lead`: who of them leads.

    zab reconfig show                               the configuration in force
    zab reconfig add 'server.4=host:2888:3888;2181' servers join, or take the place of those with their ids
    zab reconfig remove 1,2                         servers leave
    zab reconfig set FILE                           the whole configuration at once
    … --plan                                        what would happen, and nothing is changed
    zab lead 2                                      server 2 leads

A plan is made here, with the rules of the servers: who joins and leaves, which quorums decide before, meanwhile and
after, and where those who will have a vote stand now.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import trio
import typer
from attrs import frozen

from zab.cli.exits import REFUSED, USAGE, fail
from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.terminal import count_of, say, say_data
from zab.cli.znodes.caller import Caller, options_of, perform
from zab.cli.znodes.opening import tls_of
from zab.client import (
    BadArgumentsError,
    Client,
    ConnectionLossError,
    NewConfigNoQuorumError,
    NoAuthError,
    ReconfigDisabledError,
    RequestError,
    UnimplementedError,
)
from zab.client.words import ask, servers_of
from zab.configuration.dynamic import Ensemble, ServerLine, bracketed
from zab.configuration.reconfiguration import ChangeError, ensemble_of, next_ensemble

__all__ = ["lead_command", "reconfig_app"]

WORD_SECONDS: Final = 2.0
"""How long one server may take to say where it stands."""
LOOK_SECONDS: Final = 0.1
"""Between two looks whether a server leads."""
_MAY_NOT: Final = (
    "no identity of the connection has the permission WRITE of it. At first the superuser alone has it: "
    "DigestAuthenticationProvider.superDigest in the zoo.cfg of all members names him, zab --auth @FILE logs him in, "
    "and he may give it to others; docs/reconfiguration.md says how. With skipACL=yes in these files everybody has it"
)
_LINE: Final = "id=host:quorumPort:electionPort[:participant|observer];clientPort"

VersionOption: TypeAlias = Annotated[
    str | None,
    typer.Option("-v", "--version", metavar="HEX", help="Only if this is the version in force.", show_default=False),
]
PlanOption: TypeAlias = Annotated[bool, typer.Option("--plan", help="Say what would happen, and change nothing.")]

reconfig_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@frozen
class Change:
    """What is asked for, as the request has it."""

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
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Servers join, or take the place of those with their ids. They have to run, and to follow: their own zoo.cfg names
    them and those that are there already.
    """
    joining = ",".join(line if line.startswith("server.") else f"server.{line}" for line in lines)
    _change(context, Change(joining=joining), version, plan=plan, json=json)


@reconfig_app.command("remove")
def remove_command(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="1 2, or 1,2", show_default=False)],
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Servers leave. They go on without a vote, until they are ended; a leader hands the lead over first."""
    _change(context, Change(leaving=",".join(ids)), version, plan=plan, json=json)


@reconfig_app.command("set")
def set_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="server, group and weight lines; - is standard input.")],
    version: VersionOption = None,
    plan: PlanOption = False,
    json: JsonOption = False,
) -> None:
    """Exactly these servers from now on."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(error, USAGE)
    if not text.strip():
        # To the protocol an empty text is no text: nothing would change, and that would be taken for done.
        fail(f"{'standard input' if file == '-' else file} is empty: no server line is in it", USAGE)
    _change(context, Change(members=text), version, plan=plan, json=json)


def lead_command(
    context: typer.Context,
    server_id: Annotated[int, typer.Argument(metavar="ID", help="The server that is to lead.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Hand the lead over to a server that follows, before the leader is restarted, say. Writes wait meanwhile, as long
    as an election takes. It is done when that server leads. Who may write /zookeeper/config may do it: at first the
    superuser alone.
    """

    async def work(zk: Client, _caller: Caller) -> None:
        line = (await _in_force(zk)).servers.get(server_id)
        if line is None:
            raise BadArgumentsError(_CONFIG_PATH, detail=f"server {server_id} is in no server line")
        try:
            await zk.hand_over(server_id)
        except NewConfigNoQuorumError as error:
            raise NewConfigNoQuorumError(error.path, detail=f"server {server_id} does not follow") from None
        except NoAuthError as error:
            raise NoAuthError(error.path, detail=_MAY_NOT) from None
        except UnimplementedError as error:
            raise UnimplementedError(error.path, detail="a standalone server leads itself") from None
        except ConnectionLossError:
            # A learner may hear that the lead goes over in the moment in which it hears that this is committed.
            pass
        if line.client_port is None:
            fail(f"whether server {server_id} leads is not known: its server line has no client port to ask it at")
        while True:
            if await _stand(context, line) == "leader":
                break
            await trio.sleep(LOOK_SECONDS)
        say(json_line({"leader": server_id}) if json else f"server {server_id} leads")

    perform(context, work)


# --------------------------------------------------------------------------------------------------------- the change

_CONFIG_PATH: Final = "/zookeeper/config"


def _change(context: typer.Context, change: Change, version: str | None, *, plan: bool, json: bool) -> None:
    try:
        wanted = -1 if version is None else int(version, 16)
    except ValueError:
        raise typer.BadParameter(f"{version!r} is no hexadecimal number", param_hint="--version") from None

    async def work(zk: Client, _caller: Caller) -> None:
        before = await _in_force(zk)
        after = _next(before, change)
        for leaver in filter(None, (change.leaving or "").split(",")):
            if int(leaver) not in before.servers:
                # An ensemble takes that for done.
                fail(f"server {leaver} is in no server line", USAGE)
        if plan:
            await _say_plan(context, before, after, json=json)
            return
        try:
            data, _ = await zk.reconfig(
                joining=change.joining, leaving=change.leaving, members=change.members, version=wanted
            )
        except RequestError as error:
            raise _explained(error, after) from None
        _show(ensemble_of(data or b""), json=json)

    perform(context, work)


async def _in_force(zk: Client) -> Ensemble:
    data, _ = await zk.get_config()
    try:
        return ensemble_of(data or b"")
    except ChangeError as error:
        fail(f"{_CONFIG_PATH} holds no configuration of an ensemble: {error}", REFUSED)


def _next(before: Ensemble, change: Change) -> Ensemble:
    joining, leaving, members = [
        None if text is None else text.encode() for text in (change.joining, change.leaving, change.members)
    ]
    try:
        return next_ensemble(before, joining, leaving, members, before.version + 1)
    except ChangeError as error:
        fail(error, USAGE)


def _explained(error: RequestError, after: Ensemble) -> RequestError:
    """The same, with what is to be done."""
    if isinstance(error, ReconfigDisabledError):
        return ReconfigDisabledError(error.path, detail="reconfigEnabled=true in the zoo.cfg of all members allows it")
    if isinstance(error, NoAuthError):
        return NoAuthError(error.path, detail=_MAY_NOT)
    if isinstance(error, NewConfigNoQuorumError):
        return NewConfigNoQuorumError(
            error.path, detail=f"no quorum of the new configuration follows: {_rule(after)}; --plan says who does"
        )
    if isinstance(error, BadArgumentsError) and len(after.participants) < 2:
        detail = f"{count_of(len(after.participants), 'participant')} would be left, and an ensemble has two"
        return BadArgumentsError(error.path, detail=f"{detail}, unless standaloneEnabled=false allows one")
    return error


def _show(ensemble: Ensemble, *, json: bool) -> None:
    if json:
        say(json_line(_value(ensemble)))
    else:
        say_data(str(ensemble).encode(), alone=True)


def _value(ensemble: Ensemble) -> dict[str, Any]:
    return {
        "version": hexadecimal(ensemble.version),
        "servers": [
            {
                "id": sid,
                "host": line.host,
                "quorum_port": line.quorum_port,
                "election_port": line.election_port,
                "role": line.role.value,
                "client_host": line.client_host,
                "client_port": line.client_port,
            }
            for sid, line in sorted(ensemble.servers.items())
        ],
        "groups": {str(gid): list(ids) for gid, ids in sorted(ensemble.groups.items())},
        "weights": {str(sid): weight for sid, weight in sorted(ensemble.weights.items())} if ensemble.groups else {},
    }


# ----------------------------------------------------------------------------------------------------------- the plan


async def _say_plan(context: typer.Context, before: Ensemble, after: Ensemble, *, json: bool) -> None:
    stands = {sid: await _stand(context, after.servers[sid]) for sid in sorted(after.participants)}
    meanwhile = _rule(before) if before.participants == after.participants else f"{_rule(before)}, and {_rule(after)}"
    if json:
        quorums = {"before": _rule(before), "meanwhile": meanwhile, "after": _rule(after)}
        now = {str(sid): stand for sid, stand in stands.items()}
        say(json_line({"from": _value(before), "to": _value(after), "quorums": quorums, "voters_now": now}))
        return
    for sid in sorted({*before.servers, *after.servers}):
        was, will = before.servers.get(sid), after.servers.get(sid)
        if was != will:
            say(_difference(sid, was, will))
    for name, rule in (("before", _rule(before)), ("meanwhile", meanwhile), ("after", _rule(after))):
        say(f"quorum {name}: {rule}")
    for sid, stand in stands.items():
        say(f"server {sid} now: {stand or 'cannot be asked'}")


def _difference(sid: int, was: ServerLine | None, will: ServerLine | None) -> str:
    if will is None:
        return f"server {sid} leaves"
    if was is None:
        return f"server {sid} joins as {will.role.value}: {_place(will)}"
    return f"server {sid} changes: {was.role.value} {_place(was)} -> {will.role.value} {_place(will)}"


def _place(line: ServerLine) -> str:
    return str(line).partition("=")[2]


def _rule(ensemble: Ensemble) -> str:
    if ensemble.groups:
        heavy = [ids for ids in ensemble.groups.values() if sum(ensemble.weights.get(sid, 1) for sid in ids)]
        listed = "; ".join(_listed(ids) for ids in heavy)
        return f"{len(heavy) // 2 + 1} of {len(heavy)} groups, by more than half of the weight of each: {listed}"
    voters = ensemble.participants
    return f"{len(voters) // 2 + 1} of servers {_listed(voters)}"


def _listed(sids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(sids)))


async def _stand(context: typer.Context, line: ServerLine) -> str | None:
    """What a server says of itself: its mode; None where it cannot be asked, or says nothing."""
    if line.client_port is None:
        return None
    host = line.host if line.client_host in (None, "0.0.0.0", "::") else line.client_host
    assert host is not None
    answer = ""
    with trio.move_on_after(WORD_SECONDS):
        try:
            [server] = servers_of(f"{bracketed(host)}:{line.client_port}")
            answer = await ask(server, "srvr", tls=tls_of(options_of(context)))
        except (OSError, UnicodeError):
            return None
    mode = [text.partition(": ")[2] for text in answer.splitlines() if text.startswith("Mode: ")]
    return mode[0] if mode else None
