"""Positions in partitions, as they are written on the command line.

    beginning, end                      of what each partition has now
    17                                  an offset
    2026-03-01T12:00, '2h ago', now     a time (`zab.cli.moments`): the first record that is not older

What cannot be read raises BadParameter: wrong usage, exit code 2.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Final

import typer

from zab.cli.brokers.topic_describe import offsets_of
from zab.cli.moments import TIME_HELP, parse_time

__all__ = ["POSITION_HELP", "Position", "parse_position", "resolved"]

POSITION_HELP: Final = "beginning, end, an offset, or a time such as '2h ago'."
_OFFSET_MAX: Final = 2**63 - 1
_OFFSET: Final = re.compile(r"[0-9]{1,19}")

Position = str | int | datetime.datetime
"""`beginning` or `end`, an offset, or a time."""


def parse_position(text: str, option: str) -> Position:
    if text in ("beginning", "end"):
        return text
    if _OFFSET.fullmatch(text) and int(text) <= _OFFSET_MAX:
        return int(text)
    try:
        return parse_time(text, option)
    except typer.BadParameter:
        reason = f"{text!r} is none of beginning, end, an offset, and a time, {TIME_HELP}"
        raise typer.BadParameter(reason, param_hint=option) from None


def resolved(admin: Any, places: list[tuple[str, int]], position: Position) -> dict[tuple[str, int], int]:
    """The offset in each partition: of a time after the last record, the end; never outside of what there is."""
    from kafka import TopicPartition

    begins, ends = offsets_of(admin, places, "EARLIEST"), offsets_of(admin, places, "LATEST")
    if position == "beginning":
        return begins
    if position == "end":
        return ends
    if isinstance(position, int):
        return {place: min(max(position, begins[place]), ends[place]) for place in places}
    assert isinstance(position, datetime.datetime)
    time_ms = max(0, round(position.timestamp() * 1000))
    found = admin.list_partition_offsets({TopicPartition(*place): time_ms for place in places}) if places else {}
    return {
        (place.topic, place.partition): ends[place.topic, place.partition] if each.offset < 0 else each.offset
        for place, each in found.items()
    }
