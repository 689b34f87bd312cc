"""Completes paths of the live tree at the prompt of the user's own shell (`zab.cli.completion`).

It asks the servers that the line, the environment or the profile names for one list of children. It takes at most a
second; after any error it completes nothing.

Not here: the prompt of `zab shell` (`completion.py`), which has a session already.
"""

from typing import Any, Final

import trio
import typer
from attrs import evolve

from zab.cli.connection_options import connection_of
from zab.cli.znodes.opening import opener
from zab.client import ZabError

__all__ = ["COMPLETION_SECONDS", "complete_path"]

COMPLETION_SECONDS: Final = 1.0
COMPLETIONS_COUNT_MAX: Final = 1_000


def complete_path(context: typer.Context, incomplete: str) -> list[str]:
    """The paths that it can be completed to; itself if there are none, so that the shell does not offer local files."""
    if not incomplete.startswith("/"):
        return [incomplete or "/"]
    parent, _, start = incomplete.rpartition("/")
    names = sorted(name for name in _children(context, parent or "/") if name.startswith(start))
    return [f"{parent}/{name}" for name in names[:COMPLETIONS_COUNT_MAX]] or [incomplete]


def _children(context: typer.Context, path: str) -> list[str]:
    root: Any = context.find_root()
    try:
        options = connection_of(root)
        open_client = opener(evolve(options, wait_ms=round(COMPLETION_SECONDS * 1000)))
    except (ValueError, typer.Exit):
        return []

    async def ask() -> list[str]:
        with trio.move_on_after(COMPLETION_SECONDS):
            async with open_client() as zk:
                return await zk.get_children(path)
        return []

    try:
        return trio.run(ask)
    except ZabError:
        return []
