"""The jobs of `zab pipeline` about what clients did."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zab.cli.numbers import parse_session
from zab.cli.pipeline.run import Run, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["audit_job", "hotspots_job", "locks_job", "sessions_job"]


class Count(StrEnum):
    """What `hotspots` counts by."""

    PATH = "path"
    SUBTREE = "subtree"
    SESSION = "session"
    MINUTE = "minute"
    CHURN = "churn"
    SKEW = "skew"
    COUNTERS = "counters"


class SessionView(StrEnum):
    """What `sessions` shows."""

    LIVES = "lives"
    WAVES = "waves"


class LockView(StrEnum):
    """What `locks` shows."""

    TURNS = "turns"
    QUEUE = "queue"
    SUMMARY = "summary"
    OVERLAPS = "overlaps"


def parse_path(text: str) -> str:
    """The path of a znode, without a slash at its end. Raises BadParameter."""
    if not text.startswith("/"):
        raise typer.BadParameter(f"{text!r} does not begin with /")
    return text.rstrip("/") or "/"


Subtree = Annotated[
    str | None,
    typer.Option("--subtree", metavar="PATH", parser=parse_path, help="Only this znode and everything below it."),
]


def _lower_bounds(run: Run) -> dict[str, Any]:
    """The lower bounds, for jobs that read from the beginning because they need what was before."""
    return {"since": run.range.since, "zxid_min": run.range.zxid_min}


def audit_job(
    run: Run,
    *,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", parser=parse_path, help="Only this znode.")
    ] = None,
    subtree: Subtree = None,
    session: Annotated[
        int | None,
        typer.Option(
            "--session", metavar="ID", parser=parse_session, help="Only what this session did, 0x… or decimal."
        ),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Include refused writes.")] = False,
) -> "DataFrame":
    """Show who changed what and when, with old and new values."""
    run.shown = (
        *("time", "zxid", "part", "session", "change", "path", "old", "old_known", "new"),
        *(("error",) if refused else ()),
    )
    from zab.pipeline.jobs.audit import COLUMNS, ZNODE_COLUMNS, audit

    return audit(
        run.log(COLUMNS, past=True),
        znodes=run.before(ZNODE_COLUMNS),
        path=path,
        subtree=subtree,
        session=session,
        refused=refused,
        bare_closes=run.may_have_bare_closes,
        **_lower_bounds(run),
    )


def hotspots_job(
    run: Run,
    *,
    by: Annotated[Count, typer.Option("--by", help="What to group by.")] = Count.PATH,
    depth: Annotated[int, typer.Option("--depth", min=1, help="By subtree: the depth of the subtrees.")] = 1,
    short_ms: Annotated[
        int, typer.Option("--short", min=1, metavar="MS", help="Churn: below this age a znode is short-lived.")
    ] = 1000,
) -> "DataFrame":
    """Show where writes go: by path, subtree, session or minute; churn, skew, and counters near their end."""
    from zab.pipeline.jobs.hotspots import COLUMNS, hotspots

    frame = hotspots(run.log(COLUMNS), by.value, depth=depth, short_ms=short_ms, bare_closes=run.may_have_bare_closes)
    run.shown = {
        Count.PATH: ("path", "writes", "bytes", "creates", "sets", "deletes", "sessions", "last"),
        Count.SUBTREE: ("path", "writes", "bytes", "creates", "sets", "deletes", "sessions", "last"),
        Count.SESSION: ("session", "writes", "bytes", "creates", "sets", "deletes", "refused", "paths", "last"),
    }.get(by, ())
    order = {
        Count.MINUTE: ["ensemble", "minute"],
        Count.CHURN: ["-churn", "ensemble", "path"],
        Count.SKEW: ["ensemble", "of"],
        Count.COUNTERS: ["remaining", "ensemble", "path"],
        Count.SESSION: ["-writes", "ensemble", "session"],
    }
    return in_order(frame, order.get(by, ["-writes", "ensemble", "path"]))


def sessions_job(
    run: Run,
    *,
    show: Annotated[
        SessionView, typer.Option("--show", help="The life of each session, or waves of expiry.")
    ] = SessionView.LIVES,
    within: Annotated[
        float, typer.Option("--within", min=0.001, metavar="SECONDS", help="Waves: the longest time between two.")
    ] = 5.0,
    least: Annotated[int, typer.Option("--least", min=1, help="Waves: the least number of sessions.")] = 3,
) -> "DataFrame":
    """Show the life of each session and how it ended; waves of expiry and the ephemerals deleted with them."""
    from zab.pipeline.jobs.sessions import COLUMNS, KNOWN_COLUMNS, sessions, waves

    lives = sessions(
        run.log(COLUMNS, past=True),
        known=run.before(KNOWN_COLUMNS, sessions=True),
        bare_closes=run.may_have_bare_closes,
        **_lower_bounds(run),
    )
    if show is SessionView.WAVES:
        run.shown = ("began", "ended", "sessions", "ephemerals", "last_heard", "paths")
        return in_order(waves(lives, within_ms=round(within * 1000), least=least), ["began", "ensemble"])
    run.shown = ("session", "opened", "ended", "ending", "timeout", "silent_ms", "requests", "ephemerals", "taken")
    return in_order(lives, ["opened", "ensemble", "session"])


def locks_job(
    run: Run,
    *,
    show: Annotated[
        LockView,
        typer.Option("--show", help="The turns, all contenders, one row for each lock, or possible overlaps."),
    ] = LockView.TURNS,
    subtree: Subtree = None,
) -> "DataFrame":
    """Show who held which lock, or led which election, and when; how long others waited; overlaps."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    from zab.pipeline.jobs.locks import COLUMNS, ZNODE_COLUMNS, lock_summary, locks, overlaps

    queue = locks(
        run.log(COLUMNS, past=True),
        znodes=run.before(ZNODE_COLUMNS),
        subtree=subtree,
        bare_closes=run.may_have_bare_closes,
        **_lower_bounds(run),
    )
    if show is LockView.SUMMARY:
        run.shown = (
            *("lock", "role", "contenders", "sessions", "turns", "lost"),
            *("waited_ms", "waited_ms_max", "held_ms", "held_ms_max", "handover_ms_max", "holder"),
        )
        return in_order(lock_summary(queue), ["-contenders", "ensemble", "lock"])
    if show is LockView.OVERLAPS:
        run.shown = ("lock", "session", "removed", "removed_by", "next_session", "began", "ended_by", "overlap_ms")
        return in_order(overlaps(queue), ["ensemble", "removed_zxid"])
    if show is LockView.QUEUE:
        run.shown = ("lock", "number", "session", "entered", "ahead", "held", "left", "leaving", "waited_ms")
        return in_order(queue, ["ensemble", "lock", "entered_zxid", "number"])
    run.shown = ("lock", "session", "acquired", "left", "leaving", "waited_ms", "held_ms", "handover_ms", "free_ms")
    return in_order(queue.where(F.col("held")), ["ensemble", "lock", "acquired_zxid", "number"])
