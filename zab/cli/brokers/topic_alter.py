"""`zab topic alter TOPIC`: settings, more partitions, other replicas.

They are several requests, in this order. The first that is refused ends the command; what was done before is printed,
and stays. A reassignment goes on when the command has ended: `zab topic describe` shows the replicas of the moment.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.options import TopicArgument, assignments_of, settings_of
from zab.cli.brokers.refusals import RefusedError
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import count_of, say
from zab.kafka.errors import ErrorCode

__all__ = ["alter_command"]


def alter_command(
    context: typer.Context,
    topic: TopicArgument,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="Set a setting. May be repeated.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="Revert a setting to the broker's. May be repeated."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", metavar="N", min=1, help="The new number of partitions; it cannot decrease."
        ),
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--assign", metavar="PARTITION=BROKER,…", help="Move a partition to these brokers. May be repeated."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Change a topic. More partitions change where a key goes: records that are there stay where they are."""
    settings, assignments = settings_of(config, "--config"), assignments_of(assign)
    removed = delete_config or []
    if not (settings or removed or partitions or assignments):
        raise typer.BadParameter("give --config, --delete-config, --partitions or --assign")
    if both := settings.keys() & set(removed):
        raise typer.BadParameter(f"{min(both)} is set and deleted", param_hint="--delete-config")

    def tell(change: str, text: str, **fields: Any) -> None:
        say(json_line({"topic": topic, "change": change, **fields}) if json else text)

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            brokers.described(admin, topic)
            if settings or removed:
                _configure(admin, topic, settings, removed)
                for key in (*settings, *removed):
                    value = settings.get(key)
                    text = f"{topic}: {key} is the broker's" if value is None else f"{topic}: {key}={value}"
                    tell("config", text, key=key, value=value, partition=None, replicas=None, partitions=None)
            if partitions is not None:
                [grown] = admin.create_partitions({topic: partitions}, raise_errors=False).results
                if grown.error_code:
                    raise RefusedError(topic, grown.error_code, grown.error_message)
                text = f"{topic}: {count_of(partitions, 'partition')}"
                tell("partitions", text, key=None, value=None, partition=None, replicas=None, partitions=partitions)
            for partition, replicas in _reassign(admin, topic, assignments):
                text = f"{topic}-{partition}: moves to {','.join(map(str, replicas))}"
                fields = {"partition": partition, "replicas": replicas, "partitions": None}
                tell("assignment", text, key=None, value=None, **fields)

    carry_out(context, work)


def _configure(admin: Any, topic: str, settings: dict[str, str], removed: list[str]) -> None:
    """All in one request, which is done as a whole or refused."""
    from kafka.admin import ConfigResource

    changes: dict[str, tuple[str, str | None]] = {key: ("SET", value) for key, value in settings.items()}
    changes |= dict.fromkeys(removed, ("DELETE", None))
    # What keys there are is the broker's to say.
    answer = admin.alter_configs([ConfigResource("TOPIC", topic, changes)], raise_on_unknown=False)
    [result] = answer["topic"].values()
    if result != "OK":
        _, _, reason = result.partition(": ")
        raise RefusedError(topic, _code_in(result), reason or None)


def _code_in(text: str) -> int:
    """The code in `[Error 40] InvalidConfigurationError: …`, which is all that the library tells."""
    digits = text.removeprefix("[Error ").partition("]")[0]
    return int(digits) if digits.isdecimal() else ErrorCode.INVALID_CONFIG


def _reassign(admin: Any, topic: str, assignments: dict[int, list[int]]) -> list[tuple[int, list[int]]]:
    """What is under way now. Raises RefusedError for the first that is refused, after the others were begun."""
    from kafka import TopicPartition

    if not assignments:
        return []
    wanted = {TopicPartition(topic, number): replicas for number, replicas in assignments.items()}
    answer = admin.alter_partition_reassignments(wanted)
    refused = sorted((place.partition, error.errno) for place, error in answer.items() if error is not None)
    if refused:
        number, code = refused[0]
        begun = [str(place.partition) for place, error in answer.items() if error is None]
        if begun:
            say(f"zab: under way: partitions {', '.join(begun)}", sys.stderr)
        raise RefusedError(f"{topic}-{number}", code)
    return list(assignments.items())
