"""How numbers are written on the command line that are no plain ones: sessions and sizes.

    0x1000a5b2c3d0000, 72060386826158080, -1     a session's id; those of 64 bits are negative inside
    512, 10k, 1M, 2G                             bytes; the letters are powers of 1024

What cannot be read raises BadParameter: wrong usage, exit code 2. `option` is the option that the error names.
"""

import re
from typing import Final

import typer

__all__ = ["parse_session", "parse_size"]

_SESSION_MAX: Final = 2**64 - 1
_SIZE: Final = re.compile(r"([0-9]{1,18})([kKmMgG]?)")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_session(text: str, option: str | None = None) -> int:
    """A session's id as it is printed, with 0x in front, or decimal; signed."""
    try:
        session = int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no session's id, such as 0x1000a5b2c3d0000", param_hint=option) from None
    if not -(2**63) <= session <= _SESSION_MAX:
        raise typer.BadParameter(f"{text} is more than an id's 64 bits", param_hint=option)
    return session - 2**64 if session >= 2**63 else session


def parse_size(text: str, option: str | None = None) -> int:
    """Bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no number of bytes, such as 512, 10k or 1M", param_hint=option)
    return int(found[1]) * _UNITS[found[2].lower()]
