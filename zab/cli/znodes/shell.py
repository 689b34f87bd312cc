"""`zab shell`: the znode commands one after the other in one session, as in ZooKeeper's `zkCli.sh`.

At a terminal: a prompt with history (`$XDG_STATE_HOME/zab/history`) and completion of commands and paths; events and
changes of the connection are printed as they come; Ctrl-C ends the running command, Ctrl-D the shell. Otherwise the
commands are read from standard input, one a line, to its end; `#` starts a comment, and the exit code is the highest of
the commands'.

Threads and tasks: trio runs in the main thread. A line is read, and a command parsed and run, in a worker thread, since
both prompt_toolkit and typer are synchronous; what they want of the session they ask trio for.

    _shell                  reads lines, runs commands; the end of its block closes the session
    ├─ _report_events       prints what the shell's watcher hears (`get -w`, `addWatch`, …)
    ├─ _report_states       prints that the connection was lost, found, or that the session is over
    └─ _interrupts          SIGINT cancels the running command at a terminal, else everything

The commands of `zab.cli.main` are the shell's too, with the names of ZooKeeper's shell as aliases; those that only make
sense on a session that stays are here.
"""

import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, TextIO

import trio
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.shortcuts import CompleteStyle

from zab.cli.arguments import ALIASES, ConnectionOptions, expand_alias
from zab.cli.exits import INTERRUPTED, REFUSED, USAGE, fail
from zab.cli.rendering import event_block
from zab.cli.znodes import commands as znodes
from zab.cli.znodes.caller import Work, exit_code, open_client
from zab.cli.znodes.changes import changes_command
from zab.cli.znodes.prompt import Prompt
from zab.cli.znodes.subtree import child_path
from zab.client import Client, RequestError, SessionExpiredError, State, Watcher, WatchKind, WatchMode, ZabError

__all__ = ["Shell", "ShellCompleter", "shell_command"]

HISTORY_SHOWN_COUNT: Final = 11
COMPLETIONS_COUNT_MAX: Final = 1_000
READ_BYTES: Final = 65536


class Shell:
    """The caller of commands: runs them on its one session. `code` is the highest exit code so far."""

    def __init__(self, zk: Client, *, is_interactive: bool) -> None:
        self.zk = zk
        self.code = 0
        self.lines: list[str] = []
        self.is_ended = False
        self.prints_events = True
        self.is_interactive = is_interactive
        self.events = zk.watcher()
        self.running: trio.CancelScope | None = None
        self._group = typer.main.get_command(shell_app())

    # What commands ask for (`zab.cli.znodes.caller.Caller`), from the worker thread.

    def run(self, work: Work) -> None:
        trio.from_thread.run(self._work, work)

    async def _work(self, work: Work) -> None:
        await work(self.zk, self)

    def watcher(self, _zk: Client) -> Watcher:
        return self.events

    async def follow(self, _watcher: Watcher) -> None:
        """The event is printed when it comes."""
        await trio.lowlevel.checkpoint()

    # What the shell does with a line.

    async def execute(self, line: str) -> None:
        """Runs one line and prints what went wrong with it."""
        try:
            words = shlex.split(line, comments=not self.is_interactive)
        except ValueError as error:
            self._failed(USAGE, f"zab: {error}")
            return
        if not words:
            return
        self.lines.append(line)
        outer = self.running
        with trio.CancelScope() as self.running:
            try:
                await trio.to_thread.run_sync(self._call, expand_alias(words))
            except (ZabError, ValueError) as error:
                self._failed(exit_code(error), f"zab: {error}")
        if self.running.cancelled_caught:
            self._failed(INTERRUPTED, "zab: interrupted")
        # `redo` runs a line inside of a line.
        self.running = outer
        sys.stdout.flush()

    def _call(self, words: list[str]) -> None:
        try:
            self._group.main(args=words, prog_name="", obj=self)
        except SystemExit as ending:
            # typer ends every command so; 0 is a command that went well.
            self.code = max(self.code, ending.code if isinstance(ending.code, int) else REFUSED)

    def _failed(self, code: int, message: str) -> None:
        self.code = max(self.code, code)
        sys.stdout.flush()
        print(message, file=sys.stderr, flush=True)


# Commands that only a session that stays has.


def _shell(context: typer.Context) -> Shell:
    assert isinstance(context.obj, Shell)
    return context.obj


