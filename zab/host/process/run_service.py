"""Runs a service as a process: journal, signals, supervisor, exit code.

    run_service(serve, settings, stops_with_parent=…)     returns the exit code of the process

SIGINT and SIGTERM cancel `serve`, even if the process was started with SIGINT ignored. With `log.file`, SIGHUP reopens
that file. `stops_with_parent`: the end of standard input, which the parent keeps open, also cancels `serve`. A
supervisor that speaks systemd's protocol is told the state of the service (`supervisor`).

Exit codes: 0 stopped as asked, 2 the journal or the supervisor cannot be used, otherwise that of the
`ServerFailedError`.

Not here: the service itself, and its command line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from zab.configuration.blocks.journal import JournalSettings
from zab.host.journal.journal import LEVELS, Journal, open_journal
from zab.host.journal.rotating_file import RotatingFile
from zab.host.loop.loop import Loop
from zab.host.process.supervisor import Supervisor, supervisor_of
from zab.service.failure import ServerFailedError

USAGE_ERROR: Final = 2

journal = Journal("server")


@attrs.frozen
class Supervised:
    """The supervisor of this process, if there is one."""

    _supervisor: Supervisor | None

    def opened(self, loop: Loop) -> None:
        """Send watchdog messages from now on, while this loop takes turns."""
        if self._supervisor is not None:
            self._supervisor.watch(loop)

    def status(self, text: str) -> None:
        if self._supervisor is not None:
            self._supervisor.status(text)

    def ready(self) -> None:
        """Say that the service is ready."""
        if self._supervisor is not None:
            self._supervisor.ready()

    def stopping(self) -> None:
        if self._supervisor is not None:
            self._supervisor.stopping()


def run_service(
    serve: Callable[[Supervised], Awaitable[None]], settings: JournalSettings, *, stops_with_parent: bool
) -> int:
    """Run `serve` until it ends, is told to stop, or raises ServerFailedError."""
    # Files of a service have data of its clients: no other user on this machine may read them.
    os.umask(0o077)
    try:
        sink = _sink(settings)
    except OSError as error:
        print(f"log.file: {settings.file} cannot be opened: {error.strerror or error}", file=sys.stderr)
        return USAGE_ERROR
    try:
        supervisor = supervisor_of(os.environ, os.getpid())
    except (OSError, ValueError) as error:
        print(f"the supervisor cannot be reached: {error}", file=sys.stderr)
        return USAGE_ERROR
    writer = open_journal(LEVELS[settings.level], sink=sink, as_json=settings.format == "json")
    try:
        trio.run(_serve, serve, settings, stops_with_parent, Supervised(supervisor))
    except ServerFailedError as failure:
        journal.error(failure.reason, exit_code=failure.exit_code)
        if sink is not None:
            # The parent process reads this first.
            print(failure.reason, file=sys.stderr)
        return failure.exit_code
    finally:
        if supervisor is not None:
            supervisor.stopping()
            supervisor.close()
        writer.close()
    return 0


def _sink(settings: JournalSettings) -> RotatingFile | None:
    """The file of the journal, if there is one. Raises OSError."""
    if settings.file is None:
        return None
    return RotatingFile(settings.file, settings.file_bytes_max, settings.files_count)


async def _serve(
    serve: Callable[[Supervised], Awaitable[None]],
    settings: JournalSettings,
    stops_with_parent: bool,
    supervised: Supervised,
) -> None:
    failure: ServerFailedError | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signal, nursery.cancel_scope, supervised)
        if settings.file is not None:
            await nursery.start(_open_journal_again)
        if stops_with_parent:
            nursery.start_soon(_stop_at_end_of_input, nursery.cancel_scope)
        try:
            await serve(supervised)
        except ServerFailedError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _open_journal_again(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Write a line on SIGHUP: each line checks whether the file is still in place (`rotating_file`)."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            journal.info("the journal is reopened", signal="SIGHUP")


async def _stop_on_signal(
    scope: trio.CancelScope, supervised: Supervised, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            journal.info("stops", signal=signal.Signals(number).name)
            supervised.stopping()
            scope.cancel()
            return


async def _stop_at_end_of_input(scope: trio.CancelScope) -> None:
    stream = trio.lowlevel.FdStream(sys.stdin.fileno())
    while await stream.receive_some(4096):
        pass
    journal.info("the parent process is gone -> stop")
    scope.cancel()
