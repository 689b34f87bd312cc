"""The options that all commands of `zab pipeline` share, and how times and zxids are written on the command line.

    0x1000000a3, 4294967459                         a zxid
    2026-03-01, 2026-03-01T12:00, ...:00.250+01:00  a time, of UTC where it says no zone
    90s ago, 15m ago, 2h ago, 3 days ago, now       a time, back from now

A bound is inclusive. What cannot be read is wrong usage (exit code 2).
"""

import datetime
import re
from typing import Annotated, Final

import typer
from attrs import frozen

__all__ = [
    "Columns",
    "Dirs",
    "Ensemble",
    "Format",
    "Limit",
    "Memory",
    "Out",
    "Overwrite",
    "Range",
    "Since",
    "SparkLog",
    "SparkUrl",
    "Uncommitted",
    "Until",
    "ZxidMax",
    "ZxidMin",
    "named_dirs",
    "parse_bound",
    "parse_moment",
    "parse_time",
    "parse_zxid",
]

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
_NAMED: Final = re.compile(r"[^/=]+=.")
_TIME_HELP: Final = "such as 2026-03-01T12:00:00Z or '2h ago'"


def parse_zxid(text: str) -> int:
    """Hexadecimal behind 0x, else decimal. Raises BadParameter."""
    if not _ZXID.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no zxid, such as 0x1000000a3 or 4294967459")
    zxid = int(text, 16 if text[:2].lower() == "0x" else 10)
    if zxid > _ZXID_MAX:
        raise typer.BadParameter(f"{text} is more than a zxid's 63 bits")
    return zxid


def parse_time(text: str, now: datetime.datetime | None = None) -> datetime.datetime:
    """A moment with its zone. Raises BadParameter."""
    now = now or datetime.datetime.now(datetime.UTC)
    text = text.strip()
    if text.lower() == "now":
        return now
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None and ago[2].lower() in _UNITS:
            return now - datetime.timedelta(seconds=float(ago[1]) * _UNITS[ago[2].lower()])
        moment = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time, {_TIME_HELP}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def parse_moment(text: str) -> int | datetime.datetime:
    """A zxid, or else a time. Raises BadParameter."""
    if _ZXID.fullmatch(text):
        return parse_zxid(text)
    return parse_time(text)


def parse_bound(text: str | None, name: str) -> datetime.datetime | None:
    """The time of an option that may be absent; the error names the option."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=name) from None


@frozen
class Range:
    """Inclusive bounds; None is none."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    zxid_min: int | None = None
    zxid_max: int | None = None

    @classmethod
    def of(cls, since: str | None, until: str | None, zxid_min: str | None, zxid_max: str | None) -> "Range":
        """From the texts of the options. Raises BadParameter."""
        found = cls(
            parse_bound(since, "--since"),
            parse_bound(until, "--until"),
            None if zxid_min is None else parse_zxid(zxid_min),
            None if zxid_max is None else parse_zxid(zxid_max),
        )
        if found.since is not None and found.until is not None and found.since > found.until:
            raise typer.BadParameter("it is later than --until", param_hint="--since")
        if found.zxid_min is not None and found.zxid_max is not None and found.zxid_min > found.zxid_max:
            raise typer.BadParameter("it is above --zxid-max", param_hint="--zxid-min")
        return found


def named_dirs(dirs: list[str], ensemble: str | None) -> list[str]:
    """With the name of the ensemble in front of those that have none of their own."""
    if ensemble is None:
        return dirs
    if "=" in ensemble or "/" in ensemble or not ensemble:
        raise typer.BadParameter("a name has neither = nor /", param_hint="--ensemble")
    return [text if _NAMED.match(text) else f"{ensemble}={text}" for text in dirs]


Dirs = Annotated[
    list[str],
    typer.Argument(
        metavar="DIRS",
        show_default=False,
        help="Data directories of members, or directories of such: paths or URIs. NAME=DIR names the ensemble.",
    ),
]
Ensemble = Annotated[str | None, typer.Option("--ensemble", metavar="NAME", help="Name of the directories' ensemble.")]

_RANGE: Final = "What to look at"
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", rich_help_panel=_RANGE, help=f"From this time on, {_TIME_HELP}."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", rich_help_panel=_RANGE, help="Up to this time.")]
ZxidMin = Annotated[
    str | None,
    typer.Option("--zxid-min", metavar="ZXID", rich_help_panel=_RANGE, help="From this zxid on, 0x… or decimal."),
]
ZxidMax = Annotated[
    str | None, typer.Option("--zxid-max", metavar="ZXID", rich_help_panel=_RANGE, help="Up to this zxid.")
]
Uncommitted = Annotated[
    bool,
    typer.Option(
        "--uncommitted",
        rich_help_panel=_RANGE,
        help="Also what a change of leader may take away again; needed for a single directory of ZooKeeper.",
    ),
]

_OUTPUT: Final = "Where the result goes"
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE|DIR",
        rich_help_panel=_OUTPUT,
        help="A file that ends in .parquet, .json or .csv, or a directory of parts. Without it: a table.",
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", rich_help_panel=_OUTPUT, help="parquet, json or csv.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", rich_help_panel=_OUTPUT, help="Replace an earlier output of that name.")
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        rich_help_panel=_OUTPUT,
        help="Only these, comma between; 'all' for a table with every column, as files have them.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, rich_help_panel=_OUTPUT, help="Rows of the table.")]

_SPARK: Final = "Spark"
SparkUrl = Annotated[
    str | None,
    typer.Option(
        "--spark-url", "--spark", metavar="URL", rich_help_panel=_SPARK, help="Of a cluster; else this machine's cores."
    ),
]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", rich_help_panel=_SPARK, help="Of the driver.")]
SparkLog = Annotated[
    str, typer.Option("--spark-log", metavar="LEVEL", rich_help_panel=_SPARK, help="What Spark itself says on stderr.")
]
