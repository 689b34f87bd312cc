"""`--timeout SECONDS`: how long a command may take in all, from looking for a server to its last line.

It is an option of each such command, and not of `zab`, so that lines of the shell have it as well. When the time is
over, the command ends with the exit code TIMED_OUT. If it writes, it is unknown then whether a write was done.

Not here: the timer (`zab.cli.znodes.caller`).
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args

import typer
from typer.models import OptionInfo

__all__ = ["TIMEOUT", "time_limit", "timed"]

TIMEOUT: Final = "--timeout"
_LIMIT: Final = "zab.time_limit"


def _note(context: typer.Context, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{seconds:g} seconds is no time", param_hint=TIMEOUT)
    context.meta[_LIMIT] = seconds


_Option = Annotated[
    float | None,
    typer.Option(
        TIMEOUT, metavar="SECONDS", callback=_note, show_default=False, help="Give up after this time; exit code 124."
    ),
]


def timed(function: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--timeout`, unless it has one."""
    signature = inspect.signature(function, eval_str=True)
    if any(TIMEOUT in _names(each.annotation) for each in signature.parameters.values()):
        return function

    @functools.wraps(function)
    def call(*, timeout_seconds: float | None = None, **arguments: Any) -> None:
        function(**arguments)

    more = inspect.Parameter("timeout_seconds", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Option)
    parameters = [*signature.parameters.values(), more]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _names(annotation: Any) -> list[Any]:
    """The names of an option, the first of which typer keeps as its default."""
    infos = [each for each in get_args(annotation) if isinstance(each, OptionInfo)]
    return [name for info in infos for name in (info.default, *(info.param_decls or ()))]


def time_limit(context: typer.Context) -> float | None:
    """The seconds that the command may take; None is no limit."""
    found: float | None = context.meta.get(_LIMIT)
    return found
