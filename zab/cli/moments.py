"""How moments are written on the command line: zxids and times.

    0x1000000a3, 4294967459                         a zxid
    2026-03-01, 2026-03-01T12:00, ...:00.250+01:00  a time, of UTC where it says no zone
    90s ago, 15m ago, 2h ago, 3 days ago, now       a time, back from now
    90s, 15m, 2h, 3 days                            the same, where an age is asked for

What cannot be read raises BadParameter: wrong usage, exit code 2. `option` is the option that the error names.
"""

import datetime
import re
from typing import Final

import typer

__all__ = ["TIME_HELP", "parse_age", "parse_moment", "parse_time", "parse_zxid"]

_ZXID_MAX: Final = 2**63 - 1
_ZXID: Final = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s+ago", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECONDS["s"]),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _SECONDS["m"]),
    **dict.fromkeys(("h", "hour", "hours"), _SECONDS["h"]),
    **dict.fromkeys(("d", "day", "days"), _SECONDS["d"]),
    **dict.fromkeys(("w", "week", "weeks"), _SECONDS["w"]),
}
TIME_HELP: Final = "such as 2026-03-01T12:00:00Z or '2h ago'"


def parse_zxid(text: str, option: str | None = None) -> int:
    """A zxid: hexadecimal with 0x in front, else decimal."""
    if not _ZXID.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no zxid, such as 0x1000000a3 or 4294967459", param_hint=option)
    zxid = int(text, 16 if text[:2].lower() == "0x" else 10)
    if zxid > _ZXID_MAX:
        raise typer.BadParameter(f"{text} is more than a zxid's 63 bits", param_hint=option)
    return zxid


def parse_time(text: str, option: str | None = None, *, now: datetime.datetime | None = None) -> datetime.datetime:
    """A time with its zone. now: from where it counts back, the present without it."""
    now = now or datetime.datetime.now(datetime.UTC)
    text = text.strip()
    if text.lower() == "now":
        return now
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None and ago[2].lower() in _UNITS:
            return now - datetime.timedelta(seconds=float(ago[1]) * _UNITS[ago[2].lower()])
        time = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time, {TIME_HELP}", param_hint=option) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


def parse_age(text: str, option: str | None = None, *, now: datetime.datetime | None = None) -> datetime.datetime:
    """The time of what is so old; or a time."""
    ago = f"{text.strip()} ago"
    try:
        return parse_time(ago if _AGO.fullmatch(ago) else text, option, now=now)
    except typer.BadParameter:
        reason = f"{text!r} is neither an age such as 15m nor a time, {TIME_HELP}"
        raise typer.BadParameter(reason, param_hint=option) from None


def parse_moment(text: str, option: str | None = None) -> int | datetime.datetime:
    """A zxid, or else a time."""
    return parse_zxid(text, option) if _ZXID.fullmatch(text) else parse_time(text, option)