def add_auth_command(
    context: typer.Context, scheme: Annotated[str, typer.Argument()], credentials: Annotated[str, typer.Argument()] = ""
) -> None:
    """Add an identity, such as: addauth digest user:password."""

    async def work(zk: Client, _caller: object) -> None:
        await zk.add_auth(scheme, credentials)

    _shell(context).run(work)


def add_watch_command(
    context: typer.Context,
    path: znodes.PathArgument,
    mode: Annotated[WatchMode, typer.Option("-m", "--mode", parser=lambda text: _mode(text))] = (
        WatchMode.PERSISTENT_RECURSIVE
    ),
) -> None:
    """Watch a znode until the watch is removed; -m PERSISTENT or PERSISTENT_RECURSIVE."""
    shell = _shell(context)

    async def work(zk: Client, _caller: object) -> None:
        await zk.add_watch(path, shell.events, mode)

    shell.run(work)


def _mode(text: str | WatchMode) -> WatchMode:
    if isinstance(text, WatchMode):
        return text
    try:
        return WatchMode[text]
    except KeyError:
        raise typer.BadParameter(f"{text} is neither PERSISTENT nor PERSISTENT_RECURSIVE") from None


def remove_watches_command(
    context: typer.Context,
    path: znodes.PathArgument,
    children: Annotated[bool, typer.Option("-c", help="Watches of the children.")] = False,
    data: Annotated[bool, typer.Option("-d", help="Watches of the data.")] = False,
    _every: Annotated[bool, typer.Option("-a", help="All watches; the default.")] = False,
    local: Annotated[bool, typer.Option("-l", help="Also when no server can be told.")] = False,
) -> None:
    """Remove the watches of a znode."""
    kind = WatchKind.CHILDREN if children else WatchKind.DATA if data else WatchKind.ANY

    async def work(zk: Client, _caller: object) -> None:
        await zk.remove_watches(path, kind, local=local)

    _shell(context).run(work)


def print_watches_command(
    context: typer.Context, setting: Annotated[str | None, typer.Argument(metavar="[on|off]")] = None
) -> None:
    """Print events, or not."""
    shell = _shell(context)
    if setting not in (None, "on", "off"):
        raise typer.BadParameter("say on or off")
    if setting is None:
        print(f"printwatches is {'on' if shell.prints_events else 'off'}")
    else:
        shell.prints_events = setting == "on"


def history_command(context: typer.Context) -> None:
    """Print the last commands with their numbers."""
    lines = list(enumerate(_shell(context).lines))
    for number, line in lines[-HISTORY_SHOWN_COUNT:]:
        print(f"{number} - {line}")


def redo_command(context: typer.Context, number: Annotated[int, typer.Argument(metavar="NUMBER", min=0)]) -> None:
    """Run a command of the history again."""
    shell = _shell(context)
    # This very line is the last one, and must not run itself.
    if number >= len(shell.lines) - 1:
        raise typer.BadParameter(f"there is no command {number} before this one")
    trio.from_thread.run(shell.execute, shell.lines[number])


def version_command() -> None:
    """Print the version."""
    print(f"zab {version('zab')}")


def help_command(context: typer.Context) -> None:
    """Print the commands."""
    assert context.parent is not None
    print(context.parent.get_help())


def quit_command(context: typer.Context) -> None:
    """End the shell; its ephemerals go with it."""
    _shell(context).is_ended = True


SESSION_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "addauth": add_auth_command,
    "addWatch": add_watch_command,
    "removewatches": remove_watches_command,
    "printwatches": print_watches_command,
    "history": history_command,
    "redo": redo_command,
    "version": version_command,
    "help": help_command,
    "quit": quit_command,
    "exit": quit_command,
}
ZNODE_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "create": znodes.create_command,
    "get": znodes.get_command,
    "set": znodes.set_command,
    "delete": znodes.delete_command,
    "ls": znodes.ls_command,
    "stat": znodes.stat_command,
    "watch": znodes.watch_command,
    "changes": changes_command,
    "count": znodes.count_command,
    "ephemerals": znodes.ephemerals_command,
    "sync": znodes.sync_command,
    "whoami": znodes.whoami_command,
    "config": znodes.config_command,
}


