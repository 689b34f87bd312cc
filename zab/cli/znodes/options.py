"""The arguments and options that several znode commands have, and how data and ACLs are written in them."""

import base64
import binascii
import fcntl
import os
import stat
import struct
import sys
import termios
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.cli.terminal import say
from zab.client import Acl, parse_acl

__all__ = [
    "ACL_HELP",
    "Base64Option",
    "DestinationArgument",
    "FileOption",
    "OtherPathArgument",
    "PathArgument",
    "SourceArgument",
    "StatOption",
    "VersionOption",
    "WatchOption",
    "acl_of",
    "data_of",
    "tell_unread_input",
]


def _complete_path(context: typer.Context, incomplete: str) -> list[str]:
    from zab.cli.znodes.paths import complete_path

    return complete_path(context, incomplete)


PathArgument = Annotated[str, typer.Argument(metavar="PATH", show_default=False, autocompletion=_complete_path)]
OtherPathArgument = Annotated[
    str | None, typer.Argument(metavar="PATH", show_default=False, autocompletion=_complete_path)
]
SourceArgument = Annotated[str, typer.Argument(metavar="SRC", show_default=False, autocompletion=_complete_path)]
DestinationArgument = Annotated[str, typer.Argument(metavar="DST", show_default=False, autocompletion=_complete_path)]
StatOption = Annotated[bool, typer.Option("-s", "--stat", help="Print the stat too.")]
WatchOption = Annotated[bool, typer.Option("-w", "--watch", help="Leave a watch for one event.")]
VersionOption = Annotated[int, typer.Option("-v", "--version", help="Only this version; -1 is any.")]
Base64Option = Annotated[bool, typer.Option("-b", "--base64", help="DATA is base64.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Take the data from this file; - is standard input.")]

# Colons on both sides of a word are a picture for the library that draws the help, if they make the name of one.
ACL_HELP: Final = "scheme:<id>:cdrwa, several separated by commas."

_STDIN: Final = Path("-")
_COUNT: Final = struct.Struct("i")


def data_of(text: str | None, file: Path | None, is_base64: bool) -> bytes | None:
    """The data that the arguments name; None without any. Raises BadParameter."""
    if file is not None and text is not None:
        raise typer.BadParameter("give either DATA or --file")
    if file is not None:
        try:
            data = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--file") from error
    elif text is None:
        return None
    else:
        # surrogateescape: bytes of the command line that are not UTF-8 arrive in this form.
        data = text.encode("utf-8", "surrogateescape")
    if not is_base64:
        return data
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise typer.BadParameter(f"not base64: {error}", param_hint="DATA") from error


def tell_unread_input() -> None:
    """Say that standard input is not read, where something is in it: somebody may have meant it to be the data."""
    if _has_input():
        say("zab: standard input is not read; --file - takes the data from it", sys.stderr)


def _has_input() -> bool:
    """Whether bytes wait in standard input, a file or a pipe. Nothing is taken out of it."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) < os.fstat(descriptor).st_size
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return bool(_COUNT.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_COUNT.size)))[0])
    except (AttributeError, OSError, ValueError):
        # There is none, or it is closed.
        return False
    return False


def acl_of(text: str) -> tuple[Acl, ...]:
    """The entries of an ACL. Raises BadParameter."""
    try:
        return parse_acl(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ACL") from error
