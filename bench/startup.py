"""What a command costs before and beside its work: user processor time of whole processes, ours beside what is below.

    python -m bench.startup [--rounds N] [--no-readme]

    python -c 'import trio'          what every trio program pays
    python -c 'import zab.client'    how much more a program with our client pays
    zab get PATH                     a command, answered by a member on loopback
    zab --help                       what it costs to be told how

All of them run in turn, round after round, so that a machine that is slow for a while is slow for all; a difference is
taken within its round. The first round, which may compile modules, is not counted. What is counted exactly, the modules
that are loaded, is a test: `tests/cli/test_startup.py`.

The result is written to bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.machine import commit, system
from bench.table import quartiles, write_readme
from tests.rigs.zab_server import zab_servers

ROUNDS = 15
TARGET = "make bench-startup"
PATH = "/startup"
TRIO, CLIENT, GET, HELP = "`import trio`", "`import zab.client`", "`zab get`", "`zab --help`"
# What an interpreter compiles, it keeps, as that of a user does.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of all commands ({ROUNDS})")
    parser.add_argument("--no-readme", dest="readme", action="store_false", help="leave bench/README.md alone")
    options = parser.parse_args()
    with zab_servers(1) as servers:
        zab = [sys.executable, "-m", "zab"]
        commands = {
            TRIO: [sys.executable, "-c", "import trio"],
            CLIENT: [sys.executable, "-c", "import zab.client"],
            GET: [*zab, "-s", servers.hosts, "get", PATH],
            HELP: [*zab, "--help"],
        }
        run([*zab, "-s", servers.hosts, "create", PATH, "x"])
        found: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(options.rounds + 1):
            for name, words in commands.items():
                cost_ms = run(words)
                if number:
                    found[name].append(cost_ms)
    lines = [system(), f"Python {platform.python_version()}", commit()]
    lines.append(f"`python -m bench.startup`: medians (quartiles) of {options.rounds} rounds")
    text = "\n".join(f"- {line}" for line in lines) + "\n\n" + table(found)
    print(text)
    if options.readme:
        write_readme(text, TARGET)
    return 0


def run(words: Sequence[str]) -> float:
    """Milliseconds of user processor time that the whole process took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(words, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) * 1000


def table(found: dict[str, list[float]]) -> str:
    """Each command, and by how much it costs more than `import trio` in the same round."""
    rows = ["| command | user processor time, ms | above `import trio`, ms |", "|---|---:|---:|"]
    for name, costs in found.items():
        above = [cost - least for cost, least in zip(costs, found[TRIO], strict=True)]
        rows.append(f"| {name} | {_shown(costs)} | {'' if name == TRIO else _shown(above)} |")
    return "\n".join(rows) + "\n"


def _shown(values: Sequence[float]) -> str:
    low, _, high = quartiles(values)
    return f"{statistics.median(values):.0f} ({low:.0f}-{high:.0f})"


if __name__ == "__main__":
    sys.exit(main())
