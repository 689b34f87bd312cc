"""`zab broker quota`: how much clients may use, as Kafka's `kafka-configs.sh` sets it.

A quota is for a user, a client id, or a client id of a user; each of the two may be the default, for all that have no
quota of their own.

Not here: quotas on subtrees of an ensemble (`zab quota`); which quota holds (`zab.partition.quotas`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.refusals import RefusedError
from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import in_line, say
from zab.cli.time_limit import timed

__all__ = ["quota_app"]

quota_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_HEAD: Final = ("user", "client_id", "quota", "value")
_USER, _CLIENT = "user", "client-id"
_DEFAULT: Final = "<default>"
"""How the default is written; null in requests."""
_EXACT, _MATCHES_DEFAULT = 0, 1

_Entity = tuple[tuple[str, str | None], ...]
"""Each type and its name; None: the default."""

UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user name, such as alice.")]
ClientOption = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client.id.")]
DefaultUserOption = Annotated[bool, typer.Option("--default-user", help="All users without a quota of their own.")]
DefaultClientOption = Annotated[
    bool, typer.Option("--default-client-id", help="All client ids without a quota of their own.")
]


@quota_app.callback()
def _quota() -> None:
    """Quotas of the clients of the brokers at --bootstrap-server, which is an option of zab."""


def _entity(user: str | None, client_id: str | None, *, default_user: bool, default_client_id: bool) -> _Entity:
    """Raises BadParameter."""
    found: list[tuple[str, str | None]] = []
    for type_, name, is_default in ((_USER, user, default_user), (_CLIENT, client_id, default_client_id)):
        if name is not None and is_default:
            raise typer.BadParameter(f"name one, or the default: --{type_} or --default-{type_}")
        if name is not None or is_default:
            found.append((type_, name))
    return tuple(found)


def _named(entity: _Entity) -> _Entity:
    """Raises BadParameter."""
    if not entity:
        raise typer.BadParameter(
            "whose? --user, --client-id, --default-user, --default-client-id, or one of both kinds"
        )
    return entity


def _values(texts: list[str]) -> list[tuple[str, float]]:
    """Raises BadParameter."""
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not (key and equals and 0 <= number < math.inf):
            raise typer.BadParameter(f"{text!r} is no KEY=NUMBER, such as producer_byte_rate=1048576")
        found.append((key, number))
    return found


@quota_app.command("list")
@timed
def list_command(
    context: typer.Context,
    user: UserOption = None,
    client_id: ClientOption = None,
    default_user: DefaultUserOption = False,
    default_client_id: DefaultClientOption = False,
    json: JsonOption = False,
) -> None:
    """Print quotas: all of them, or those of a user or client id, also together with another one."""
    entity = _entity(user, client_id, default_user=default_user, default_client_id=default_client_id)

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            _tell(_described(admin, entity, is_whole=False), json=json)

    carry_out(context, work, writes=False)


@quota_app.command("set")
@timed
def set_command(
    context: typer.Context,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=NUMBER…",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate.",
        ),
    ],
    user: UserOption = None,
    client_id: ClientOption = None,
    default_user: DefaultUserOption = False,
    default_client_id: DefaultClientOption = False,
    json: JsonOption = False,
) -> None:
    """Set quotas of a user or client id, and print all that it has."""
    entity = _named(_entity(user, client_id, default_user=default_user, default_client_id=default_client_id))
    ops = [(key, number, False) for key, number in _values(values)]
    _change(context, entity, ops, json=json)


@quota_app.command("remove")
@timed
def remove_command(
    context: typer.Context,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY…]", help="Only these.", show_default=False)] = None,
    user: UserOption = None,
    client_id: ClientOption = None,
    default_user: DefaultUserOption = False,
    default_client_id: DefaultClientOption = False,
    json: JsonOption = False,
) -> None:
    """Remove quotas of a user or client id, all or some of them, and print what it has left."""
    entity = _named(_entity(user, client_id, default_user=default_user, default_client_id=default_client_id))
    _change(context, entity, [(key, 0.0, True) for key in keys] if keys else None, json=json)


def _change(context: typer.Context, entity: _Entity, ops: list[tuple[str, float, bool]] | None, *, json: bool) -> None:
    """ops: key, value, and whether it is removed; None: all are."""

    def work(brokers: Brokers) -> None:
        from kafka.protocol.admin import AlterClientQuotasRequest

        with brokers.admin() as admin:
            rows = list(_described(admin, entity, is_whole=True))
            wanted = [(row["quota"], 0.0, True) for row in rows] if ops is None else ops
            if wanted:
                request = AlterClientQuotasRequest(entries=[(list(entity), wanted)], validate_only=False)
                [altered] = _sent(admin, request).entries
                if altered.error_code:
                    raise RefusedError(_subject(entity), altered.error_code, altered.error_message)
                rows = _after(rows, entity, wanted)
            _tell(rows, json=json)

    carry_out(context, work)


def _after(rows: list[dict[str, Any]], entity: _Entity, ops: list[tuple[str, float, bool]]) -> list[dict[str, Any]]:
    """What an entity has once this is done. Another broker than the one that was asked may learn of it later."""
    values = {row["quota"]: row["value"] for row in rows}
    for key, number, is_removed in ops:
        values.pop(key, None)
        if not is_removed:
            values[key] = _number(number)
    return [_row(entity, key, value) for key, value in values.items()]


def _described(admin: Any, entity: _Entity, *, is_whole: bool) -> Iterator[dict[str, Any]]:
    """is_whole: those of the entity alone. Raises RefusedError."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    components = [(type_, _MATCHES_DEFAULT if name is None else _EXACT, name) for type_, name in entity]
    answer = _sent(admin, DescribeClientQuotasRequest(components=components, strict=is_whole))
    if answer.error_code:
        raise RefusedError(_subject(entity), answer.error_code, answer.error_message)
    for entry in answer.entries:
        found = tuple((each.entity_type, each.entity_name) for each in entry.entity)
        for each in entry.values:
            yield _row(found, each.key, _number(each.value))


def _sent(admin: Any, request: Any) -> Any:
    """The answer to a request for which kafka-python has no method."""
    return admin._manager.run(admin._manager.send, request)


def _subject(entity: _Entity) -> str:
    return " ".join(f"{type_} {_DEFAULT if name is None else name}" for type_, name in entity)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _row(entity: _Entity, key: str, value: float) -> dict[str, Any]:
    names = {type_: _DEFAULT if name is None else name for type_, name in entity}
    return {"user": names.get(_USER), "client_id": names.get(_CLIENT), "quota": key, "value": value}


def _tell(rows: Any, *, json: bool) -> None:
    lines = sorted(rows, key=lambda line: tuple(str(each or "") for each in line.values()))
    if json:
        for line in lines:
            say(json_line(line))
    elif lines:
        texts = [tuple(in_line(cell(each)) for each in line.values()) for line in lines]
        for text in columns([_HEAD, *texts]):
            say(text)
