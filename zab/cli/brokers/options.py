"""Arguments and options of several commands for brokers, and how partitions and settings are written in them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

import typer

__all__ = [
    "GroupArgument",
    "OtherTopicArgument",
    "TopicArgument",
    "assignments_of",
    "settings_of",
    "topic_partitions_of",
]

_ASSIGNMENT: Final = re.compile(r"([0-9]{1,10})=([0-9]{1,10}(?:,[0-9]{1,10})*)")
_TOPIC: Final = re.compile(r"([^:]+)(?::([0-9]{1,10}(?:,[0-9]{1,10})*))?")


def _complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    from zab.cli.brokers.names import complete_topic

    return complete_topic(context, incomplete)


def _complete_group(context: typer.Context, incomplete: str) -> list[str]:
    from zab.cli.brokers.names import complete_group

    return complete_group(context, incomplete)


def _argument(metavar: str, complete: Any) -> Any:
    return typer.Argument(metavar=metavar, show_default=False, autocompletion=complete)


TopicArgument: TypeAlias = Annotated[str, _argument("TOPIC", _complete_topic)]
OtherTopicArgument: TypeAlias = Annotated[str | None, _argument("[TOPIC]", _complete_topic)]
GroupArgument: TypeAlias = Annotated[str, _argument("GROUP", _complete_group)]


def settings_of(texts: list[str] | None, option: str) -> dict[str, str]:
    """`key=value` of each. Raises BadParameter."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{text!r} is no key=value", param_hint=option)
        if key in found:
            raise typer.BadParameter(f"{key} is there twice", param_hint=option)
        found[key] = value
    return found


def assignments_of(texts: list[str] | None) -> dict[int, list[int]]:
    """`PARTITION=BROKER,…` of each: the brokers by partition. Raises BadParameter."""
    found: dict[int, list[int]] = {}
    for text in texts or ():
        parts = _ASSIGNMENT.fullmatch(text)
        if parts is None:
            raise typer.BadParameter(f"{text!r} is no PARTITION=BROKER,…, such as 0=1,2", param_hint="--assign")
        if int(parts[1]) in found:
            raise typer.BadParameter(f"partition {parts[1]} is there twice", param_hint="--assign")
        found[int(parts[1])] = [int(each) for each in parts[2].split(",")]
    return found


def topic_partitions_of(texts: list[str] | None) -> dict[str, list[int] | None]:
    """`TOPIC` or `TOPIC:PARTITION,…` of each; None is all of its partitions. Raises BadParameter."""
    found: dict[str, list[int] | None] = {}
    for text in texts or ():
        parts = _TOPIC.fullmatch(text)
        if parts is None:
            raise typer.BadParameter(f"{text!r} is no TOPIC or TOPIC:PARTITION,…", param_hint="--topic")
        if parts[1] in found:
            raise typer.BadParameter(f"{parts[1]} is there twice", param_hint="--topic")
        found[parts[1]] = None if parts[2] is None else [int(each) for each in parts[2].split(",")]
    return found
