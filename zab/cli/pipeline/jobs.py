"""The table of the jobs of `zab pipeline`.

A job is a function in a module beside this one. It takes a `Run` and keyword-only parameters, which are its own
options. Its docstring is its help. It imports Spark and the pipeline when it is called, so that `zab pipeline --help`
works without them. Its row decides which shared options (`zab.cli.pipeline.options`) its command also has:

    takes_dirs      DIRS... and --ensemble
    takes_range     --since --until --zxid-min --zxid-max --uncommitted
    takes_spark     --spark-url --memory --spark-log
    gives_rows      --out --format --overwrite --columns --limit: the function returns a DataFrame, which is written to
                    a file or directory, or printed as a table; else it does its own output and may return an exit code
"""

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from zab.cli.pipeline.activity import audit_job, hotspots_job, locks_job, sessions_job
from zab.cli.pipeline.checks import check_verify, history_job, verify_job
from zab.cli.pipeline.parquet import compact_job, follow_job
from zab.cli.pipeline.report import report_job
from zab.cli.pipeline.shipping import package_job
from zab.cli.pipeline.state import check_shape, diff_job, state_job

__all__ = ["JOBS", "Job"]


@frozen
class Job:
    """One command of `zab pipeline`.

    order: columns by which the rows are sorted, "-writes" falling; empty if the function sorts, or no order is needed.
    fails_on_rows: exit code 1 if there are any rows.
    instead_of_rows: the job's options with which the function returns no rows, but does its own output.
    check: raises BadParameter for options of the job that contradict each other; it checks nothing else.
    ends_with: the job's option without which it runs until Ctrl-C.
    example: words after DIRS with which tests run the command; "{out}" stands for a directory."""

    function: Callable[..., Any]
    order: tuple[str, ...] = ()
    takes_dirs: bool = True
    takes_range: bool = True
    takes_spark: bool = True
    gives_rows: bool = True
    fails_on_rows: bool = False
    instead_of_rows: tuple[str, ...] = ()
    check: Callable[[dict[str, Any]], None] | None = None
    ends_with: str | None = None
    example: tuple[str, ...] = ()


JOBS: Final[dict[str, Job]] = {
    "audit": Job(audit_job, order=("ensemble", "zxid", "part")),
    "hotspots": Job(hotspots_job),
    "sessions": Job(sessions_job),
    "locks": Job(locks_job),
    "state": Job(state_job, takes_range=False, instead_of_rows=("to",), check=check_shape),
    "diff": Job(
        diff_job,
        order=("ensemble", "path"),
        takes_range=False,
        instead_of_rows=("commands",),
        example=("--from", "0x100000010"),
    ),
    "verify": Job(verify_job, takes_range=False, fails_on_rows=True, check=check_verify),
    "history": Job(
        history_job,
        order=("history", "path", "kind"),
        takes_dirs=False,
        takes_range=False,
        fails_on_rows=True,
    ),
    "compact": Job(compact_job, takes_range=False, gives_rows=False, example=("--out", "{out}/compact")),
    "report": Job(report_job, gives_rows=False, example=("--out", "{out}/report.html")),
    "follow": Job(
        follow_job,
        takes_range=False,
        gives_rows=False,
        ends_with="once",
        example=("--out", "{out}/rows", "--checkpoint", "{out}/checkpoint", "--once"),
    ),
    "package": Job(
        package_job, takes_dirs=False, takes_range=False, takes_spark=False, gives_rows=False, example=("{out}",)
    ),
}
