"""How a command ends: its exit code, and one sentence on standard error that says why.

    0    done
    1    refused, not found, damaged, or not possible
    2    wrong usage
    3    no server could be reached, the connection broke before the answer, or the session was lost
    124  the time of --timeout is over, as timeout(1) says it
    130  interrupted

`zab server`, `zab ensemble` and `zab simulate` have codes of their own beside 0 and 2; their modules list them.
"""

import sys
from typing import Final, NoReturn

import typer

from zab.cli.terminal import say

__all__ = ["INTERRUPTED", "REFUSED", "TIMED_OUT", "UNREACHABLE", "USAGE", "fail"]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130


def fail(reason: object, code: int = REFUSED) -> NoReturn:
    """Say why, and end the command."""
    # What was printed before comes first, where both go to one place.
    sys.stdout.flush()
    say(f"zab: {reason}", sys.stderr)
    raise typer.Exit(code)
