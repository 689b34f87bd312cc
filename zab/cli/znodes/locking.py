"""`zab lock` and `zab elect`: a command runs while a lock, or a leadership, is held.

    zab lock /locks/nightly --wait 60 -- ./report --today

    wait for the lock -> run COMMAND -> its exit code
         │                   └─ the lock may soon be lost: TERM, and KILL after --grace seconds -> 3
         └─ not within --wait: 75

The lock is an ephemeral znode of a session, which is kept alive meanwhile. If no server answers, the session may end,
and another client gets the lock. So COMMAND gets TERM --grace seconds before that can happen, by the clock of this
machine, and has ended by then. The lock may be lost sooner, if another client deletes the znode. What COMMAND writes
elsewhere should include `$ZAB_FENCING_TOKEN`: the token grows from one holder to the next, so that a service can refuse
a token older than the newest that it has seen.

Signals: while it waits, a signal ends the wait, and the exit code is 128 + its number. While COMMAND runs, INT, TERM,
HUP, QUIT, USR1 and USR2 are passed on, and COMMAND decides; a signal that is ignored, as HUP under nohup, stays
ignored. At a terminal, Ctrl-C reaches COMMAND directly. Elsewhere COMMAND has its own process group, and signals,
including those from here, reach all processes that it started.

Exit codes: 127 if COMMAND does not exist, 126 if it cannot be run, 128 + the number of the signal that ended it, as in
a shell.

Not in `zab shell`: its session keeps ephemerals anyway.
"""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Annotated, Final, TypeAlias

import trio
import typer

from zab.cli.exits import CANNOT_RUN, LATE, NO_COMMAND, UNREACHABLE, of_signal
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.options import PathArgument
from zab.client import Client, ZabError
from zab.client.recipes import Election, Held, Lock, LostError, WaitOverError

__all__ = ["TOKEN_VARIABLE", "elect_command", "lock_command"]

TOKEN_VARIABLE: Final = "ZAB_FENCING_TOKEN"
PASSED_ON: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
GRACE_SECONDS: Final = 10.0
GRACE_PART: Final = 3
"""The grace is at most this fraction of the session's timeout."""
_LOOK_SECONDS: Final = 0.05
"""How often to check whether a process group is gone: only a parent can wait for processes."""
_BY_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT})

Taking: TypeAlias = Callable[[Client], AbstractAsyncContextManager[Held]]
CommandArgument = Annotated[list[str], typer.Argument(metavar="-- COMMAND", show_default=False)]
WaitOption = Annotated[
    float | None, typer.Option("--wait", min=0, metavar="SECONDS", help="Give up after this time; exit code 75.")
]
GraceOption = Annotated[
    float | None,
    typer.Option(
        "--grace", min=0, metavar="SECONDS", help="From TERM to KILL; 10, at most a third of the session timeout."
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="The name shown to the others; by default, this machine's.")
]


def lock_command(
    context: typer.Context,
    path: PathArgument,
    command: CommandArgument,
    wait_s: WaitOption = None,
    grace_s: GraceOption = None,
    name: NameOption = None,
) -> None:
    """Waits until the lock is free. COMMAND finds the fencing token in $ZAB_FENCING_TOKEN; zab exits with its code.

    When the lock may be lost, COMMAND is ended, and the exit code is 3. With --wait 0 it does not wait.
    """

    @asynccontextmanager
    async def take(zk: Client) -> AsyncIterator[Held]:
        lock = Lock(zk, path, name=_name(name))
        if wait_s == 0:
            held = await lock.try_acquire()
            if held is None:
                raise WaitOverError(path, wait_s)
        else:
            held = await lock.acquire(wait_s)
        try:
            yield held
        finally:
            await held.release()

    _run(context, take, command, grace_s)


def elect_command(
    context: typer.Context,
    path: PathArgument,
    command: CommandArgument,
    wait_s: Annotated[
        float | None,
        typer.Option("--wait", min=0.001, metavar="SECONDS", help="Give up after this time; exit code 75."),
    ] = None,
    grace_s: GraceOption = None,
    name: NameOption = None,
) -> None:
    """Runs COMMAND as soon as this candidate leads. COMMAND finds the fencing token in $ZAB_FENCING_TOKEN; when it
    ends, the candidate resigns, and zab exits with its code.

    When the leadership may be lost, COMMAND is ended, and the exit code is 3.
    """
    _run(context, lambda zk: Election(zk, path, _name(name)).lead(wait_s), command, grace_s)


def _name(name: str | None) -> str:
    return socket.gethostname() if name is None else name


