"""`zab topic`: what topics there are, as Kafka's `kafka-topics.sh`, `kafka-configs.sh` and
`kafka-reassign-partitions.sh` have it together.

Not here: `describe` (`topic_describe.py`), `alter` (`topic_alter.py`).
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.options import TopicArgument, assignments_of, settings_of
from zab.cli.brokers.refusals import RefusedError
from zab.cli.brokers.topic_alter import alter_command
from zab.cli.brokers.topic_describe import describe_command
from zab.cli.brokers.topic_partitions import id_text, is_offline, is_under_replicated
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import count_of, in_line, say
from zab.kafka.errors import ErrorCode

__all__ = ["topic_app"]

topic_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@topic_app.callback()
def _topic() -> None:
    """Topics of the brokers at --bootstrap-server, which is an option of zab."""


@topic_app.command("create")
def create_command(
    context: typer.Context,
    topic: TopicArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", metavar="N", min=1, help="Default: the broker's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", metavar="N", min=1, help="Default: the broker's."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="A setting. May be repeated.")
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--assign", metavar="PARTITION=BROKER,…", help="The replicas of a partition. May be repeated."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if it exists.")] = False,
    json: JsonOption = False,
) -> None:
    """Create a topic."""
    settings, assignments = settings_of(config, "--config"), assignments_of(assign)
    if assignments and (partitions is not None or replication_factor is not None):
        raise typer.BadParameter("--assign says how many partitions and replicas there are", param_hint="--assign")
    wanted = {
        "num_partitions": -1 if partitions is None else partitions,
        "replication_factor": -1 if replication_factor is None else replication_factor,
        "assignments": assignments,
        "configs": settings,
    }

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            [made] = admin.create_topics({topic: wanted}, raise_errors=False)["topics"]
            is_there = made["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
            if made["error_code"] and not (is_there and if_not_exists):
                raise RefusedError(topic, made["error_code"], made["error_message"])
            _wait_for_leaders(admin, topic, brokers.wait_ms)
            found = brokers.described(admin, topic)
        parts = found["partitions"]
        factor = max((len(each["replica_nodes"]) for each in parts), default=0)
        if json:
            fields = {"topic": topic, "id": id_text(found["topic_id"]), "partitions": len(parts)}
            say(json_line({**fields, "replication_factor": factor, "is_new": not is_there}))
        elif not is_there:
            say(f"Created {topic}: {count_of(len(parts), 'partition')}, replication factor {factor}")

    carry_out(context, work)


def _wait_for_leaders(admin: Any, topic: str, wait_ms: int) -> None:
    """Brokers learn of a topic after it is created. One that has no leader yet exists nevertheless."""
    from kafka.errors import KafkaTimeoutError

    try:
        admin.wait_for_topics([topic], timeout_ms=wait_ms)
    except KafkaTimeoutError:
        say(f"zab: {topic} exists, but not each of its partitions has a leader yet", sys.stderr)


@topic_app.command("list")
def list_command(
    context: typer.Context,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics of the brokers.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the names of all topics."""

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            topics = admin.describe_topics()
        for each in sorted(topics, key=lambda topic: str(topic["name"])):
            if internal or not each["is_internal"]:
                say(json_line(_fields(each)) if json else in_line(each["name"]))

    carry_out(context, work, writes=False)


def _fields(topic: dict[str, Any]) -> dict[str, Any]:
    parts = topic["partitions"]
    return {
        "topic": topic["name"],
        "id": id_text(topic["topic_id"]),
        "is_internal": topic["is_internal"],
        "partitions": len(parts),
        "replication_factor": max((len(each["replica_nodes"]) for each in parts), default=0),
        "under_replicated": sum(map(is_under_replicated, parts)),
        "offline": sum(map(is_offline, parts)),
    }


@topic_app.command("delete")
def delete_command(
    context: typer.Context,
    topic: TopicArgument,
    json: JsonOption = False,
) -> None:
    """Delete a topic with all its records."""

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            [gone] = admin.delete_topics([topic], raise_errors=False)["topics"]
        if gone["error_code"]:
            detail = "there is no such topic" if gone["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
            raise RefusedError(topic, gone["error_code"], gone.get("error_message") or detail)
        say(json_line({"topic": topic}) if json else f"Deleted {topic}")

    carry_out(context, work)


topic_app.command("describe")(describe_command)
topic_app.command("alter")(alter_command)
