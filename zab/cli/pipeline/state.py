"""`zab pipeline state`, the whole tree at a moment, and `zab pipeline diff`, the changes between two moments."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from zab.cli.moments import parse_moment
from zab.cli.new_members import (
    Format,
    Target,
    moment_lines,
    moment_notes,
    new_targets,
    restored_zxid,
    write_members,
    written_lines,
)
from zab.cli.pipeline.options import Uncommitted
from zab.cli.pipeline.run import Run, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zab.pipeline.state.moment import Moment
    from zab.pipeline.state.snapshot_output import State
    from zab.pipeline.state.state_of import StateAt

__all__ = ["check_shape", "diff_job", "state_job"]


class Shape(StrEnum):
    """The forms in which `state` gives the state."""

    TABLE = "table"
    SESSIONS = "sessions"
    SNAPSHOT = "snapshot"
    VERSION_2 = "version-2"


_FORMATS: Final = {Shape.SNAPSHOT: Format.NATIVE, Shape.VERSION_2: Format.VERSION_2}
_MOMENT_HELP: Final = "0x1000000a3 or decimal, 2026-03-01T12:00:00Z, or '2h ago'"


def check_shape(own: dict[str, Any]) -> None:
    """Whether the options of `state` go together. Raises BadParameter."""
    if (own["shape"] in _FORMATS) != bool(own["to"]):
        raise typer.BadParameter("--to and --as snapshot (or version-2) need each other", param_hint="--to")


def state_job(
    run: Run,
    *,
    at: Annotated[
        Any,
        typer.Option(
            "--at",
            metavar="ZXID|TIME",
            parser=parse_moment,
            help=f"{_MOMENT_HELP}; without it, the end of the logs.",
        ),
    ] = None,
    shape: Annotated[
        Shape, typer.Option("--as", help="The znodes or the sessions as rows, or a snapshot to start members from.")
    ] = Shape.TABLE,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="[ID=]DIR", help="With a snapshot: a new member's data directory, as zab restore."
        ),
    ] = None,
    uncommitted: Uncommitted = False,
) -> "DataFrame | None":
    """Show the whole tree at any moment, with its Stats, or write it as a snapshot from which members start."""
    output = _FORMATS.get(shape)
    targets = [] if output is None else new_targets(to or [], output)
    from zab.pipeline.errors import PipelineError

    run.look()
    from zab.pipeline.state.state_of import state_of

    found = state_of(run.spark, run.dirs, at, uncommitted=uncommitted)
    _note(run, found.moments)
    if output is None:
        if shape is Shape.SESSIONS:
            run.shown = ("session", "timeout")
            return in_order(found.sessions, ("ensemble", "session"))
        run.shown = ("path", "data", "version", "mtime", "mzxid", "num_children", "owner", "acl")
        return in_order(found.znodes, ("ensemble", "path"))
    if len(found.moments) != 1:
        raise PipelineError(f"a snapshot holds one ensemble, and the directories hold {len(found.moments)}")
    _write(run, found, targets, output)
    return None


def _write(run: Run, found: "StateAt", targets: list[Target], output: Format) -> None:
    from zab.pipeline.state.snapshot_output import State
    from zab.pipeline.state.znode_rows import spooled

    (moment,) = found.moments

    def state_in(directory: Path) -> "State":
        sessions = {row["session"]: row["timeout"] for row in found.sessions.select("session", "timeout").collect()}
        return State(restored_zxid(moment), sessions, spooled(found.znodes, directory / "znodes.arrow"))

    written, lineage = write_members(targets, output, state_in)
    with run.paused():
        for line in written_lines(written, lineage, targets, output):
            print(line)


def diff_job(
    run: Run,
    *,
    before: Annotated[
        Any,
        typer.Option(
            "--from",
            metavar="ZXID|TIME",
            parser=parse_moment,
            show_default=False,
            help=f"The first moment: {_MOMENT_HELP}.",
        ),
    ],
    after: Annotated[
        Any,
        typer.Option(
            "--to", metavar="ZXID|TIME", parser=parse_moment, help="The second moment; by default, the end of the logs."
        ),
    ] = None,
    commands: Annotated[
        bool, typer.Option("--commands", help="Print zab commands that turn the first state into the second.")
    ] = False,
    uncommitted: Uncommitted = False,
) -> "DataFrame | None":
    """Show what changed between two moments: znodes created, deleted, or with other data, ACL or owner."""
    from zab.pipeline.errors import PipelineError

    run.look()
    from zab.pipeline.jobs.diff import diff, diff_commands
    from zab.pipeline.state.state_of import state_of

    first, second = (state_of(run.spark, run.dirs, moment, uncommitted=uncommitted) for moment in (before, after))
    _note(run, (*first.moments, *second.moments))
    changes = diff(first.znodes, second.znodes)
    run.shown = ("path", "change", "fields", "recreated", "data_before", "data_after", "time", "zxid")
    if not commands:
        return changes
    if len(first.moments) != 1:
        raise PipelineError(f"commands are for one ensemble, and the directories hold {len(first.moments)}")
    lines = diff_commands(run.cached(changes))
    with run.paused():
        for line in lines:
            print(line)
    return None


def _note(run: Run, moments: "tuple[Moment, ...]") -> None:
    for moment in moments:
        for note in moment_notes(moment):
            run.note(note)
        run.note(", ".join(moment_lines(moment)))
