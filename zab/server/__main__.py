"""`python -m zab.server FILE`: one member, without the command line's libraries, so that it is up in a moment.

    FILE                  a ZooKeeper `zoo.cfg`
    --stop-with-parent    stop at the end of standard input too: whoever started it is gone
    --log-format, --log-level, --log-file
                          the journal; each counts before its key (`log.format`, …)

SIGINT and SIGTERM stop it, also where it was started with SIGINT ignored. Where there is a `log.file`, SIGHUP has it
opened anew. A supervisor that speaks systemd's protocol is told how it is (`zab.host.process.supervisor`).

Exit codes are ZooKeeper's: 0 stopped as asked, 1 unexpected, 2 usage or configuration, 3 data directory, 14 a port
cannot be bound."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

import attrs
import trio

from zab.host.journal.journal import LEVELS, Journal, open_journal
from zab.host.journal.rotating_file import RotatingFile
from zab.host.loop.loop import Loop
from zab.host.process.failure import ServerFailedError
from zab.host.process.refusal import refusal
from zab.host.process.supervisor import Supervisor, supervisor_of
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import ConfigError
from zab.protocol.events import RoleChanged
from zab.protocol.states import STATE_NAMES
from zab.server.config_file import load
from zab.server.server import serve, tune_interpreter

PROGRAM = "python -m zab.server"
USAGE_ERROR = 2

journal = Journal("server")


def main(arguments: Sequence[str]) -> int:
    """Run one member; returns the exit code of the process."""
    options = _options(arguments)
    reason = refusal()
    if reason is not None:
        print(reason, file=sys.stderr)
        return USAGE_ERROR
    try:
        config = load(options.file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    named = {"format": options.log_format, "level": options.log_level, "file": options.log_file}
    told = {name: value for name, value in named.items() if value is not None}
    config = attrs.evolve(config, journal=attrs.evolve(config.journal, **told))
    # What a member writes is of all its clients; nobody else on this machine may read it.
    os.umask(0o077)
    try:
        sink = _sink(config)
    except OSError as error:
        print(f"log.file: {config.journal.file} cannot be opened: {error.strerror or error}", file=sys.stderr)
        return USAGE_ERROR
    try:
        supervisor = supervisor_of(os.environ, os.getpid())
    except (OSError, ValueError) as error:
        print(f"whoever started this server cannot be told how it is: {error}", file=sys.stderr)
        return USAGE_ERROR
    writer = open_journal(LEVELS[config.journal.level], sink=sink, as_json=config.journal.format == "json")
    try:
        trio.run(_serve, config, options.stop_with_parent, supervisor)
    except ServerFailedError as failure:
        journal.error(failure.reason, exit_code=failure.exit_code)
        if sink is not None:
            # Whoever started it looks there first.
            print(failure.reason, file=sys.stderr)
        return failure.exit_code
    finally:
        if supervisor is not None:
            supervisor.stopping()
            supervisor.close()
        writer.close()
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """Raises SystemExit, with exit code 2, where they are wrong."""
    parser = argparse.ArgumentParser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.add_argument("--stop-with-parent", action="store_true")
    parser.add_argument("--log-format", type=str.lower, choices=("text", "json"))
    parser.add_argument("--log-level", type=str.lower, choices=tuple(LEVELS))
    parser.add_argument("--log-file", metavar="PATH")
    parser.add_argument("file", metavar="FILE")
    return parser.parse_args(arguments)


def _sink(config: Config) -> RotatingFile | None:
    """Raises OSError."""
    if config.journal.file is None:
        return None
    return RotatingFile(config.journal.file, config.journal.file_bytes_max, config.journal.files_count)


async def _serve(config: Config, stops_with_parent: bool, supervisor: Supervisor | None) -> None:
    failure: ServerFailedError | None = None
    telling = _Telling(supervisor)
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signal, nursery.cancel_scope, telling)
        if config.journal.file is not None:
            await nursery.start(_open_journal_anew)
        if stops_with_parent:
            nursery.start_soon(_stop_at_end_of_input, nursery.cancel_scope)
        try:
            await serve(config, started=tune_interpreter, role_changed=telling.role_changed, opened=telling.opened)
        except ServerFailedError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Telling:
    """What the supervisor is told of this member; nothing where there is none."""

    def __init__(self, supervisor: Supervisor | None) -> None:
        self._supervisor = supervisor

    def opened(self, loop: Loop) -> None:
        if self._supervisor is not None:
            self._supervisor.watch(loop)
            self._supervisor.status("recovered, not serving; no leader yet")

    def role_changed(self, role: RoleChanged) -> None:
        if self._supervisor is None:
            return
        leader = "no leader" if role.leader is None else f"server {role.leader} leads"
        state = "serving" if role.serving else f"not serving, {role.phase.value}"
        self._supervisor.status(f"{STATE_NAMES[role.state]}, {state}; {leader}")
        if role.serving:
            self._supervisor.ready()

    def stopping(self) -> None:
        if self._supervisor is not None:
            self._supervisor.stopping()


async def _open_journal_anew(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """The file of the journal is looked for at each line (`trail_file`), so that one line does it."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            journal.info("the journal is opened anew", signal="SIGHUP")


async def _stop_on_signal(
    scope: trio.CancelScope, telling: _Telling, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            journal.info("stops", signal=signal.Signals(number).name)
            telling.stopping()
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
