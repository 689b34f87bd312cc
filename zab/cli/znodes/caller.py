"""Runs one command's work on a client: connects, runs it, and exits with the code of its error.

Exit codes (`zab.cli.exits`): 1 a ZabError, whose name is on standard error; 2 a ValueError; 3 a ConnectionLossError,
after which it is unknown whether a write was done, or a SessionExpiredError; 124 an OutOfTimeError.

Errors name the option of the command line that helps (`carry_out`).

A command that waits for a change continues in its session, whichever member has it: events of the session itself are
printed on standard error, and do not end the wait (`next_change`).

A command is a plain function that passes its asynchronous work to `perform`. On the command line that opens a session
for this one command (`OneShot`); in the shell it uses the shell's session (`zab.cli.znodes.shell`).
"""

import math
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeAlias

import trio
import typer

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import REFUSED, TIMED_OUT, UNREACHABLE, USAGE, fail
from zab.cli.json_form import json_line
from zab.cli.rendering import event_block
from zab.cli.terminal import say
from zab.cli.time_limit import time_limit
from zab.cli.znodes.asked import Asked
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
    """The command took longer than `--timeout` allows. so_far: how far it came, for the text."""

    def __init__(self, seconds: float, so_far: str) -> None:
        super().__init__(f"no answer within {seconds:g} s (--timeout){so_far}")


class Caller(Protocol):
    """Runs commands: the command line one, the shell many."""

    @property
    def options(self) -> ConnectionOptions:
        """How the servers are reached."""

    def run(self, work: Work, seconds: float | None) -> None:
        """Runs the work, from a thread or program that is not inside of trio. Raises OutOfTimeError if it takes longer
        than `seconds`, which include finding a server."""

    def watcher(self, zk: Client) -> Watcher:
        """A watcher for the `-w` of a command."""

    async def follow(self, watcher: Watcher, *, json: bool = False) -> None:
        """Called for the `-w` of a command once it has printed its answer. json: whether that was JSON."""

    def tell(self, state: State) -> None:
        """Called when the state of the session changes while a command waits."""


class OneShot:
    """A session for one command."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options

    def run(self, work: Work, seconds: float | None) -> None:
        hosts, asked = self.options.hosts, Asked()
        open_client = opener(self.options, asked)

        async def session() -> None:
            async with asked.searching(hosts), open_client() as zk:
                await carry_out(work, zk, self, hosts)

        # Elsewhere an interrupt could cut a step of the protocol in half.
        trio.run(
            within, seconds, session, partial(asked.so_far, hosts), restrict_keyboard_interrupt_to_checkpoints=True
        )

    def watcher(self, zk: Client) -> Watcher:
        return zk.watcher()

    async def follow(self, watcher: Watcher, *, json: bool = False) -> None:
        """Waits for the one event that a one-shot watch brings."""
        sys.stdout.flush()
        event = await next_change(watcher, self)
        say(json_line(event_fields(event)) if json else event_block(event))

    def tell(self, state: State) -> None:
        say(f"zab: {state.value}", sys.stderr, flush=True)


def _nothing() -> str:
    return ""


async def within(
    seconds: float | None, act: Callable[[], Awaitable[None]], so_far: Callable[[], str] = _nothing
) -> None:
    """Raises OutOfTimeError, with what `so_far` says then, if it takes longer; None: no limit."""
    with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
        await act()
    if scope.cancelled_caught:
        assert seconds is not None
        raise OutOfTimeError(seconds, so_far())


async def carry_out(work: Work, zk: Client, caller: Caller, hosts: str) -> None:
    """Runs the work on a client of `hosts`. Its errors name what to change on the command line."""
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
    """A refusal also proves that it exists: a missing znode is never refused for its permissions."""
    try:
        return await zk.exists("/") is not None
    except RequestError:
        return True


async def next_change(watcher: Watcher, caller: Caller) -> WatchEvent:
    """The next event of a znode; reports events of the session before it. Raises what ended the watcher."""
    while True:
        event = await watcher.receive()
        if event.type is not EventType.SESSION:
            return event
        caller.tell(event.state)


def perform(context: typer.Context, work: Work) -> None:
    """Runs a command's work for its caller."""
    if isinstance(context.obj, ConnectionOptions):
        try:
            OneShot(context.obj).run(work, time_limit(context))
        except (ZabError, ValueError) as error:
            fail(_with_reason(error, context.obj), exit_code(error))
    else:
        context.obj.run(work, time_limit(context))


def _with_reason(error: Exception, options: ConnectionOptions) -> str:
    """The text of the error; if no server was found, with what reachable servers say, or how to name others."""
    if not isinstance(error, NotConnectedError):
        return str(error)
    others = f"{error}\nthe servers tried are {options.hosts}; -s HOST:PORT, or ZAB_HOSTS, names others"
    if isinstance(error, TlsError) or options.wants_tls:
        return others
    reason = why_unserved(options.hosts)
    if reason is None:
        return others
    help_ = "; it is in read-only mode, and zab --read-only reads from it" if READ_ONLY in reason else ""
    return f"{error}\n{reason}{help_}"


def options_of(context: typer.Context) -> ConnectionOptions:
    """How a command will reach its servers."""
    found: ConnectionOptions = context.obj if isinstance(context.obj, ConnectionOptions) else context.obj.options
    return found


def exit_code(error: Exception) -> int:
    if isinstance(error, OutOfTimeError):
        return TIMED_OUT
    if isinstance(error, ConnectionLossError | SessionExpiredError):
        return UNREACHABLE
    return REFUSED if isinstance(error, ZabError) else USAGE
