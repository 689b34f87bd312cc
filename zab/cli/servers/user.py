"""`zab user FILE NAME`: manages the users that may log in by SASL DIGEST-MD5 (`sasl.usersFile`).

    zab user FILE NAME             lets NAME log in, with a password that is asked for; or changes its password
    zab user --remove FILE NAME    removes NAME

The password is read from the terminal without echo, or from the first line of standard input. It is never an argument,
which all users of the machine could see.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from zab.cli.exits import fail
from zab.host.files.private_file import PrivateFileError
from zab.server.users_file import drop_user, put_user

__all__ = ["user_command"]


def user_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Copy it to every member.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", help="Remove the user.")] = False,
) -> None:
    """FILE is what `sasl.usersFile` names in the zoo.cfg of every member. It is made if it is not there. Nobody but its
    owner may read it: it has no password, but what is made of one opens the service. A running server notices that it
    has changed.
    """
    try:
        if remove:
            drop_user(str(file), name)
        else:
            put_user(str(file), name, _password())
    except (PrivateFileError, OSError) as error:
        fail(str(error), 1)


def _password() -> str:
    if sys.stdin.isatty():
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return sys.stdin.readline().removesuffix("\n")