def _grace(zk: Client, seconds: float | None) -> float:
    """The grace in seconds. Raises ValueError. A server answers at least three times in a session timeout."""
    seconds_max = zk.session_timeout_ms / 1000 / GRACE_PART
    if seconds is None:
        return min(GRACE_SECONDS, seconds_max)
    if seconds > seconds_max:
        more = "zab --session-timeout asks for a longer one"
        whole = zk.session_timeout_ms / 1000
        raise ValueError(f"--grace {seconds:g}: it is more than a third of the session's {whole:g} s; {more}")
    return seconds


def _run(context: typer.Context, take: Taking, command: list[str], grace_s: float | None) -> None:
    async def work(zk: Client, _caller: Caller) -> None:
        under = _Under(command, _grace(zk, grace_s))
        passed_on = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
        with trio.open_signal_receiver(*passed_on) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(under.take_signals, signals)
                await under.hold(zk, take)
                nursery.cancel_scope.cancel()
        under.end()

    perform(context, work)


class _Under:
    """One command under a lock. code: its exit code. failure: why it cannot be run."""

    def __init__(self, command: list[str], grace_s: float) -> None:
        self.code = 0
        self.failure: ZabError | None = None
        self._command = command
        self._grace_s = grace_s
        self._is_in_front = _is_in_front()
        self._process: trio.Process | None = None
        self._is_starting = False
        self._early: list[int] = []
        """Signals that came while the command was being started."""
        self._is_lost = False
        self._waiting = trio.CancelScope()

    def end(self) -> None:
        """Exits as the command did."""
        if isinstance(self.failure, WaitOverError):
            say(f"zab: {self.failure}", sys.stderr)
            raise typer.Exit(LATE)
        if self.failure is not None:
            raise self.failure
        if self.code:
            raise typer.Exit(self.code)

    async def take_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if self._process is None and self._is_starting:
                self._early.append(number)
            elif self._process is None:
                self.code = of_signal(number)
                self._waiting.cancel()
            else:
                self._pass_on(number)

    async def hold(self, zk: Client, take: Taking) -> None:
        """Waits until the lock is held, and runs the command."""
        try:
            with self._waiting:
                async with take(zk) as held:
                    # From here on signals go to the command.
                    self._is_starting = True
                    self._process = await self._start(held)
                    if self._process is not None:
                        for number in self._early:
                            self._pass_on(number)
                        await self._watch_over(self._process, zk, held)
        except ZabError as error:
            self.failure = error

    async def _start(self, held: Held) -> trio.Process | None:
        environment = {**os.environ, TOKEN_VARIABLE: str(held.token)}
        group = None if self._is_in_front else 0
        try:
            return await trio.lowlevel.open_process(self._command, env=environment, process_group=group)
        except OSError as error:
            say(f"zab: {self._command[0]} cannot be run: {error.strerror}", sys.stderr)
            self.code = NO_COMMAND if isinstance(error, FileNotFoundError) else CANNOT_RUN
            return None

    async def _watch_over(self, process: trio.Process, zk: Client, held: Held) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_lost, process, zk, held)
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    # The time of --timeout is over.
                    with trio.CancelScope(shield=True):
                        await self._stop(process)
            nursery.cancel_scope.cancel()
        assert process.returncode is not None
        self.code = of_signal(-process.returncode) if process.returncode < 0 else process.returncode
        if self._is_lost:
            self.code = UNREACHABLE

    async def _end_when_lost(self, process: trio.Process, zk: Client, held: Held) -> None:
        # Each answer moves the end of the session: then this looks again.
        while (left_s := zk.session_lives_until - self._grace_s - zk.now()) > 0:
            with trio.move_on_after(left_s):
                await held.lost()
                break
        self._is_lost = True
        say(f"zab: {held.path} may be lost: {self._command[0]} is ended: {_reason(held)}", sys.stderr, flush=True)
        # The command may have ended before the processes that it started.
        with trio.CancelScope(shield=True):
            await self._stop(process)

    async def _stop(self, process: trio.Process) -> None:
        self._send(signal.SIGTERM)
        with trio.move_on_after(self._grace_s):
            await process.wait()
            # Processes that it started may still run, and have the same time.
            while not self._is_in_front and _has_members(process.pid):  # noqa: ASYNC110  (it tells nobody)
                await trio.sleep(_LOOK_SECONDS)
        if process.returncode is None or not self._is_in_front:
            self._send(signal.SIGKILL)
        await process.wait()

    def _pass_on(self, number: int) -> None:
        if not (self._is_in_front and number in _BY_TERMINAL):
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            if self._is_in_front:
                self._process.send_signal(number)
            else:
                os.killpg(self._process.pid, number)


def _reason(held: Held) -> str:
    try:
        held.check()
    except LostError as error:
        return error.reason
    return "no server is heard, and the session may soon be over"


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _is_in_front() -> bool:
    """Whether a terminal sends its signals to this process and to the processes that it starts."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
