"""`python -m zab.server FILE`: runs one member, without the command line's libraries, so that it starts quickly.

    FILE                  a ZooKeeper `zoo.cfg`
    --stop-with-parent    also stop at the end of standard input: the parent process is gone
    --log-format, --log-level, --log-file
                          the journal; each has priority over its key (`log.format`, …)

SIGINT and SIGTERM stop it, even if it was started with SIGINT ignored. With `log.file`, SIGHUP reopens that file. A
supervisor that speaks systemd's protocol is told its state (`zab.host.process.supervisor`).

Exit codes are ZooKeeper's: 0 stopped as asked, 1 unexpected, 2 usage or configuration, 3 data directory, 14 a port
cannot be bound."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import attrs

from datatree.compiled import using
from zab import native
from zab.host.journal.journal import LEVELS
from zab.host.loop.loop import Loop
from zab.host.process.interpreter import tune_interpreter
from zab.host.process.refusal import refusal
from zab.host.process.run_service import USAGE_ERROR, Supervised, run_service
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import ConfigError
from zab.protocol.effects import RoleChanged
from zab.protocol.states import STATE_NAMES
from zab.server.config_file import load
from zab.server.server import serve

PROGRAM = "python -m zab.server"


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
    with using(native.load("tree"), native.load("writes")):
        return run_service(partial(_serve, config), config.journal, stops_with_parent=options.stop_with_parent)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options. Raises SystemExit with exit code 2 if they are wrong."""
    parser = argparse.ArgumentParser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.add_argument("--stop-with-parent", action="store_true")
    parser.add_argument("--log-format", type=str.lower, choices=("text", "json"))
    parser.add_argument("--log-level", type=str.lower, choices=tuple(LEVELS))
    parser.add_argument("--log-file", metavar="PATH")
    parser.add_argument("file", metavar="FILE")
    return parser.parse_args(arguments)


async def _serve(config: Config, supervised: Supervised) -> None:
    def opened(loop: Loop) -> None:
        supervised.opened(loop)
        supervised.status("recovered, not serving; no leader yet")

    def role_changed(role: RoleChanged) -> None:
        leader = "no leader" if role.leader is None else f"server {role.leader} leads"
        state = "serving" if role.serving else f"not serving, {role.phase.value}"
        supervised.status(f"{STATE_NAMES[role.state]}, {state}; {leader}")
        if role.serving:
            supervised.ready()

    await serve(config, started=tune_interpreter, role_changed=role_changed, opened=opened)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
