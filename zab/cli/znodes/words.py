"""`zab 4lw WORD`: sends a four-letter word to each server of `-s`, without `nc`, and also over TLS.

Exit codes: 0 all have answered; 1 one has refused, or does not know the word; 3 one cannot be reached.
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
    mask: Annotated[
        int | None, typer.Argument(metavar="MASK", help="Only for stmk: the mask.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Asks every server of -s; if there are several, each answer is preceded by its server. A server answers the words
    in its 4lw.commands.whitelist.
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
        # A path may contain anything; the tabs are from the server.
        say("\t".join(map(in_line, line.split("\t"))))
