"""Flags are shown in the help without a type: `--json`, not `--json <bool>`, which reads as if a value followed."""

from typing import Any

__all__ = ["show_flags_without_type"]


def show_flags_without_type(command: Any) -> None:
    """The flags of a command and of all below it."""
    get_params = command.get_params

    def params(context: Any) -> Any:
        found = get_params(context)
        for each in found:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return found

    command.get_params = params
    for below in getattr(command, "commands", {}).values():
        show_flags_without_type(below)
