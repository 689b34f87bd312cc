"""`zab pipeline NAME DIRS...`: the commands that are made of the jobs over logs and snapshots.

A command has the options of its job and the shared ones that the job's row asks for (`zab.cli.pipeline.jobs`), in one
signature. What the job gives is written, or printed as a table.

Exit codes: 0; 1 what the user gave cannot be used, with one sentence that says why, or a check found something
(`fails_on_rows`); 2 wrong usage.
"""

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer

from zab.cli.pipeline import options
from zab.cli.pipeline.jobs import JOBS, Job
from zab.cli.pipeline.run import Run, in_order, running
from zab.cli.pipeline.table import print_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["pipeline_app"]

pipeline_app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})

_Options: TypeAlias = dict[str, tuple[Any, Any]]
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_DIRS: Final[_Options] = {"dirs": (options.Dirs, ...), "ensemble": (options.Ensemble, None)}
_RANGE: Final[_Options] = {
    "since": (options.Since, None),
    "until": (options.Until, None),
    "zxid_min": (options.ZxidMin, None),
    "zxid_max": (options.ZxidMax, None),
    "uncommitted": (options.Uncommitted, False),
}
_OUTPUT: Final[_Options] = {
    "out": (options.Out, None),
    "output_format": (options.Format, None),
    "overwrite": (options.Overwrite, False),
    "columns": (options.Columns, None),
    "limit": (options.Limit, 50),
}
_SPARK: Final[_Options] = {
    "spark_url": (options.SparkUrl, None),
    "memory": (options.Memory, "2g"),
    "spark_log": (options.SparkLog, "off"),
}


def _own_parameters(job: Job) -> list[inspect.Parameter]:
    """Those of the function after `run`."""
    return list(inspect.signature(job.function).parameters.values())[1:]


def _shared_parameters(job: Job) -> list[inspect.Parameter]:
    groups = [
        *([_DIRS] if job.takes_dirs else []),
        *([_RANGE] if job.takes_range else []),
        *([_OUTPUT] if job.gives_rows else []),
        *([_SPARK] if job.takes_spark else []),
    ]
    return [
        inspect.Parameter(name, _KEYWORD, annotation=kind, default=inspect.Parameter.empty if value is ... else value)
        for group in groups
        for name, (kind, value) in group.items()
    ]


def _command(name: str, job: Job) -> Callable[..., None]:
    """The function that typer calls: the job's own options and the shared ones, in one signature."""
    own = _own_parameters(job)

    def command(**values: Any) -> None:
        mine = {parameter.name: values.pop(parameter.name) for parameter in own}
        _call(job, mine, **values)

    shared = _shared_parameters(job)
    taken = {parameter.name for parameter in own}
    assert not taken & {parameter.name for parameter in shared}, f"{name} declares an option that is there already"
    parameters = [*shared[: len(_DIRS) if job.takes_dirs else 0], *own, *shared[len(_DIRS) if job.takes_dirs else 0 :]]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = job.function.__doc__
    return command


def _call(
    job: Job,
    mine: dict[str, Any],
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
) -> None:
    bounds = options.Range.of(since, until, zxid_min, zxid_max)
    named = options.named_dirs(dirs or [], ensemble)
    if output and output["output_format"] is not None and output["out"] is None:
        raise typer.BadParameter("it says how to write, and --out where", param_hint="--format")
    own_output = [name for name in job.instead_of_rows if mine[name]]
    gives_rows = job.gives_rows and not own_output
    if own_output and output["out"] is not None:
        raise typer.BadParameter(f"it does not go with --{own_output[0]}", param_hint="--out")
    with running(named, bounds, uncommitted=uncommitted, url=spark_url, memory=memory, spark_log=spark_log) as run:
        if job.takes_range:
            run.check_bounds()
        code = _give(job, run, mine, **output) if gives_rows else job.function(run, **mine)
        run.tell_damage()
        run.tell_extent()
    if code:
        raise typer.Exit(code)


def _give(
    job: Job,
    run: Run,
    mine: dict[str, Any],
    *,
    out: str | None,
    output_format: str | None,
    overwrite: bool,
    columns: str | None,
    limit: int,
) -> int:
    """Run the job, write or print its rows, and return the exit code."""
    target = None
    if out is not None:
        from zab.pipeline.output import check_out

        target = check_out(out, output_format, overwrite=overwrite)
    frame = job.function(run, **mine)
    if job.order:
        frame = in_order(frame, job.order)
    names = _chosen(frame, columns)
    frame = frame.select(*names)
    if target is None:
        if columns is None:
            names = list(run.shown) or [name for name in names if name != "ensemble"]
        count = _print(run, frame, limit, names)
    else:
        count = target.write(frame)
        run.note(f"{count:,} {'row' if count == 1 else 'rows'} in {target.place}")
    return 1 if job.fails_on_rows and count else 0


def _chosen(frame: "DataFrame", columns: str | None) -> list[str]:
    """The names of the columns that were asked for, all if none were."""
    there = list(frame.columns)
    if columns is None or columns == "all":
        return there
    chosen = [name.strip() for name in columns.split(",") if name.strip()]
    if not chosen or set(chosen) - set(there):
        raise typer.BadParameter(f"the columns are {', '.join(there)}", param_hint="--columns")
    return chosen


def _print(run: Run, frame: "DataFrame", limit: int, names: list[str]) -> int:
    """The first rows as a table; returns how many there are, or one more than the limit."""
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


for _name, _job in JOBS.items():
    pipeline_app.command(_name)(_command(_name, _job))
