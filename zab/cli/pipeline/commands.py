"""`zab pipeline NAME`: the jobs over logs and snapshots as commands; `run`, which runs several; `prepare`.

A command has the options of its job and the shared ones that the job's row asks for (`zab.cli.pipeline.jobs`).

Exit codes: 0; 1 the input cannot be used, with one sentence that says why, or a check found something
(`fails_on_rows`); 2 wrong usage. `run` ends with the highest code of its jobs.
"""

from typing import Final

import typer

from zab.cli.pipeline.call import Call
from zab.cli.pipeline.driver import Driver
from zab.cli.pipeline.job_file import JobFile, run_command
from zab.cli.pipeline.jobs import JOBS
from zab.cli.pipeline.prepare import prepare_command
from zab.cli.pipeline.signatures import command_of

__all__ = ["carry_out", "pipeline_app"]


def carry_out(called: Call | JobFile | None) -> None:
    """Run the call that a command returned, in a session of its own."""
    if called is None:
        return
    with Driver(called.spark, called.all_read) as driver:
        code = called.run_in(driver)
    if code:
        raise typer.Exit(code)


pipeline_app: Final = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    result_callback=carry_out,
)
for _name, _job in JOBS.items():
    pipeline_app.command(_name)(command_of(_name, _job))
pipeline_app.command("run")(run_command)
pipeline_app.command("prepare")(prepare_command)
