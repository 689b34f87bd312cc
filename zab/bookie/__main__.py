"""`python -m zab.bookie FILE`: runs one bookie, without the command line's libraries, so that it starts quickly.

    FILE                  a bookie's file of settings
    --stop-with-parent    also stop at the end of standard input: the parent process is gone

SIGINT and SIGTERM stop it. Exit codes: 0 stopped as asked, 1 unexpected, 2 usage or configuration, 3 the directories of
the data, 14 a port cannot be bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from zab.bookie.configuration import StartRefusedError, load
from zab.configuration.blocks.journal import JournalSettings
from zab.host.process.interpreter import tune_interpreter
from zab.host.process.run_service import USAGE_ERROR, run_service


def main(arguments: Sequence[str]) -> int:
    """Run one bookie; returns the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m zab.bookie", allow_abbrev=False)
    parser.add_argument("file")
    parser.add_argument("--stop-with-parent", action="store_true")
    options = parser.parse_args(arguments)
    try:
        config = load(options.file)
    except StartRefusedError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    # Only now: without the libraries of `zab[ledgers]` it could not be imported.
    from zab.bookie.service import serve

    tune_interpreter()
    return run_service(partial(serve, config), JournalSettings(), stops_with_parent=options.stop_with_parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
