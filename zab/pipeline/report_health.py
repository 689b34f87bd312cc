"""The health of the replicas, for the report: what is wrong with the files of the members, each by itself."""

import datetime
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from zab.pipeline.inventory import Inventory
from zab.pipeline.reading import read_damage
from zab.pipeline.report_facts import ROWS_MAX, Health, Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["health"]


def health(
    spark: "SparkSession",
    found: Inventory,
    *,
    uncommitted: bool = False,
    say: Callable[[str], None] = lambda _text: None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    time_min: datetime.datetime | None = None,
    time_max: datetime.datetime | None = None,
) -> dict[str, Health]:
    """By ensemble."""
    say("damage")
    rows = read_damage(spark, found.dirs, zxid_min=zxid_min, zxid_max=zxid_max, uncommitted=uncommitted).collect()
    problems: dict[str, list[Problem]] = defaultdict(list)
    for row in rows:
        problems[row["ensemble"]].append(
            Problem(row["member"], row["kind"], row["reason"], file=row["file"], offset=row["offset"])
        )
    return {
        name: Health(tuple(problems[name][:ROWS_MAX]), len(problems[name]), f"{len(members)} members")
        for name, members in found.ensembles.items()
    }
