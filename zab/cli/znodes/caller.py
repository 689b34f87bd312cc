"""Runs one command's work on a client: connects, carries it out, and ends with the exit code of what went wrong.

Exit codes (`zab.cli.exits`): 1 a ZabError, whose name is on standard error; 2 a ValueError; 3 a ConnectionLossError:
whether a write was done is unknown then; 3 a SessionExpiredError, too; 124 an OutOfTimeError.

What went wrong is said so that somebody can do something about it on the command line (`carry_out`).

A command that waits for a change goes on in its session, whichever member has it: what the watcher hears of the session
itself is told on standard error, and is never the change that was waited for (`next_change`).

A command is a plain function that hands its asynchronous work to `perform`. On the command line that opens a session
for this one command (`OneShot`); in the shell, the shell's session is used (`zab.cli.znodes.shell`).
"""

import math
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import trio
import typer

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import REFUSED, TIMED_OUT, UNREACHABLE, USAGE, fail
from zab.cli.json_form import json_line
from zab.cli.rendering import event_block
from zab.cli.terminal import say
from zab.cli.time_limit import time_limit
from zab.cli.znodes.json_values import event_fields
from zab.cli.znodes.opening import opener
from zab.client import (
    Client,
    ConnectionLossError,
    EventType,
    NoNodeError,
    NotConnectedError,
    RequestError,
    RequestTooLargeError,
    SessionExpiredError,
    State,
    TlsError,
    Watcher,
    WatchEvent,
    ZabError,
)
from zab.client.unserved import READ_ONLY, why_unserved

__all__ = [
    "Caller",
    "OutOfTimeError",
    "Work",
    "carry_out",
    "exit_code",
    "next_change",
    "options_of",
    "perform",
    "within",
]

Work: TypeAlias = Callable[[Client, "Caller"], Awaitable[None]]


class OutOfTimeError(ZabError):
    """The command took longer than `--timeout` allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s (--timeout); whether a write was done is unknown")


class Caller(Protocol):
    """Who runs a command: the command line once, or the shell."""

    @property
    def options(self) -> ConnectionOptions:
        """How the servers are reached."""

    def run(self, work: Work, seconds: float | None) -> None:
        """Carries out the work, from a thread or program that is not inside of trio. Raises OutOfTimeError when it
        takes longer than `seconds`, and a server has to be found in them, too."""

    def watcher(self, zk: Client) -> Watcher:
        """For the `-w` of a command."""

    async def follow(self, watcher: Watcher, *, json: bool = False) -> None:
        """Called for the `-w` of a command once it has printed its answer. json: in which form that was."""

    def tell(self, state: State) -> None:
        """The state of the session changed while a command waits."""


class OneShot:
    """A session for one command."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options

    def run(self, work: Work, seconds: float | None) -> None:
        open_client = opener(self.options)

        async def session() -> None:
            async with open_client() as zk:
                await carry_out(work, zk, self, self.options.hosts)

        # Anywhere else an interrupt could cut a step of the protocol in half.
        trio.run(within, seconds, session, restrict_keyboard_interrupt_to_checkpoints=True)

    def watcher(self, zk: Client) -> Watcher:
        return zk.watcher()

    async def follow(self, watcher: Watcher, *, json: bool = False) -> None:
        """Waits for the one event that a one-shot watch brings."""
        sys.stdout.flush()
        event = await next_change(watcher, self)
        say(json_line(event_fields(event)) if json else event_block(event))

    def tell(self, state: State) -> None:
        say(f"zab: {state.value}", sys.stderr, flush=True)


async def within(seconds: float | None, act: Callable[[], Awaitable[None]]) -> None:
    """Raises OutOfTimeError when it takes longer; None is no limit."""
    with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
        await act()
    if scope.cancelled_caught:
        assert seconds is not None
        raise OutOfTimeError(seconds)


async def carry_out(work: Work, zk: Client, caller: Caller, hosts: str) -> None:
    """The work, on a client of `hosts`. What it raises names what on the command line is to be changed."""
    try:
        await work(zk, caller)
    except RequestTooLargeError as error:
        more = "--jute-maxbuffer allows more, if the servers' jute.maxbuffer does"
        raise RequestTooLargeError(error.path, detail=f"{error.detail}; {more}") from None
    except NoNodeError as error:
        servers, slash, chroot = hosts.partition("/")
        if not slash or await _has_chroot(zk):
            raise
        more = f"zab -s {servers} create -p /{chroot} makes it"
        raise NoNodeError(error.path, detail=f"the chroot /{chroot} does not exist; {more}") from None


async def _has_chroot(zk: Client) -> bool:
    """A refusal proves it, too: of a znode that is not there nobody is told that he may not read it."""
    try:
        return await zk.exists("/") is not None
    except RequestError:
        return True


async def next_change(watcher: Watcher, caller: Caller) -> WatchEvent:
    """The next event of a znode. What is heard of the session before it is told. Raises what ended the watcher."""
    while True:
        event = await watcher.receive()
        if event.type is not EventType.SESSION:
            return event
        caller.tell(event.state)


def perform(context: typer.Context, work: Work) -> None:
    """Carries out a command's work for whoever called it."""
    if isinstance(context.obj, ConnectionOptions):
        try:
            OneShot(context.obj).run(work, time_limit(context))
        except (ZabError, ValueError) as error:
            fail(_with_reason(error, context.obj), exit_code(error))
    else:
        context.obj.run(work, time_limit(context))


def _with_reason(error: Exception, options: ConnectionOptions) -> str:
    """What is said of it: where no server was there, what those say that can be reached."""
    if not isinstance(error, NotConnectedError) or isinstance(error, TlsError) or options.wants_tls:
        return str(error)
    reason = why_unserved(options.hosts)
    if reason is None:
        return str(error)
    help_ = "; it is in read-only mode, and zab --read-only reads from it" if READ_ONLY in reason else ""
    return f"{error}\n{reason}{help_}"


def options_of(context: typer.Context) -> ConnectionOptions:
    """How the servers are reached that a command will talk to."""
    found: ConnectionOptions = context.obj if isinstance(context.obj, ConnectionOptions) else context.obj.options
    return found


def exit_code(error: Exception) -> int:
    if isinstance(error, OutOfTimeError):
        return TIMED_OUT
    if isinstance(error, ConnectionLossError | SessionExpiredError):
        return UNREACHABLE
    return REFUSED if isinstance(error, ZabError) else USAGE
