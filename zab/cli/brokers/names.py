"""Completes names of topics and groups at the prompt of the user's own shell (`zab.cli.completion`).

It asks the brokers that the line, the environment or the profile names. It takes at most a second; after any error it
completes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import typer
from attrs import evolve

from zab.cli.brokers.clients import Brokers, brokers_of
from zab.cli.connection_options import connection_of

__all__ = ["complete_group", "complete_topic"]

COMPLETION_SECONDS: Final = 1.0
COMPLETIONS_COUNT_MAX: Final = 1_000


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """The topics that it can be completed to; itself if there are none, so that the shell offers no local files."""

    def ask(admin: Any) -> list[str]:
        return [each["name"] for each in admin.describe_topics() if not each["is_internal"]]

    return _complete(context, incomplete, ask)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Does the same with groups."""
    return _complete(context, incomplete, lambda admin: [each["group_id"] for each in admin.list_groups()])


def _complete(context: typer.Context, incomplete: str, ask: Callable[[Any], list[str]]) -> list[str]:
    try:
        names = sorted(each for each in _ask(context, ask) if each.startswith(incomplete))
    except (ImportError, ValueError, OSError, RuntimeError, typer.Exit):
        # The command says it when it is called.
        names = []
    return names[:COMPLETIONS_COUNT_MAX] or [incomplete]


def _ask(context: typer.Context, ask: Callable[[Any], list[str]]) -> list[str]:
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    root: Any = context.find_root()
    options = evolve(connection_of(root), wait_ms=round(COMPLETION_SECONDS * 1000))
    brokers: Brokers = brokers_of(options, request_ms=options.wait_ms)
    from kafka.errors import KafkaError

    try:
        with brokers.admin() as admin:
            return ask(admin)
    except KafkaError:
        return []