def shell_app() -> typer.Typer:
    """Everything that can be typed at the prompt, but for the aliases."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    for name, command in {**ZNODE_COMMANDS, **SESSION_COMMANDS}.items():
        app.command(name)(command)
    app.add_typer(znodes.acl_app, name="acl")
    app.add_typer(znodes.quota_app, name="quota")
    return app


# The prompt.


class ShellCompleter(Completer):
    """Completes command names in the first word, and paths in every later one that starts with a slash.

    list_children: children's names of a path, from the worker thread.
    """

    def __init__(self, names: Iterable[str], list_children: Callable[[str], list[str]]) -> None:
        self._names = sorted(names)
        self._list_children = list_children

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        first, space, _ = before.lstrip().partition(" ")
        if not space:
            yield from (Completion(name + " ", -len(first)) for name in self._names if name.startswith(first))
            return
        word = before.rpartition(" ")[2]
        if not word.startswith("/"):
            return
        parent, _, start = word.rpartition("/")
        names = [name for name in self._list_children(parent or "/") if name.startswith(start)]
        for name in names[:COMPLETIONS_COUNT_MAX]:
            yield Completion(child_path(parent or "/", name), -len(word), display=name)


def _completer(zk: Client) -> ShellCompleter:
    async def children(path: str) -> list[str]:
        # Completion while no server answers must not hold up the prompt.
        with trio.move_on_after(1):
            try:
                return await zk.get_children(path)
            except RequestError:
                return []
        return []

    token = trio.lowlevel.current_trio_token()
    names = {*ZNODE_COMMANDS, *SESSION_COMMANDS, *ALIASES, "acl", "quota"}
    return ShellCompleter(names, lambda path: trio.from_thread.run(children, path, trio_token=token))


def _history() -> History:
    """The file of the history; in memory where it cannot be written."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    try:
        (state / "zab").mkdir(parents=True, exist_ok=True)
        (state / "zab" / "history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(state / "zab" / "history"))


def _prompt(shell: Shell, options: ConnectionOptions) -> Prompt:
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_completer(shell.zk),
        # Only when asked for with the tab key: each completion of a path is a request to the server.
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
    )
    return Prompt(session, lambda: f"[zab: {options.hosts}({shell.zk.state.name}) {len(shell.lines)}] ")


async def _read_prompts(shell: Shell, prompt: Prompt) -> None:
    while not shell.is_ended:
        try:
            line = await prompt.read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        await shell.execute(line)


async def _read_lines(shell: Shell) -> None:
    async for line in _lines(sys.stdin.fileno()):
        await shell.execute(line)
        if shell.is_ended:
            return


def _print_line(text: str, file: TextIO) -> None:
    print(text, file=file, flush=True)


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """The lines of standard input, which may be a file, a pipe or anything else.

    Not through `sys.stdin`: a thread that is abandoned in its buffer's lock makes the interpreter abort at its end.
    """
    rest = b""
    while data := await trio.to_thread.run_sync(os.read, descriptor, READ_BYTES, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")
    yield rest.decode("utf-8", "surrogateescape")


async def _report_events(shell: Shell, say: Callable[[str, TextIO], None]) -> None:
    try:
        async for event in shell.events:
            if shell.prints_events and event.path:
                say(event_block(event), sys.stdout)
    except SessionExpiredError:
        return


async def _report_states(shell: Shell, say: Callable[[str, TextIO], None]) -> None:
    known = shell.zk.state
    async for state in shell.zk.states():
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


async def _run(options: ConnectionOptions, *, is_interactive: bool) -> int:
    async with open_client(options) as zk, trio.open_nursery() as nursery:
        shell = Shell(zk, is_interactive=is_interactive)
        # A KeyboardInterrupt would hit a command in its worker thread, which typer takes for the end of that command.
        await nursery.start(partial(_interrupts, shell, nursery.cancel_scope))
        if is_interactive:
            prompt = _prompt(shell, options)
            nursery.start_soon(_report_events, shell, prompt.say)
            nursery.start_soon(_report_states, shell, prompt.say)
            await _read_prompts(shell, prompt)
        else:
            nursery.start_soon(_report_events, shell, _print_line)
            await _read_lines(shell)
        nursery.cancel_scope.cancel()
    # At a terminal every failure was seen; ending the shell is none.
    return 0 if is_interactive else shell.code


def shell_command(context: typer.Context) -> None:
    """Run commands one after the other in one session."""
    options = context.obj
    assert isinstance(options, ConnectionOptions)
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        main = partial(_run, options, is_interactive=is_interactive)
        code = trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
    except (ZabError, ValueError) as error:
        fail(error, exit_code(error))
    raise typer.Exit(code)
