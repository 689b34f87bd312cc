"""JAAS files: which login modules a program uses, in sections, as Java reads them.

    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        user_super="one"   // a comment
        user_bob="another";
    };

A section has any number of modules, each with a class, one of the words of `FLAGS`, and options with a value each, up
to the semicolon. A value is a word or a text in double quotes, with the escapes of Java. There are comments of both
kinds.

What Java would put into a value (`${user.home}`) is refused: this is no JVM, and has no such properties. Values are
secrets: no error shows one.

Limits: FILE_BYTES_MAX. Not here: reading files, and what the modules are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

FILE_BYTES_MAX: Final = 1 << 20
FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

_LEXEME = re.compile(
    r"""(?P<space>\s+|//[^\r\n]*|/\*(?s:.)*?\*/)
    |   (?P<quoted>"(?:[^"\\\r\n]|\\[^\r\n])*+")
    |   (?P<word>[\w$.*\-]+)
    |   (?P<sign>[{};=])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(Exception):
    """The text is no JAAS file; `line` counts from 1. The reason shows only names of sections."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@frozen
class LoginModule:
    """One module of a section."""

    name: str
    """The name of its class."""
    flag: str
    options: Mapping[str, str] = field(repr=False)
    line: int


@frozen
class _Lexeme:
    kind: str
    text: str = field(repr=False)
    line: int


def parse_jaas(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Section → its modules. Raises JaasError."""
    lexemes = _Lexemes(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while (named := lexemes.take()).kind != "end":
        if named.kind not in ("word", "quoted"):
            raise JaasError(named.line, "the name of a section is expected")
        if named.text in sections:
            raise JaasError(named.line, f"there is a section {named.text} already")
        sections[named.text] = tuple(_modules(lexemes))
    return sections


def _modules(lexemes: _Lexemes) -> Iterator[LoginModule]:
    lexemes.sign("{")
    while (name := lexemes.take()).text != "}" or name.kind != "sign":
        if name.kind not in ("word", "quoted"):
            raise JaasError(name.line, "the class of a login module, or `}`, is expected")
        flag = lexemes.take()
        if flag.kind != "word" or flag.text.lower() not in FLAGS:
            raise JaasError(flag.line, f"one of {', '.join(sorted(FLAGS))} is expected after the class")
        yield LoginModule(name.text, flag.text.lower(), _options(lexemes), name.line)
    lexemes.sign(";")


def _options(lexemes: _Lexemes) -> dict[str, str]:
    options: dict[str, str] = {}
    while (key := lexemes.take()).text != ";" or key.kind != "sign":
        if key.kind not in ("word", "quoted"):
            raise JaasError(key.line, "the name of an option, or `;`, is expected")
        if key.text in options:
            raise JaasError(key.line, "the module has this option already")
        lexemes.sign("=")
        value = lexemes.take()
        if value.kind not in ("word", "quoted"):
            raise JaasError(value.line, "the value of an option is expected")
        if "${" in value.text:
            raise JaasError(value.line, "properties of Java (${…}) are not known here: write what they stand for")
        options[key.text] = value.text
    return options


class _Lexemes:
    """The words, quoted texts and signs of a file, one after the other."""

    def __init__(self, text: str) -> None:
        self._found = _scanned(text)

    def take(self) -> _Lexeme:
        """The next one; at the end, one of the kind `end`, again and again."""
        return next(self._found)

    def sign(self, wanted: str) -> None:
        found = self.take()
        if found.kind != "sign" or found.text != wanted:
            raise JaasError(found.line, f"`{wanted}` is expected")


def _scanned(text: str) -> Iterator[_Lexeme]:
    if len(text) > FILE_BYTES_MAX:
        raise JaasError(1, f"the file has more than {FILE_BYTES_MAX} bytes")
    at, line = 0, 1
    while at < len(text):
        found = _LEXEME.match(text, at)
        if found is None:
            raise JaasError(line, "neither a word, nor a text in quotes that end in the same line, nor a sign")
        kind, written = found.lastgroup, found.group()
        assert kind is not None
        if kind == "quoted":
            yield _Lexeme(kind, _ESCAPE.sub(_unescaped, written[1:-1]), line)
        elif kind != "space":
            yield _Lexeme(kind, written, line)
        line += written.count("\n")
        at = found.end()
    while True:
        yield _Lexeme("end", "", line)


def _unescaped(escape: re.Match[str]) -> str:
    said = escape[1]
    return chr(int(said, 8)) if said[0] in "01234567" else _ESCAPED.get(said, said)
