"""Splits a line that is not finished yet into words, by the rules that shells and Python's `shlex` have in common.

They differ in what a backslash between double quotes takes away from the next character; before others it stands for
itself.
"""

from typing import Final

__all__ = ["IN_SHELLS", "IN_SHLEX", "split_line"]

IN_SHELLS: Final = '"\\$`'
IN_SHLEX: Final = '"\\'
"""What a backslash between double quotes quotes."""


def split_line(line: str, escaped: str) -> tuple[list[str], str, str]:
    """The words of an unfinished line but the last; the last as it is typed, and what it stands for. escaped:
    IN_SHELLS or IN_SHLEX."""
    words: list[str] = []
    start, value, quote, is_escaped, is_begun = 0, "", "", False, False
    for at, character in enumerate(line):
        if is_escaped:
            value += character if quote != '"' or character in escaped else "\\" + character
            is_escaped = False
        elif character == "\\" and quote != "'":
            is_escaped = is_begun = True
        elif quote:
            quote, value = ("", value) if character == quote else (quote, value + character)
        elif character in "'\"":
            quote, is_begun = character, True
        elif character.isspace():
            if is_begun:
                words.append(value)
            start, value, is_begun = at + 1, "", False
        else:
            value, is_begun = value + character, True
    return words, line[start:], value
