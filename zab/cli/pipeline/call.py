"""A job of `zab pipeline` with its options, which were checked as far as possible without looking at files.

The rows of the job are written, or printed as a table.
"""

import sys
from typing import TYPE_CHECKING, Any, Self

import typer
from attrs import frozen

from zab.cli.pipeline import options
from zab.cli.pipeline.driver import Driver, SparkOptions
from zab.cli.pipeline.jobs import Job
from zab.cli.pipeline.run import Run, in_order, running
from zab.cli.pipeline.table import print_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Call"]


@frozen
class Output:
    """The options of `Job.gives_rows`."""

    out: str | None
    output_format: str | None
    overwrite: bool
    columns: str | None
    limit: int


@frozen
class Call:
    """own: the job's own options. output: where the rows go, if it has any. spark: options of the session, if the call
    has one to itself."""

    job: Job
    own: dict[str, Any]
    dirs: list[str]
    range: options.Range
    uncommitted: bool
    output: Output | None
    spark: SparkOptions

    @classmethod
    def of(
        cls,
        job: Job,
        own: dict[str, Any],
        *,
        dirs: list[str] | None = None,
        ensemble: str | None = None,
        since: str | None = None,
        until: str | None = None,
        zxid_min: str | None = None,
        zxid_max: str | None = None,
        uncommitted: bool = False,
        spark_url: str | None = None,
        memory: str = "2g",
        spark_log: str = "off",
        **output: Any,
    ) -> Self:
        """Make a call from typer's values. Raises BadParameter."""
        bounds = options.Range.of(since, until, zxid_min, zxid_max)
        named = options.named_dirs(dirs or [], ensemble)
        if output and output["output_format"] is not None and output["out"] is None:
            raise typer.BadParameter("it needs --out", param_hint="--format")
        instead = next((name for name in job.instead_of_rows if own[name]), None)
        if instead is not None and output["out"] is not None:
            raise typer.BadParameter(f"it cannot be used with --{instead}", param_hint="--out")
        if job.check is not None:
            job.check(own)
        rows = Output(**output) if job.gives_rows and instead is None else None
        return cls(job, own, named, bounds, uncommitted, rows, SparkOptions(spark_url, memory, spark_log))

    @property
    def is_endless(self) -> bool:
        """Whether it runs until Ctrl-C."""
        ends_with = self.job.ends_with
        return ends_with is not None and not self.own[ends_with]

    @property
    def all_read(self) -> list[str]:
        """The directories that it reads; empty if these are not all."""
        return [] if self.is_endless else self.dirs

    def run_in(self, driver: Driver, label: str = "") -> int:
        """Run it; return the exit code, or raise Exit with it. label: the beginning of its lines on standard error."""
        with running(driver, self.dirs, self.range, uncommitted=self.uncommitted, label=label) as run:
            if self.job.takes_range:
                run.check_bounds()
            code = _give(self.job, run, self.own, self.output) if self.output else self.job.function(run, **self.own)
            run.tell_damage()
            run.tell_extent()
        return code or 0


def _give(job: Job, run: Run, own: dict[str, Any], output: Output) -> int:
    """Run the job, write or print its rows, and return the exit code."""
    target = None
    if output.out is not None:
        from zab.pipeline.output import check_out

        target = check_out(output.out, output.output_format, overwrite=output.overwrite)
    frame = job.function(run, **own)
    if job.order:
        frame = in_order(frame, job.order)
    names = _chosen(frame, output.columns)
    frame = frame.select(*names)
    if target is None:
        if output.columns is None:
            names = list(run.shown) or [name for name in names if name != "ensemble"]
        count = _print(run, frame, output.limit, names)
    else:
        count = target.write(frame)
        run.note(f"{count:,} {'row' if count == 1 else 'rows'} in {target.place}")
    return 1 if job.fails_on_rows and count else 0


def _chosen(frame: "DataFrame", columns: str | None) -> list[str]:
    """The names of the requested columns; by default all."""
    there = list(frame.columns)
    if columns is None or columns == "all":
        return there
    chosen = [name.strip() for name in columns.split(",") if name.strip()]
    if not chosen or set(chosen) - set(there):
        raise typer.BadParameter(f"the columns are {', '.join(there)}", param_hint="--columns")
    return chosen


def _print(run: Run, frame: "DataFrame", limit: int, names: list[str]) -> int:
    """Print the first rows as a table; return how many there are, or one more than the limit."""
    rows = frame.limit(limit + 1).toArrow().to_pylist()
    left_out: list[str] = []
    with run.paused():
        if rows:
            left_out = print_rows(rows[:limit], names)
        sys.stdout.flush()
    if not rows:
        run.note("no rows")
    if left_out:
        run.note(f"no room for {', '.join(left_out)}; --columns chooses others")
    if len(rows) > limit:
        run.note(f"only the first {limit} rows; --limit shows more, --out writes all")
    return len(rows)
