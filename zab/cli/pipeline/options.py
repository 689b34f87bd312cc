"""The options that all commands of `zab pipeline` share.

`zab.cli.moments` describes how times and zxids are written. A bound is inclusive.
"""

import datetime
import re
from typing import Annotated, Final

import typer
from attrs import frozen

from zab.cli.moments import TIME_HELP, parse_time, parse_zxid

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
]

_NAMED: Final = re.compile(r"[^/=]+=.")


@frozen
class Range:
    """Inclusive bounds; None means no bound."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    zxid_min: int | None = None
    zxid_max: int | None = None

    @classmethod
    def of(cls, since: str | None, until: str | None, zxid_min: str | None, zxid_max: str | None) -> "Range":
        """Parse the texts of the options. Raises BadParameter."""
        found = cls(
            None if since is None else parse_time(since, "--since"),
            None if until is None else parse_time(until, "--until"),
            None if zxid_min is None else parse_zxid(zxid_min, "--zxid-min"),
            None if zxid_max is None else parse_zxid(zxid_max, "--zxid-max"),
        )
        if found.since is not None and found.until is not None and found.since > found.until:
            raise typer.BadParameter("it is later than --until", param_hint="--since")
        if found.zxid_min is not None and found.zxid_max is not None and found.zxid_min > found.zxid_max:
            raise typer.BadParameter("it is above --zxid-max", param_hint="--zxid-min")
        return found


def named_dirs(dirs: list[str], ensemble: str | None) -> list[str]:
    """Put the ensemble's name before each directory that has no name of its own."""
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
        help="Members' data directories, or directories of such; paths or URIs. NAME=DIR names the ensemble.",
    ),
]
Ensemble = Annotated[
    str | None, typer.Option("--ensemble", metavar="NAME", help="The name of the ensemble of these directories.")
]

_RANGE: Final = "What to look at"
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", rich_help_panel=_RANGE, help=f"From this time on, {TIME_HELP}."),
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
        help="Also what a change of leader may still discard; needed for a single directory of ZooKeeper.",
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
        help="Only these columns, separated by commas; 'all' for a table with every column.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, rich_help_panel=_OUTPUT, help="Rows of the table.")]

_SPARK: Final = "Spark"
SparkUrl = Annotated[
    str | None,
    typer.Option(
        "--spark-url",
        "--spark",
        metavar="URL",
        rich_help_panel=_SPARK,
        help="A Spark cluster; by default, the cores of this machine.",
    ),
]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", rich_help_panel=_SPARK, help="The driver's memory.")]
SparkLog = Annotated[
    str, typer.Option("--spark-log", metavar="LEVEL", rich_help_panel=_SPARK, help="Level of Spark's log on stderr.")
]
