"""Completion at the prompt of `zab shell`: commands in the first word, paths in those after it.

A path with blanks or quotes in it is completed with quotes around it, so that the shell can read it again. A relative
path starts at the shell's current znode.
"""

import shlex
from collections.abc import Callable, Iterable
from typing import Final

import trio
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from zab.cli.terminal import on_terminal
from zab.cli.unfinished_line import IN_SHLEX, split_line
from zab.cli.znodes.options import resolved
from zab.client import Client, RequestError

__all__ = ["ShellCompleter", "completer"]

COMPLETIONS_COUNT_MAX: Final = 1_000
_TAKE_PATHS: Final = frozenset({"cp", "mv"})
"""Commands with several paths."""


class ShellCompleter(Completer):
    """Completes command names in the first word, and paths in later ones: words that start with a slash, and relative
    paths as the first argument, or as any if the command takes several.

    list_children: lists the children of a path, from the worker thread. place: where relative paths start.
    """

    def __init__(
        self, names: Iterable[str], list_children: Callable[[str], list[str]], place: Callable[[], str] = lambda: "/"
    ) -> None:
        self._names = sorted(names)
        self._list_children = list_children
        self._place = place

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        first, space, _ = before.lstrip().partition(" ")
        if not space:
            yield from (Completion(name + " ", -len(first)) for name in self._names if name.startswith(first))
            return
        _, typed, word = split_line(before, IN_SHLEX)
        if not word.startswith("/") and not self._takes_path(before[: len(before) - len(typed)], word):
            return
        parent, slash, start = word.rpartition("/")
        above = resolved(self._place(), parent + slash).rstrip("/") or "/"
        names = [name for name in self._list_children(above) if name.startswith(start)]
        for name in names[:COMPLETIONS_COUNT_MAX]:
            yield Completion(shlex.quote(f"{parent}{slash}{name}"), -len(typed), display=on_terminal(name))

    def _takes_path(self, before: str, word: str) -> bool:
        """Whether a relative path may follow these words."""
        try:
            command, *words = shlex.split(before)
        except ValueError:
            return False
        if word.startswith("-"):
            return False
        return command in _TAKE_PATHS or all(each.startswith("-") for each in words)


def completer(session: Callable[[], Client], names: Iterable[str], place: Callable[[], str]) -> ShellCompleter:
    """The completer of a shell; called in trio's thread, while the completer runs in the prompt's."""

    async def children(path: str) -> list[str]:
        # Completion must not block the prompt while no server answers.
        with trio.move_on_after(1):
            try:
                return await session().get_children(path)
            except RequestError:
                return []
        return []

    token = trio.lowlevel.current_trio_token()
    return ShellCompleter(names, lambda path: trio.from_thread.run(children, path, trio_token=token), place)
