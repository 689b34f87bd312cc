"""Native parts: what is compiled and may be missing, with the same effect as the Python beside it, which is the
reference.

    part        compiled from   what it does, and the Python that does the same
    durable     `durable.c`     a durable write and the frame that waits for it: `zab.host.storage.disk`,
                                `zab.host.loop.gate`
    tree        `tree.c`        applying of plain transactions: `datatree.apply`, `datatree.tree`
    writes      `writes.c`      preparing of plain writes, and their records: `datatree.prepare`, `datatree.record`

`load` gives a part, or None: it was not compiled, since there was no compiler at the installation, or it is switched
off by `ZAB_NATIVE=0` in the environment.

Not here: which code uses a part.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Final

PARTS: Final = ("durable", "tree", "writes")


def load(part: str) -> ModuleType | None:
    """One of the `PARTS`, if it is there and not switched off."""
    assert part in PARTS
    if os.environ.get("ZAB_NATIVE") == "0":
        return None
    try:
        return importlib.import_module(f"zab.native.{part}")
    except ImportError:
        return None


def loaded() -> str:
    """The names of the parts that are used, for people; "none" without any."""
    return ", ".join(part for part in PARTS if load(part) is not None) or "none"
