"""The options of the data sources of logs, as Spark passes them: texts, whose names may have any case.

A Spark worker finds out what is wrong with one, and Spark raises that as its own exception: with `told_plainly`, only
as the sentence, without the stack of the worker.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, cast

from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.reading.planning import Members, Range

__all__ = ["PLAN", "Options", "told_plainly"]

PLAN: Final = "zab.plan"
"""The option with a plan made in advance, so that a wrong directory is reported before Spark starts anything."""
_IN_WORKER: Final = "SPARK_REUSE_WORKER"
_HIDES_STACK: Final = "SPARK_HIDE_TRACEBACK"
"""The environment variable that makes Spark leave out the stack of a worker's exception."""


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Make Spark report a PipelineError of the block without the worker's stack.

    The variable is set only for this exception: Spark ends a worker that raised one."""
    try:
        yield
    except PipelineError:
        if _IN_WORKER in os.environ:
            os.environ[_HIDES_STACK] = "1"
        raise


@frozen
class Options:
    """The options of one read."""

    dirs: tuple[str, ...]
    wanted: Range
    members: Members = "all"
    uncommitted: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], also: Iterable[str] = ()) -> "Options":
        """Parse the options of a data source, whose names may have any case. `also`: names of options that are parsed
        elsewhere. Raises PipelineError."""
        ignored = {name.lower() for name in also}
        given = {name.lower(): value for name, value in options.items() if name.lower() not in ignored}
        unknown = given.keys() - {
            "dirs",
            "path",
            "zxidmin",
            "zxidmax",
            "timemin",
            "timemax",
            "members",
            "uncommitted",
            PLAN,
        }
        if unknown:
            raise PipelineError(f"unknown option {', '.join(sorted(unknown))}")
        dirs = given.get("dirs") or given.get("path")
        if not dirs:
            raise PipelineError('option "dirs" is missing: the directories to read')
        wanted = Range.of(
            _zxid(given, "zxidmin"), _zxid(given, "zxidmax"), _time(given, "timemin"), _time(given, "timemax")
        )
        uncommitted = given.get("uncommitted", "false").lower()
        if uncommitted not in ("true", "false"):
            raise PipelineError(f"option uncommitted is true or false, not {uncommitted!r}")
        return cls(_split(dirs), wanted, cast("Members", given.get("members", "all")), uncommitted == "true")


def _split(dirs: str) -> tuple[str, ...]:
    if not dirs.startswith("["):
        return tuple(part.strip() for part in dirs.split(",") if part.strip())
    try:
        listed = json.loads(dirs)
    except ValueError:
        raise PipelineError(f'option "dirs" is no JSON list: {dirs}') from None
    return tuple(str(part) for part in listed)


def _zxid(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text, 0)
    except ValueError:
        raise PipelineError(f"option {name}: {text!r} is no zxid; write it as 0x100000001 or in decimal") from None


def _time(given: Mapping[str, str], name: str) -> datetime | int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"option {name}: {text!r} is no time; write ms since 1970 or ISO 8601") from None
