"""The arguments and options that several znode commands have, and how data and ACLs are written in them."""

import base64
import binascii
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.client import Acl, parse_acl

__all__ = [
    "Base64Option",
    "FileOption",
    "JsonOption",
    "PathArgument",
    "StatOption",
    "VersionOption",
    "WatchOption",
    "acl_of",
    "data_of",
]

PathArgument = Annotated[str, typer.Argument(metavar="PATH", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StatOption = Annotated[bool, typer.Option("-s", "--stat", help="Print the stat too.")]
WatchOption = Annotated[bool, typer.Option("-w", "--watch", help="Leave a watch for one event.")]
VersionOption = Annotated[int, typer.Option("-v", "--version", help="Only this version; -1 is any.")]
Base64Option = Annotated[bool, typer.Option("-b", "--base64", help="DATA is base64.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Take the data from this file; - is standard input.")]

_STDIN: Final = Path("-")


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


def acl_of(text: str) -> tuple[Acl, ...]:
    """The entries of an ACL. Raises BadParameter."""
    try:
        return parse_acl(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ACL") from error
