"""Makes a typer command from a job's row: one signature with its own options and the shared ones in the row.

Such a command does nothing yet: it returns its `Call`.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from zab.cli.pipeline import options
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.jobs import Job

__all__ = ["SESSION_OPTIONS", "command_of"]

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

SESSION_OPTIONS: Final = _SPARK
"""The options of a session; `zab pipeline run` has them for all its jobs."""


def _own_parameters(job: Job) -> list[inspect.Parameter]:
    """The parameters of the function after `run`."""
    return list(inspect.signature(job.function).parameters.values())[1:]


def _shared_parameters(job: Job, *, has_session: bool) -> list[inspect.Parameter]:
    groups = [
        *([_DIRS] if job.takes_dirs else []),
        *([_RANGE] if job.takes_range else []),
        *([_OUTPUT] if job.gives_rows else []),
        *([_SPARK] if job.takes_spark and has_session else []),
    ]
    return [
        inspect.Parameter(name, _KEYWORD, annotation=kind, default=inspect.Parameter.empty if value is ... else value)
        for group in groups
        for name, (kind, value) in group.items()
    ]


def command_of(name: str, job: Job, *, has_session: bool = True) -> Callable[..., Call]:
    """The function that typer calls: the job's own options and the shared ones, in one signature.

    has_session: the call has a session to itself, and the options for it."""
    own = _own_parameters(job)

    def command(**values: Any) -> Call:
        mine = {parameter.name: values.pop(parameter.name) for parameter in own}
        return Call.of(job, mine, **values)

    shared = _shared_parameters(job, has_session=has_session)
    taken = {parameter.name for parameter in own}
    assert not taken & {parameter.name for parameter in shared}, f"{name} declares an option that is there already"
    dirs_count = len(_DIRS) if job.takes_dirs else 0
    parameters = [*shared[:dirs_count], *own, *shared[dirs_count:]]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = job.function.__doc__
    return command
