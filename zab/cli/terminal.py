"""Text for people: safe for a terminal, and with its numbers in words.

What a server or a file holds is anybody's, and may be anything. Elsewhere than on a terminal it is printed as it is.

Not here: how it is made visible (`zab.wire.visible`).
"""

import sys
from typing import TextIO

from zab.wire.visible import in_line, on_terminal

__all__ = ["count_of", "in_line", "is_text", "on_terminal", "say", "say_data"]


def is_text(data: bytes) -> bool:
    """UTF-8 without control characters, tabs and line ends apart."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return on_terminal(text) == text


def say(text: str, file: TextIO | None = None, *, flush: bool = False) -> None:
    """Print a line on `file`, which is standard output without it."""
    file = file or sys.stdout
    print(on_terminal(text) if file.isatty() else text, file=file, flush=flush)


def say_data(data: bytes | None, *, alone: bool = True) -> None:
    """Print data: `null` where there is none, text as a line, anything else with escapes on a terminal, and byte for
    byte elsewhere, without a line end where it is all that is printed.
    """
    if data is None:
        say("null")
    elif sys.stdout.isatty() or is_text(data):
        say(data.decode("utf-8", "backslashreplace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data if alone else data + b"\n")


def count_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
