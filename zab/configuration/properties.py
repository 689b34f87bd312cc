"""The syntax of a Java properties file, which is the syntax of `zoo.cfg`: text in, (key, value, line) out.

A *natural* line ends with LF, CR or CR LF. Blank ones and those whose first character after white space is `#` or `!`
are skipped. A natural line that ends with an odd number of backslashes goes on in the next one, whose leading white
space is dropped; comments cannot be continued. In the *logical* line that results

    key      up to the first `=`, `:` or white space without a backslash before it
    gap      white space, at most one `=` or `:`, white space
    value    the rest, trailing white space included
    escapes  \\t \\n \\r \\f, \\uXXXX, and any other character after a backslash stands for itself

White space is space, tab and form feed. Values come back with white space cut at both ends, as ZooKeeper's reader does.

Not here: which keys there are and what they mean (`config.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import frozen

_WHITE_SPACE = " \t\f"
_NATURAL_LINE_END = re.compile(r"\r\n|\r|\n")
_NATURAL_LINE_WITH_END = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]{4}")
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """The text breaks the syntax: the only way to is a `\\u` without four hexadecimal digits.

    `line` counts natural lines from 1.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@frozen
class Property:
    """One `key=value`; `line` is the natural line, from 1, on which its key begins."""

    key: str
    value: str
    line: int
    fault: str = ""
    """What is wrong with the syntax: then there is no value, and maybe no key."""


def parse_properties(text: str) -> list[Property]:
    """All entries of `text` in their order, repeated keys included (in Java the last one wins). Raises
    PropertiesError."""
    entries = read_properties(text)
    for entry in entries:
        if entry.fault:
            raise PropertiesError(entry.line, entry.fault)
    return entries


def read_properties(text: str) -> list[Property]:
    """All entries of `text`, those that break the syntax included."""
    return [_entry(number, *_split(line)) for number, line in _logical_lines(text)]


def _entry(line: int, key_text: str, value_text: str) -> Property:
    key = ""
    try:
        key = _unescape(key_text, line)
        return Property(key, _unescape(value_text, line).strip(), line)
    except PropertiesError as error:
        return Property(key, "", line, error.reason)


def without(text: str, is_meant: Callable[[str], bool]) -> str:
    """The text without the entries whose key is meant; all the rest of it, comments too, is as it was."""
    first_lines = {entry.line for entry in parse_properties(text) if is_meant(entry.key)}
    kept, is_cut = [], False
    for number, natural in enumerate(_NATURAL_LINE_WITH_END.findall(text), start=1):
        is_cut = is_cut or number in first_lines
        if not is_cut:
            kept.append(natural)
        is_cut = is_cut and _ends_with_open_backslash(natural.rstrip("\r\n"))
    return "".join(kept)


def escaped(text: str) -> str:
    """A value as written in such a file: every character beyond printable ASCII, and the backslash, escaped."""
    return "".join(
        character if " " <= character <= "~" and character != "\\" else _escape(character) for character in text
    )


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first natural line, joined text) of each logical line that is neither blank nor a comment."""
    gathered, first = "", 0
    going_on = False
    for number, natural in enumerate(_NATURAL_LINE_END.split(text), start=1):
        line = natural.lstrip(_WHITE_SPACE)
        # Before anything of a logical line was gathered, comments are still recognised, after a lone backslash too.
        if not gathered and line.startswith(("#", "!")):
            going_on = False
            continue
        if not gathered:
            first = number
        going_on = _ends_with_open_backslash(line)
        gathered += line[:-1] if going_on else line
        if not going_on and gathered:
            yield first, gathered
            gathered = ""
    if going_on and gathered:
        yield first, gathered


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _WHITE_SPACE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_WHITE_SPACE)
    if rest.startswith(("=", ":")):
        rest = rest[1:].lstrip(_WHITE_SPACE)
    return key, rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    characters = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            characters.append(character)
            continue
        # A backslash at the very end can only come from the end of the file; Java drops it.
        named = text[position : position + 1]
        position += 1
        if named == "u":
            digits = text[position : position + 4]
            if not _HEX_DIGITS.fullmatch(digits):
                raise PropertiesError(line, "\\u needs four hexadecimal digits")
            characters.append(chr(int(digits, 16)))
            position += 4
        else:
            characters.append(_NAMED_ESCAPES.get(named, named))
    # Java writes a character beyond U+FFFF as two escapes.
    return "".join(characters).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
