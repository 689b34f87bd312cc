"""Makes a command read plain values itself, so that typer need not import pydantic: a fifth of the time of `zab get`.

typer has pydantic turn words into values, of each option that there is, given or not. Text that stays text, and what
was not given at all, need no turning. Everything else is left to typer, and so is every error.

typer keeps what turns a word in an attribute of the option, `_runtime_param`, until it is wanted. A version of typer
that has none is left alone.
"""

from typing import Any, Final

__all__ = ["read_plainly"]

_KEPT: Final = "_runtime_param"


class _Plain:
    """Stands for what typer would make (`typer._coercion.RuntimeParam`)."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        annotation = param.type_descriptor.annotation
        if not is_many and type(value) is annotation and (annotation is str or value is param.default):
            return value
        setattr(param, _KEPT, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def read_plainly(command: Any) -> None:
    """All parameters of a command, and of those below it, before it is called. One of them, the help, is made late."""
    get_params = command.get_params

    def plain_params(context: Any) -> Any:
        found = get_params(context)
        for each in found:
            info = getattr(getattr(each, "type_descriptor", None), "parameter_info", None)
            if info is not None and info.parser is None and getattr(each, _KEPT, each) is None:
                setattr(each, _KEPT, _Plain())
        return found

    command.get_params = plain_params
    for below in getattr(command, "commands", {}).values():
        read_plainly(below)
