"""How a command ends: its exit code, and one sentence on standard error with the reason.

    0    done
    1    refused, not found, damaged, or not possible
    2    wrong usage
    3    no server could be reached, the connection broke before the answer, or the session was lost
    75   zab lock, zab elect: it was not held within --wait (EX_TEMPFAIL of sysexits)
    124  the time of --timeout is over, as with timeout(1)
    130  interrupted

`zab lock` and `zab elect` end as their command does otherwise; 126, 127 and 128 + a signal are as in a shell.

`zab server`, `zab ensemble`, `zab broker` and `zab simulate` have codes of their own beside 0 and 2; their modules list
them.
"""

import sys
from typing import Final, NoReturn

import typer

from zab.cli.terminal import say

__all__ = [
    "CANNOT_RUN",
    "INTERRUPTED",
    "LATE",
    "NO_COMMAND",
    "REFUSED",
    "TIMED_OUT",
    "UNREACHABLE",
    "USAGE",
    "fail",
    "library_of",
    "of_signal",
]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
LATE: Final = 75
TIMED_OUT: Final = 124
CANNOT_RUN: Final = 126
NO_COMMAND: Final = 127
INTERRUPTED: Final = 130


def of_signal(number: int) -> int:
    """The exit code of a process that a signal has ended."""
    return 128 + number


def library_of(error: ModuleNotFoundError) -> str:
    """The library that was not found, by the name under which it is installed."""
    module = (error.name or "").partition(".")[0]
    return {"google": "protobuf"}.get(module, module)


def fail(reason: object, code: int = REFUSED) -> NoReturn:
    """Report the reason, and end the command."""
    # Earlier output comes first if both go to the same place.
    sys.stdout.flush()
    say(f"zab: {reason}", sys.stderr)
    raise typer.Exit(code)
