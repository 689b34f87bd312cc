"""Whether this interpreter may run a server.

Two things forbid it: `python -O`, and a package `datatree` or `session` that does not belong to this project. Other
projects install packages of these names (xarray-datatree has a `datatree`), and the one installed last wins.

The check imports neither of the two packages, nor anything else of this project, so that the command line can run it
before it loads a command.

Not here: errors in the configuration (`zab.member.settings.zoo_cfg`).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

import zab

__all__ = ["foreign_packages", "refusal"]

# The beginnings of our own docstrings: packages of other projects are in the same directory once installed.
_OWN: Final = {"datatree": '"""The replicated state: znodes', "session": '"""Which sessions are alive:'}


def foreign_packages() -> list[str]:
    """What is wrong with the packages of `zab`, one sentence each."""
    home = Path(zab.__file__).parent.parent
    problems = []
    for name, beginning in _OWN.items():
        spec = importlib.util.find_spec(name)
        origin = None if spec is None or spec.origin is None else Path(spec.origin)
        if origin is None:
            problems.append(f"the package {name!r} of zab is missing; it belongs into {home}")
        elif origin.parent.parent != home or not origin.read_text(errors="replace").startswith(beginning):
            problems.append(f"{origin.parent} is not the package {name!r} of zab but another project's")
    return problems


def refusal() -> str | None:
    """Why this interpreter must not run a server; None if it may."""
    if not __debug__:
        return "python -O switches off the assertions that keep a wrong state from being served: run without -O"
    problems = foreign_packages()
    return "; ".join((*problems, "install zab into an environment of its own")) if problems else None
