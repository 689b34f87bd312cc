"""`zab shell` without its terminal: runs lines on its session, and is the caller of their commands.

There is one session at a time, or none after `close`; `connect` begins another (`session_keeper.py`). Then `place`, the
current znode where relative paths start, is the root again.

A command continues in the next line as long as a quote is open: the newline is part of the quoted text. Invariant:
`unfinished` is the text of a command whose end has not come, and empty otherwise.
"""

import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio
import typer

from zab.cli.arguments import ConnectionOptions, expand_alias
from zab.cli.exits import INTERRUPTED, REFUSED, USAGE
from zab.cli.terminal import say
from zab.cli.znodes.asked import Asked
from zab.cli.znodes.caller import Work, carry_out, exit_code, within
from zab.cli.znodes.opening import Opener, opener
from zab.client import Client, NotConnectedError, State, Watcher, ZabError

__all__ = ["Shell"]

# The message of `shlex` for an open quote.
_OPEN_QUOTE: Final = "No closing quotation"


class Shell:
    """Runs the commands of `app` on its session. `code` is the highest exit code so far."""

    def __init__(self, app: typer.Typer, options: ConnectionOptions, *, is_interactive: bool) -> None:
        self.options = options
        self.place = "/"
        self.code = 0
        self.lines: list[str] = []
        self.unfinished = ""
        self.is_ended = False
        self.prints_events = True
        self.is_interactive = is_interactive
        self.asked = Asked()
        """What was asked of servers, by the command that runs."""
        self.running: trio.CancelScope | None = None
        self.change_session: Callable[[Opener | None], Awaitable[None]] | None = None
        self._zk: Client | None = None
        self._events: Watcher | None = None
        self._group = typer.main.get_group(app)

    # Called by the keeper of its session (`zab.cli.znodes.session_keeper.Place`).

    def begin(self, zk: Client) -> None:
        self._zk, self._events, self.place = zk, zk.watcher(), "/"

    def finish(self) -> None:
        self._zk = self._events = None

    @property
    def zk(self) -> Client:
        """Raises NotConnectedError if there is no session."""
        if self._zk is None:
            raise NotConnectedError(detail="there is no session; connect begins one")
        return self._zk

    @property
    def events(self) -> Watcher:
        """The watcher of the session, whose events are printed."""
        if self._events is None:
            raise NotConnectedError(detail="there is no session; connect begins one")
        return self._events

    @property
    def state(self) -> State:
        return State.CLOSED if self._zk is None else self._zk.state

    # Called by commands (`zab.cli.znodes.caller.Caller`), from the worker thread.

    def run(self, work: Work, seconds: float | None) -> None:
        hosts, self.asked.has_written = self.options.hosts, False
        act = partial(carry_out, work, self.zk, self, hosts)
        trio.from_thread.run(within, seconds, act, partial(self.asked.so_far, hosts))

    def connect(self, options: ConnectionOptions) -> None:
        """Ends the session, and begins one with these options."""
        # It may ask for a password.
        open_client = opener(options, self.asked)
        trio.from_thread.run(self.open, open_client, options.hosts)
        self.options = options

    async def open(self, open_client: Opener, hosts: str) -> None:
        """Ends the session, if there is one, and begins one with `hosts`."""
        assert self.change_session is not None
        async with self.asked.searching(hosts):
            await self.change_session(open_client)

    def close(self) -> None:
        """Ends the session."""
        assert self.change_session is not None
        trio.from_thread.run(self.change_session, None)

    def watcher(self, _zk: Client) -> Watcher:
        return self.events

    async def follow(self, _watcher: Watcher, *, json: bool = False) -> None:
        """The event is printed when it comes."""
        await trio.lowlevel.checkpoint()

    def tell(self, state: State) -> None:
        """At a terminal the shell prints states by itself."""
        if not self.is_interactive:
            say(f"zab: {state.value}", sys.stderr, flush=True)

    # Lines.

    async def execute(self, line: str) -> None:
        """Runs one line, unless it is unfinished, and prints its errors."""
        text, self.unfinished = self.unfinished + line, ""
        try:
            words = shlex.split(text, comments=not self.is_interactive)
        except ValueError as error:
            if str(error) == _OPEN_QUOTE:
                self.unfinished = text + "\n"
            else:
                self._failed(USAGE, f"zab: {error}")
            return
        if not words:
            return
        self.lines.append(text)
        outer = self.running
        with trio.CancelScope() as self.running:
            try:
                await trio.to_thread.run_sync(self.call, expand_alias(words))
            except (ZabError, ValueError) as error:
                self._failed(exit_code(error), f"zab: {error}")
        if self.running.cancelled_caught:
            self._failed(INTERRUPTED, "zab: interrupted")
        # `redo` runs a line inside of a line.
        self.running = outer
        sys.stdout.flush()

    def end(self) -> None:
        """No further line comes."""
        if self.unfinished:
            self._failed(USAGE, f"zab: {_OPEN_QUOTE}: {self.unfinished.partition(chr(10))[0]}")

    def call(self, words: list[str]) -> None:
        """Runs one command, in a thread; its code counts for `code`."""
        if words[0] not in self._group.commands and not words[0].startswith("-"):
            self._failed(USAGE, f"zab: {words[0]} is no command of the shell; help lists them")
            return
        try:
            self._group.main(args=words, prog_name="", obj=self)
        except SystemExit as ending:
            # typer ends every command this way; 0 is success.
            self.code = max(self.code, ending.code if isinstance(ending.code, int) else REFUSED)

    def _failed(self, code: int, message: str) -> None:
        self.code = max(self.code, code)
        sys.stdout.flush()
        say(message, sys.stderr, flush=True)
