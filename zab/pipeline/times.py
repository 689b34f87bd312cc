"""Checks the times that a caller gives: they need a time zone.

A datetime without one is refused by everything that takes a time: Python would assume the zone of its process, Spark
that of its session, and neither is visible in the call.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from zab.pipeline.errors import PipelineError

__all__ = ["ms_since_1970", "zoned"]

_BEGAN: Final = datetime(1970, 1, 1, tzinfo=UTC)


def zoned(time: datetime) -> datetime:
    """The time itself. Raises PipelineError for one without a zone."""
    if time.tzinfo is None:
        raise PipelineError(f"{time.isoformat()} has no time zone; write {time.isoformat()}Z if it is UTC")
    return time


def ms_since_1970(time: datetime, *, upwards: bool = False) -> int:
    """The ms since 1970 at or below a time; upwards: at or above it. Raises PipelineError for one without a zone."""
    ms, part = divmod(zoned(time) - _BEGAN, timedelta(milliseconds=1))
    return ms + (upwards and part > timedelta())
