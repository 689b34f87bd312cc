"""The jobs of `zab pipeline` that check and keep: `verify`, `history`, `compact`; their options and what they print.

Each function takes a `Run` and its own options. Spark is imported in them, so that `zab pipeline --help` works without
it. What is wrong with the input is said before Spark starts.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from zab.cli.pipeline.run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["compact_job", "history_job", "verify_job"]

_STATED_MAX: Final = 30


def verify_job(
    run: Run,
    *,
    chains: Annotated[
        bool, typer.Option("--chains/--no-chains", help="Hash every batch of native logs: the chain of the history.")
    ] = True,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Read all snapshots: whole, and the same on all members.")
    ] = False,
    replays: Annotated[
        int,
        typer.Option(
            "--replays",
            metavar="N",
            min=0,
            help="Compare the N newest snapshots with what the logs make of older ones.",
        ),
    ] = 0,
) -> "DataFrame":
    """Whether the members hold one history, and all of it; every deviation with its place. Exit code 1 if there is any.

    What lags, or begins later, is no deviation and said on standard error."""
    from zab.pipeline.inventory import inventory

    inventory(run.dirs)
    from zab.pipeline.jobs.verify import as_rows, findings_of

    findings = findings_of(run.spark, run.dirs, chains=chains, snapshots=snapshots, replays=replays)
    stated = [one for one in findings if not one.deviation]
    for one in stated[:_STATED_MAX]:
        who = f"{one.ensemble} member {one.member}" if one.member is not None else one.ensemble
        place = f" ({one.file}, offset {one.offset})" if one.file is not None and one.offset is not None else ""
        run.note(f"{who}: {one.kind}: {one.sentence}{place}")
    if len(stated) > _STATED_MAX:
        run.note(f"{len(stated) - _STATED_MAX} more that are no deviations")
    found = [one for one in findings if one.deviation]
    run.note(f"{len(found)} deviation{'s' * (len(found) != 1)}")
    run.shown = ("member", "kind", "zxid", "file", "offset", "sentence")
    return as_rows(run.spark, found)


def history_job(
    run: Run,
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", show_default=False, help="Parquet files, or directories of such.")
    ],
) -> "DataFrame":
    """Check recorded client histories: linearizable writes and synced reads, monotonic reads. Exit code 1 if broken.

    Each violation has the smallest set of operations that shows it."""
    from zab.pipeline.history.files import check_file

    for file in files:
        check_file(file)
    from zab.pipeline.jobs.history import history, read_histories

    operations = read_histories(run.spark, files)
    found = history(operations).cache()
    undecided = found.where(~found.violation).collect()
    for row in undecided:
        run.note(f"{row.history} {row.path}: undecided: {row.sentence}")
    violations = found.where(found.violation)
    number = violations.count()
    run.note(f"{operations.count():,} operations; {number} violation{'s' * (number != 1)}")
    run.shown = ("path", "kind", "sentence", "witness")
    return violations


def compact_job(
    run: Run,
    *,
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", show_default=False, help="Directory of Parquet: a path or a URI."),
    ],
    uncommitted: Annotated[
        bool,
        typer.Option(
            "--uncommitted",
            help="Also what a change of leader may take away again; needed for a single directory of ZooKeeper.",
        ),
    ] = False,
    allow_holes: Annotated[
        bool, typer.Option("--allow-holes", help="Go on where transactions are missing that no member given has.")
    ] = False,
) -> None:
    """Add what is new in the logs to Parquet by ensemble, epoch and day; every transaction once, whatever is killed."""
    from zab.pipeline.inventory import inventory

    inventory(run.dirs)
    from zab.pipeline.jobs.compact import compact

    for one in compact(run.spark, run.dirs, out, uncommitted=uncommitted, allow_holes=allow_holes):
        if one.first is None or one.last is None:
            run.note(f"{one.ensemble}: nothing new")
            continue
        with run.paused():
            print(
                f"{one.ensemble}: {one.transactions} transactions from {one.first:#x} to {one.last:#x}, "
                f"{one.rows} rows in {one.files} files"
            )
        for after, following in one.holes:
            run.note(f"{one.ensemble}: what is between {after:#x} and {following:#x} is missing")
