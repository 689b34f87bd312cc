"""Completion at the prompt of `zab shell`: commands in the first word, paths in those after it.

A path with blanks or quotes in it is completed with quotes around it, as the shell wants to read it again.
"""

import shlex
from collections.abc import Callable, Iterable
from typing import Final

import trio
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from zab.cli.terminal import on_terminal
from zab.cli.znodes.subtree import child_path
from zab.client import Client, RequestError

__all__ = ["ShellCompleter", "completer", "last_word"]

COMPLETIONS_COUNT_MAX: Final = 1_000


class ShellCompleter(Completer):
    """Completes command names in the first word, and paths in every later one that starts with a slash.

    list_children: children's names of a path, from the worker thread.
    """

    def __init__(self, names: Iterable[str], list_children: Callable[[str], list[str]]) -> None:
        self._names = sorted(names)
        self._list_children = list_children

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        first, space, _ = before.lstrip().partition(" ")
        if not space:
            yield from (Completion(name + " ", -len(first)) for name in self._names if name.startswith(first))
            return
        typed, word = last_word(before)
        if not word.startswith("/"):
            return
        parent, _, start = word.rpartition("/")
        names = [name for name in self._list_children(parent or "/") if name.startswith(start)]
        for name in names[:COMPLETIONS_COUNT_MAX]:
            path = child_path(parent or "/", name)
            yield Completion(shlex.quote(path), -len(typed), display=on_terminal(name))


def last_word(line: str) -> tuple[str, str]:
    """The last word of an unfinished line: as it is typed, and what it stands for; the rules are those of `shlex`."""
    start, value, quote, is_escaped = 0, "", "", False
    for at, character in enumerate(line):
        if is_escaped:
            # Between double quotes a backslash stands for itself, but before these two.
            value += character if quote != '"' or character in '"\\' else "\\" + character
            is_escaped = False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote, value = ("", value) if character == quote else (quote, value + character)
        elif character in "'\"":
            quote = character
        elif character.isspace():
            start, value = at + 1, ""
        else:
            value += character
    return line[start:], value


def completer(zk: Client, names: Iterable[str]) -> ShellCompleter:
    """The completer of a session, from trio's thread; it runs in the prompt's."""

    async def children(path: str) -> list[str]:
        # Completion while no server answers must not hold up the prompt.
        with trio.move_on_after(1):
            try:
                return await zk.get_children(path)
            except RequestError:
                return []
        return []

    token = trio.lowlevel.current_trio_token()
    return ShellCompleter(names, lambda path: trio.from_thread.run(children, path, trio_token=token))
