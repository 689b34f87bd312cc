"""Durations as they are written on the command line: 90s, 30m, 12h, 7d, 4w."""

import re
from typing import Final

import typer

__all__ = ["duration_ms"]

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhdw])")


def duration_ms(text: str, option: str) -> int:
    """A duration in ms. Raises BadParameter."""
    match = _DURATION.fullmatch(text)
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"{text!r} is no duration such as 30m, 12h or 7d", param_hint=option)
    return int(match[1]) * _UNITS_MS[match[2]]
