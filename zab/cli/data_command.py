"""Commands whose arguments after the path are data, which may be a negative number.

    zab set /a -5 -v 3

No option begins with a digit, so such a word is data: `-5`, `-0.5`, `-.5e3`, `-5ms`. Other words that begin with a dash
are options; as data they must follow `--`.
"""

import re
from collections.abc import Collection
from typing import Any, Final

from typer.core import TyperCommand

__all__ = ["DataCommand", "numbers_last"]

_NUMBER: Final = re.compile(r"-\.?\d.*", re.DOTALL)


class DataCommand(TyperCommand):
    """Takes negative numbers as arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        valued = {name for each in self.params for name in each.opts if not getattr(each, "is_flag", True)}
        return super().parse_args(ctx, numbers_last(args, valued))


def numbers_last(words: list[str], valued: Collection[str]) -> list[str]:
    """The words with their arguments after a `--`, if a negative number is among these. valued: options with a value.

    The order of options and that of arguments stay.
    """
    options: list[str] = []
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments += rest
        elif _NUMBER.fullmatch(word) or word == "-" or not word.startswith("-"):
            arguments.append(word)
        else:
            options.append(word)
            if _wants_value(word, valued):
                options += [value for value in [next(rest, None)] if value is not None]
    return [*options, "--", *arguments] if any(map(_NUMBER.fullmatch, arguments)) else words


def _wants_value(word: str, valued: Collection[str]) -> bool:
    """Whether the value of the option, or of the last of several one-letter options, is the next word."""
    if word.startswith("--"):
        return word in valued
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in valued:
            return at == len(word)
    return False
