"""`zab 4lw WORD`: a four-letter word to each server of `-s`, where there is no `nc`, or clients speak TLS.

Exit codes: 0 each has answered; 1 one has refused, or knows no such word; 3 one cannot be reached.
"""

import sys
from typing import Annotated

import trio
import typer

from zab.cli.exits import REFUSED, UNREACHABLE, USAGE, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import in_line, say
from zab.cli.time_limit import time_limit
from zab.cli.znodes.caller import OutOfTimeError, exit_code, options_of, within
from zab.cli.znodes.opening import tls_of
from zab.client.four_letter import ask, servers_of

__all__ = ["word_command"]

_REFUSED = "is not executed because it is not in the whitelist."


def word_command(
    context: typer.Context,
    word: Annotated[str, typer.Argument(metavar="WORD", help="srvr, mntr, cons, …", show_default=False)],
    mask: Annotated[int | None, typer.Argument(metavar="MASK", help="Of stmk alone.", show_default=False)] = None,
    json: JsonOption = False,
) -> None:
    """Every server of -s is asked; before each answer of several stands which one it is. A server answers the words
    that its 4lw.commands.whitelist has.
    """
    if len(word) != 4 or not word.isascii() or not word.isalnum():
        raise typer.BadParameter(f"{word!r} is no word of four letters", param_hint="WORD")
    if (mask is not None) is not (word == "stmk"):
        raise typer.BadParameter("stmk has one, and no other word", param_hint="MASK")
    options = options_of(context)
    code = 0
    try:
        servers, tls = servers_of(options.hosts), tls_of(options)
    except ValueError as error:
        fail(error, USAGE)

    async def ask_all() -> None:
        nonlocal code
        for server in servers:
            try:
                answer = await ask(server, word, mask=mask, tls=tls)
            except (OSError, UnicodeError) as error:
                say(f"zab: {server}: {error}", sys.stderr)
                code = UNREACHABLE
                continue
            if not answer and word != "hash":
                say(f"zab: {server}: {word} is no word that it knows", sys.stderr)
                code = code or REFUSED
            elif answer.rstrip().endswith(_REFUSED):
                say(f"zab: {server}: {answer.rstrip()}", sys.stderr)
                code = code or REFUSED
            elif json:
                say(json_line({"server": str(server), "word": word, "answer": answer}))
            else:
                _show(str(server) if len(servers) > 1 else "", answer)

    try:
        trio.run(within, time_limit(context), ask_all, restrict_keyboard_interrupt_to_checkpoints=True)
    except OutOfTimeError as error:
        fail(error, exit_code(error))
    if code:
        raise typer.Exit(code)


def _show(server: str, answer: str) -> None:
    if server:
        say(f"--- {server}")
    for line in answer.removesuffix("\n").split("\n"):
        # A path may hold anything; the tabs are the server's.
        say("\t".join(map(in_line, line.split("\t"))))
