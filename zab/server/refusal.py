"""Whether this interpreter may run a server at all.

Not here: the configuration's own faults (`config`).
"""

from __future__ import annotations

import datatree
import session
import zab


def foreign_packages() -> list[str]:
    """Packages of ours that another distribution installed over (`xarray-datatree` has a `datatree` too)."""
    home = zab.__path__[0].rpartition("/")[0]
    return [each.__name__ for each in (datatree, session) if each.__path__[0].rpartition("/")[0] != home]


def refusal() -> str | None:
    """Why this interpreter must not run a server, None when it may."""
    if not __debug__:
        return "python -O switches off the assertions that keep a wrong state from being served: run without -O"
    foreign = foreign_packages()
    if foreign:
        return f"{', '.join(foreign)}: not this project's package; another distribution installed one of that name"
    return None
