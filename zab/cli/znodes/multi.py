"""`zab multi`: the lines of a file, or of standard input, as one transaction.

    create [-e] [-s] [-c] [-t MS] [-b] PATH [DATA] [ACL]
    set [-v VERSION] [-b] PATH DATA
    delete [-v VERSION] PATH
    check [-v VERSION] PATH

Words, quotes and comments are those of the shell's lines: `#` begins a comment, and an open quote continues in the next
line. A word that begins with a dash and is not an option has to follow `--`.

Either everything is done, or nothing. Errors name the line: a line that cannot be read is wrong usage (exit code 2), a
refusal is 1.
"""

import base64
import binascii
import shlex
import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from attrs import define

from zab.cli.arguments import ConnectionOptions
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.walking import patient
from zab.client import OPEN_ACL, Acl, Client, Part, RequestError, Stat, Transaction, ZabError, parse_acl

__all__ = ["multi_command", "read_lines"]

INPUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Size of a file; a request holds less."""
_STDIN: Final = Path("-")
_OPEN_QUOTE: Final = "No closing quotation"
"""The message of `shlex` for an open quote."""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{self.prog}: {message}")


def _parser(name: str) -> _Parser:
    return _Parser(prog=name, add_help=False, allow_abbrev=False)


def _parsers() -> dict[str, _Parser]:
    create, change, delete, check = (_parser(name) for name in ("create", "set", "delete", "check"))
    for option, name in (("-e", "--ephemeral"), ("-s", "--sequence"), ("-c", "--container")):
        create.add_argument(option, name, action="store_true")
    create.add_argument("-t", "--ttl", type=int)
    for each in (create, change):
        each.add_argument("-b", "--base64", action="store_true")
    for each in (change, delete, check):
        each.add_argument("-v", "--version", type=int, default=-1)
    for each in (create, change, delete, check):
        each.add_argument("path")
    create.add_argument("data", nargs="?")
    create.add_argument("acl", nargs="?")
    change.add_argument("data")
    return {each.prog: each for each in (create, change, delete, check)}


_PARSERS: Final = _parsers()


@define
class Line:
    """One operation. number: that of the line in which it begins."""

    number: int
    name: str
    words: Namespace
    data: bytes | None = None
    acl: tuple[Acl, ...] = OPEN_ACL

    def add_to(self, transaction: Transaction) -> Part[Any]:
        path = self.words.path
        if self.name == "create":
            mode = {"ephemeral": self.words.ephemeral, "sequence": self.words.sequence}
            more = {"container": self.words.container, "ttl_ms": self.words.ttl}
            return transaction.create(path, self.data, self.acl, **mode, **more)
        if self.name == "set":
            return transaction.set(path, self.data, self.words.version)
        if self.name == "delete":
            return transaction.delete(path, self.words.version)
        return transaction.check(path, self.words.version)


class LineError(ZabError):
    """An operation was refused."""

    def __init__(self, line: Line, error: RequestError) -> None:
        super().__init__(f"line {line.number}: {error.name} {line.words.path}: {error.detail or error.meaning}")


def multi_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="- is standard input.")] = _STDIN,
    json: JsonOption = False,
) -> None:
    """Each line is create, set, delete or check, with path, data and options as the commands have them."""
    if file == _STDIN and not isinstance(context.obj, ConnectionOptions):
        raise typer.BadParameter("in the shell, name a FILE")
    lines = list(read_lines(_text_of(file)))
    if not lines:
        raise typer.BadParameter("there is no operation in it")

    async def work(zk: Client, _caller: Caller) -> None:
        transaction = patient(zk).transaction()
        parts: list[Part[Any]] = []
        for line in lines:
            try:
                parts.append(line.add_to(transaction))
            except RequestError as error:
                raise LineError(line, error) from None
        try:
            await transaction.commit()
        except RequestError as error:
            if error.index is None:
                raise
            raise LineError(lines[error.index], error) from None
        for line, part in zip(lines, parts, strict=True):
            _show(line, part.result, json=json)

    perform(context, work)


def _show(line: Line, result: object, *, json: bool) -> None:
    path = result if isinstance(result, str) else line.words.path
    if json:
        stat = stat_value(result) if isinstance(result, Stat) else None
        say(json_line({"line": line.number, "operation": line.name, "path": path, "stat": stat}))
    elif line.name == "create":
        say(f"Created {path}")


def _text_of(file: Path) -> str:
    try:
        if file == _STDIN:
            data = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
        else:
            with file.open("rb") as source:
                data = source.read(INPUT_BYTES_MAX + 1)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    if len(data) > INPUT_BYTES_MAX:
        raise typer.BadParameter(f"{file}: it is larger than {INPUT_BYTES_MAX:,} bytes")
    return data.decode("utf-8", "surrogateescape")


def read_lines(text: str) -> Iterator[Line]:
    """The operations. Raises BadParameter."""
    unfinished, begun_at = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        begun_at = begun_at if unfinished else number
        whole = unfinished + line
        try:
            words = shlex.split(whole, comments=True)
            unfinished = ""
            if words:
                yield _line(begun_at, words)
        except (ValueError, ArgumentError) as error:
            if str(error) != _OPEN_QUOTE:
                raise typer.BadParameter(f"line {begun_at}: {error}") from None
            unfinished = whole + "\n"
    if unfinished:
        raise typer.BadParameter(f"line {begun_at}: {_OPEN_QUOTE}")


def _line(number: int, words: list[str]) -> Line:
    name, *rest = words
    if name not in _PARSERS:
        raise ValueError(f"{name!r} is none of {', '.join(_PARSERS)}")
    line = Line(number, name, _PARSERS[name].parse_args(rest))
    text = getattr(line.words, "data", None)
    if text is not None:
        line.data = text.encode("utf-8", "surrogateescape")
        if line.words.base64:
            try:
                line.data = base64.b64decode(line.data, validate=True)
            except binascii.Error as error:
                raise ValueError(f"{name}: its data is no base64: {error}") from None
    if getattr(line.words, "acl", None) is not None:
        line.acl = parse_acl(line.words.acl)
    return line
