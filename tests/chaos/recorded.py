"""A member whose calls are recorded, for power cuts: `python -m tests.chaos.recorded LIBRARY MODULE FILE`

It becomes `python -m MODULE FILE` under the recorder of `tests.rigs.power_cut`. The record is beside FILE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.rigs.power_cut import Machine


def machine_of(library: Path, file: Path) -> Machine:
    """The machine of a member, by its zoo.cfg."""
    lines = file.read_text().splitlines()
    (root,) = (line.removeprefix("dataDir=") for line in lines if line.startswith("dataDir="))
    return Machine(library, Path(root), file.with_name("record"), ("myid",))


def main(library: str, module: str, file: str) -> None:
    environment = {**os.environ, **machine_of(Path(library), Path(file)).environment}
    os.execve(sys.executable, [sys.executable, "-m", module, file], environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
