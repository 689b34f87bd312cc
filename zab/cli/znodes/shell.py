"""`zab shell`: the znode commands one after the other in one session, as in ZooKeeper's `zkCli.sh`.

At a terminal there is a prompt with history (`$XDG_STATE_HOME/zab/history`) and completion of commands and paths.
Events and changes of the connection are printed as they come. Ctrl-C ends the running command, Ctrl-D the shell. A
command continues in the next line as long as a quote is open.

The history has no secrets: lines with `addauth` or a password, or that begin with a blank, are left out.

Otherwise the commands are read from standard input, one per line, to its end. `#` starts a comment. The exit code is
the highest of those of the commands.

Threads and tasks: trio runs in the main thread. Lines are read, and commands parsed and run, in a worker thread, since
both prompt_toolkit and typer are synchronous. For the session they call into trio's thread.

    _run                    reads lines, runs commands; closes the session at the end
    ├─ SessionKeeper        has a task for the session
    │  ├─ report_events     prints what the shell's watcher hears (`get -w`, `addWatch`, …)
    │  └─ _report_states    prints that the connection was lost, found, or that the session is over
    └─ _interrupts          SIGINT cancels the running command at a terminal, else everything

What can be typed is in `shell_commands`, with the names of ZooKeeper's shell as aliases.
"""

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import trio
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.shortcuts import CompleteStyle

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import INTERRUPTED, fail
from zab.cli.rendering import event_block
from zab.cli.terminal import on_terminal, say
from zab.cli.znodes.caller import exit_code
from zab.cli.znodes.completion import completer
from zab.cli.znodes.discreet_history import DiscreetHistory
from zab.cli.znodes.opening import Opener, opener
from zab.cli.znodes.prompt import Prompt
from zab.cli.znodes.session_keeper import SessionKeeper
from zab.cli.znodes.shell_commands import NAMES, shell_app
from zab.cli.znodes.shell_session import Shell
from zab.client import Client, State, WatchOverflowError, ZabError

__all__ = ["prompt_text", "report_events", "shell_command"]

READ_BYTES: Final = 65536


def _history(shell: Shell) -> History:
    """The file of the history; in memory if it cannot be written."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    try:
        (state / "zab").mkdir(parents=True, exist_ok=True)
        (state / "zab" / "history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return DiscreetHistory(str(state / "zab" / "history"), lambda: shell.unfinished)


def _prompt(shell: Shell) -> Prompt:
    session: PromptSession[str] = PromptSession(
        history=_history(shell),
        completer=completer(lambda: shell.zk, NAMES, lambda: shell.place),
        # Only for the tab key: each completion of a path is a request to the server.
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
    )
    return Prompt(session, partial(prompt_text, shell))


def prompt_text(shell: Shell) -> str:
    """zab/chroot:/place 3> ; with the state of the session, unless it is connected."""
    if shell.unfinished:
        return "> "
    _, slash, chroot = shell.options.hosts.partition("/")
    state = "" if shell.state is State.CONNECTED else f"({shell.state.value})"
    return f"zab{state}{slash}{on_terminal(chroot)}:{on_terminal(shell.place)} {len(shell.lines)}> "


async def _read_prompts(shell: Shell, prompt: Prompt) -> None:
    while not shell.is_ended:
        try:
            text = await prompt.read()
        except KeyboardInterrupt:
            shell.unfinished = ""
            continue
        except EOFError:
            break
        # Pasted text may be several lines.
        for line in text.split("\n"):
            await shell.execute(line)
            if shell.is_ended:
                break
    shell.end()


async def _read_lines(shell: Shell) -> None:
    async with aclosing(_lines(sys.stdin.fileno())) as lines:
        async for line in lines:
            await shell.execute(line)
            if shell.is_ended:
                break
    shell.end()


def _print_line(text: str, file: TextIO) -> None:
    say(text, file, flush=True)


async def _lines(descriptor: int) -> AsyncGenerator[str, None]:
    """The lines of standard input, which may be a file, a pipe or anything else.

    Not through `sys.stdin`: a thread that is abandoned in its buffer's lock makes the interpreter abort at its end.
    """
    rest = b""
    while data := await trio.to_thread.run_sync(os.read, descriptor, READ_BYTES, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")
    yield rest.decode("utf-8", "surrogateescape")


async def _report(shell: Shell, say: Callable[[str, TextIO], None], zk: Client) -> None:
    """Reports events and states of a session while it lives."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_events, shell, say)
        if shell.is_interactive:
            nursery.start_soon(_report_states, zk, say)


async def report_events(shell: Shell, say: Callable[[str, TextIO], None]) -> None:
    """Prints the events of the shell's watcher, until that ends."""
    try:
        async for event in shell.events:
            if shell.prints_events and event.path:
                say(event_block(event), sys.stdout)
    except WatchOverflowError as error:
        say(f"zab: no more events are printed: {error}; connect begins another session", sys.stderr)
    except ZabError:
        # The session is over; its state says so.
        return


async def _report_states(zk: Client, say: Callable[[str, TextIO], None]) -> None:
    known = zk.state
    async for state in zk.states():
        if state not in (known, State.CLOSED):
            known = state
            say(f"zab: {state.value}", sys.stderr)


async def _interrupts(shell: Shell, everything: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            if not shell.is_interactive:
                shell.code = INTERRUPTED
                everything.cancel()
            elif shell.running is not None:
                shell.running.cancel()


async def _run(shell: Shell, open_client: Opener) -> int:
    is_interactive = shell.is_interactive
    prompt = _prompt(shell) if is_interactive else None
    beside = partial(_report, shell, _print_line if prompt is None else prompt.say)
    failure: ZabError | ValueError | None = None
    async with trio.open_nursery() as outer:
        keeper = SessionKeeper(shell, beside, outer)
        shell.change_session = keeper.change
        try:
            await shell.open(open_client, shell.options.hosts)
        except (ZabError, ValueError) as error:
            failure = error
        else:
            await _read(shell, prompt)
            await keeper.change(None)
        outer.cancel_scope.cancel()
    if failure is not None:
        raise failure
    # At a terminal every failure was printed already.
    return 0 if is_interactive else shell.code


async def _read(shell: Shell, prompt: Prompt | None) -> None:
    async with trio.open_nursery() as nursery:
        # A KeyboardInterrupt would hit a command in its worker thread, which typer treats as the end of that command.
        await nursery.start(partial(_interrupts, shell, nursery.cancel_scope))
        if prompt is None:
            await _read_lines(shell)
        else:
            await _read_prompts(shell, prompt)
        nursery.cancel_scope.cancel()


def shell_command(context: typer.Context) -> None:
    options = context.obj
    assert isinstance(options, ConnectionOptions)
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        shell = Shell(shell_app(), options, is_interactive=is_interactive)
        code = trio.run(_run, shell, opener(options, shell.asked), restrict_keyboard_interrupt_to_checkpoints=True)
    except (ZabError, ValueError) as error:
        fail(error, exit_code(error))
    raise typer.Exit(code)
