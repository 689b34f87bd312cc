"""Arguments and options of several znode commands, and how data and ACLs are written in them."""

import base64
import binascii
import fcntl
import os
import stat
import struct
import sys
import termios
from pathlib import Path
from typing import Annotated, Any, Final

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
    "resolve_path",
    "resolved",
    "tell_unread_input",
]


def _complete_path(context: typer.Context, incomplete: str) -> list[str]:
    from zab.cli.znodes.paths import complete_path

    return complete_path(context, incomplete)


def resolve_path(context: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """A path argument; in the shell it may be relative to the current znode, which is also its default."""
    place: str | None = getattr(context.obj, "place", None)
    if place is None or value is None:
        return value
    source = context.get_parameter_source(param.name or "")
    if source is not None and source.name == "DEFAULT":
        return place if param.param_type_name == "argument" else value
    return resolved(place, value)


def resolved(place: str, path: str) -> str:
    """`path`, relative to the znode `place`. A slash at its end stays: sequential znodes may have one."""
    if path.startswith("/"):
        return path
    names = [name for name in place.split("/") if name]
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    end = "/" if path.endswith("/") and names else ""
    return f"/{'/'.join(names)}{end}"


def _path_argument(metavar: str) -> Any:
    return typer.Argument(metavar=metavar, show_default=False, autocompletion=_complete_path, callback=resolve_path)


PathArgument = Annotated[str, _path_argument("PATH")]
OtherPathArgument = Annotated[str | None, _path_argument("PATH")]
SourceArgument = Annotated[str, _path_argument("SRC")]
DestinationArgument = Annotated[str, _path_argument("DST")]
StatOption = Annotated[bool, typer.Option("-s", "--stat", help="Print the stat too.")]
WatchOption = Annotated[bool, typer.Option("-w", "--watch", help="Set a watch for one event.")]
VersionOption = Annotated[int, typer.Option("-v", "--version", help="Only this version; -1 is any.")]
Base64Option = Annotated[bool, typer.Option("-b", "--base64", help="DATA is base64.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Take the data from this file; - is standard input.")]

# The library that draws the help takes a word between colons for an emoji.
ACL_HELP: Final = "scheme:<id>:cdrwa, several separated by commas."

_STDIN: Final = Path("-")
_COUNT: Final = struct.Struct("i")


def data_of(text: str | None, file: Path | None, is_base64: bool) -> bytes | None:
    """The data given by the arguments; None if there is none. Raises BadParameter."""
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
    """Warn that standard input is not read, if it has content: it may have been meant as the data."""
    if _has_input():
        say("zab: standard input is not read; --file - takes the data from it", sys.stderr)


def _has_input() -> bool:
    """Whether standard input, a file or a pipe, has unread bytes. Does not read them."""
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
