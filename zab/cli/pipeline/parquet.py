"""The jobs of `zab pipeline` that write the logs to Parquet: `compact` adds what is new, `follow` runs until Ctrl-C.

Wrong input is reported before Spark starts.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zab.cli.moments import parse_zxid
from zab.cli.pipeline.options import Uncommitted
from zab.cli.pipeline.run import Run

if TYPE_CHECKING:
    from zab.pipeline.jobs.follow import Progress

__all__ = ["compact_job", "follow_job", "parse_starting"]


def compact_job(
    run: Run,
    *,
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", show_default=False, help="Directory of Parquet: a path or a URI."),
    ],
    uncommitted: Uncommitted = False,
    allow_holes: Annotated[
        bool, typer.Option("--allow-holes", help="Continue although no given member has some transactions.")
    ] = False,
) -> None:
    """Add new transactions to Parquet by ensemble, epoch and day; each comes once, whatever is killed."""
    run.look()
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


def parse_starting(text: str) -> str | int:
    """`earliest`, `latest` or a zxid. Raises BadParameter."""
    try:
        return text if text in ("earliest", "latest") else parse_zxid(text)
    except typer.BadParameter:
        message = f"{text!r} is neither earliest, latest nor a zxid, such as 0x1000000a3"
        raise typer.BadParameter(message) from None


def follow_job(
    run: Run,
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="DIR",
            show_default=False,
            help="Directory of Parquet files; a local one, or a URI for Spark.",
        ),
    ],
    checkpoint: Annotated[
        str,
        typer.Option("--checkpoint", metavar="DIR", show_default=False, help="Records what is done, to resume there."),
    ],
    starting: Annotated[
        Any,
        typer.Option(
            "--from", metavar="ZXID", parser=parse_starting, help="earliest, latest, or the first transaction wanted."
        ),
    ] = "earliest",
    rate: Annotated[
        int | None,
        typer.Option("--rate", metavar="N", min=1, help="The maximum number of transactions in a batch; 1,000,000."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop once everything that exists now is written.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.0, help="How often to look.")] = 1.0,
    uncommitted: Uncommitted = False,
) -> None:
    """Follow running members, or directories of shipped logs, and write each transaction to Parquet once."""
    run.look()
    from zab.pipeline.jobs.follow import follow

    written = 0

    def tell(progress: "Progress") -> None:
        nonlocal written
        written += progress.rows
        if progress.rows:
            reached = ", ".join(f"{name} {zxid:#x}" for name, zxid in sorted(progress.zxids.items()))
            run.note(f"{written:,} rows, up to {reached}")

    follow(
        run.spark,
        run.dirs,
        out,
        checkpoint,
        starting=starting,
        rate=rate,
        once=once,
        every=every,
        uncommitted=uncommitted,
        on_progress=tell,
    )
