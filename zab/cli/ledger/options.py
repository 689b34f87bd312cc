"""Arguments and options of several ledger commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zab.ledger.entries.digests import DigestType

STORE: Final = "zab.ledger.store"
"""Where the settings of the store are in the context."""

LedgerArgument = Annotated[int, typer.Argument(metavar="LEDGER", min=0, show_default=False, help="The ledger's id.")]
EnsembleOption = Annotated[int, typer.Option("--ensemble", "-E", min=1, help="How many bookies it is striped over.")]
WriteOption = Annotated[int, typer.Option("--write", "-W", min=1, help="How many bookies get each entry.")]
AckOption = Annotated[int, typer.Option("--ack", "-A", min=1, help="How many have to have it on disk.")]
PasswordOption = Annotated[str, typer.Option("--password", metavar="TEXT", help="The ledger's password.")]
PasswordFileOption = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="It is in this file.", show_default=False)
]
DigestOption = Annotated[
    str, typer.Option("--digest", metavar="TYPE", help="Of each entry: CRC32, HMAC, CRC32C or DUMMY, which is none.")
]
CustomOption = Annotated[
    list[str] | None,
    typer.Option("--custom", metavar="KEY=VALUE", help="Kept in the ledger's metadata; once for each."),
]


def root_of(path: str) -> str:
    """Raises BadParameter."""
    if not path.startswith("/") or path.endswith("/"):
        raise typer.BadParameter(f"{path!r} is not the path of a znode", param_hint="--root")
    return path


def password_of(text: str, file: Path | None) -> bytes:
    """Raises BadParameter."""
    if file is None:
        return text.encode("utf-8", "surrogateescape")
    if text:
        raise typer.BadParameter("give either --password or --password-file", param_hint="--password")
    try:
        return file.read_bytes().removesuffix(b"\n")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--password-file") from None


def quorums_of(ensemble: int, write: int, ack: int) -> dict[str, Any]:
    """The arguments of a new ledger. Raises BadParameter."""
    if not ack <= write <= ensemble:
        raise typer.BadParameter(f"it has to be ack <= write <= ensemble, not {ack}, {write}, {ensemble}")
    return {"ensemble": ensemble, "write": write, "ack": ack}


def digest_of(name: str) -> DigestType:
    """Raises BadParameter."""
    try:
        return DigestType[name.upper()]
    except KeyError:
        known = ", ".join(each.name for each in DigestType)
        raise typer.BadParameter(f"{name} is none of {known}", param_hint="--digest") from None


def custom_of(given: list[str] | None) -> dict[str, bytes]:
    """Raises BadParameter."""
    found = {}
    for each in given or ():
        key, is_there, value = each.partition("=")
        if not key or not is_there:
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--custom")
        found[key] = value.encode("utf-8", "surrogateescape")
    return found


def entries_of(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
