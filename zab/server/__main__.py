"""`python -m zab.server FILE`: one member, without the command line's libraries, so that it is up in a moment.

    FILE                  a ZooKeeper `zoo.cfg`
    --stop-with-parent    stop at the end of standard input too: whoever started it is gone

SIGINT and SIGTERM stop it, also where it was started with SIGINT ignored. Exit codes are ZooKeeper's: 0 stopped as
asked, 1 unexpected, 2 usage or configuration, 3 data directory, 14 a port cannot be bound."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import trio

from zab.host.journal import Journal, open_journal
from zab.member.config import ConfigError
from zab.member.settings import Config
from zab.server.config_file import load
from zab.server.failure import ServerFailedError
from zab.server.refusal import refusal
from zab.server.server import serve, tune_interpreter

USAGE = "usage: python -m zab.server [--stop-with-parent] FILE"
STOP_WITH_PARENT = "--stop-with-parent"
USAGE_ERROR = 2

journal = Journal("server")


def main(arguments: Sequence[str]) -> int:
    """Run one member; returns the exit code of the process."""
    names = [argument for argument in arguments if argument != STOP_WITH_PARENT]
    if len(names) != 1 or names[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return USAGE_ERROR
    reason = refusal()
    if reason is not None:
        print(reason, file=sys.stderr)
        return USAGE_ERROR
    try:
        config = load(names[0])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    # What a member writes is of all its clients; nobody else on this machine may read it.
    os.umask(0o077)
    writer = open_journal()
    try:
        trio.run(_serve, config, STOP_WITH_PARENT in arguments)
    except ServerFailedError as failure:
        journal.error(failure.reason, exit_code=failure.exit_code)
        return failure.exit_code
    finally:
        writer.close()
    return 0


async def _serve(config: Config, stops_with_parent: bool) -> None:
    failure: ServerFailedError | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signal, nursery.cancel_scope)
        if stops_with_parent:
            nursery.start_soon(_stop_at_end_of_input, nursery.cancel_scope)
        try:
            await serve(config, started=tune_interpreter)
        except ServerFailedError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _stop_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            journal.info("stops", signal=signal.Signals(number).name)
            scope.cancel()
            return


async def _stop_at_end_of_input(scope: trio.CancelScope) -> None:
    stream = trio.lowlevel.FdStream(sys.stdin.fileno())
    while await stream.receive_some(4096):
        pass
    journal.info("whoever started this server is gone -> stop")
    scope.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
