"""`zab secret FILE`: the file by which the members of an ensemble authenticate each other (`quorum.secretFile`).

    zab secret FILE             makes the file, with one secret
    zab secret --add FILE       adds a secret
    zab secret --newest FILE    removes all secrets but the newest

A secret is changed in two steps, without stopping a member: first every member gets the file with the new secret added,
then the file with only the newest. So at any time, any two members have a secret in common.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage.
"""

from pathlib import Path
from typing import Annotated

import typer

from zab.cli.exits import fail
from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import add_secret, keep_newest, make_secret_file

__all__ = ["secret_command"]


def secret_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Copy it to every member.", show_default=False)],
    add: Annotated[bool, typer.Option("--add", help="Add a secret to the file.")] = False,
    newest: Annotated[bool, typer.Option("--newest", help="Remove all secrets but the newest.")] = False,
) -> None:
    """FILE is what `quorum.secretFile` names in the zoo.cfg of every member. Nobody but its owner may read it. A
    running server notices that it has changed.
    """
    if add and newest:
        raise typer.BadParameter("only one of them at a time", param_hint="--add, --newest")
    change = add_secret if add else keep_newest if newest else make_secret_file
    try:
        change(str(file))
    except FileExistsError:
        fail(f"{file} exists already: `zab secret --add {file}` adds a secret to it", 1)
    except (PrivateFileError, OSError) as error:
        fail(str(error), 1)
