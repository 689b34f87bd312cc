"""An installation without extras, as `pip install zab` makes it: all that only extras bring cannot be imported.

    with bare(directory) as environment:
        subprocess.run([sys.executable, "-m", "zab.cli.main", …], env=environment)

Processes that such a process starts are bare, too. What belongs to the installation is read from the metadata of the
packages that are installed here.

    python -m tests.rigs.bare_installation     runs commands one after the other, in one process

It reads a JSON list on standard input, of commands as lists of words, and prints one of `Ended`, as lists.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

OWN = frozenset({"zab", "datatree", "session", "tests", "bench"})

_HIDING = """
from importlib.machinery import PathFinder

HIDDEN = {hidden!r}
real = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in HIDDEN else real(name, *more)
"""


class Ended(NamedTuple):
    """How a command ended. `problem` is the traceback of an exception that nobody caught, or empty."""

    code: int
    said: str
    problem: str


def hidden_modules() -> frozenset[str]:
    """The modules that are installed here and come with no dependency of zab, at any depth."""
    packages, left = set[str](), ["zab"]
    while left:
        package = _plain(left.pop())
        if package not in packages:
            packages.add(package)
            left += _required(package)
    provided = metadata.packages_distributions()
    return frozenset(
        module for module, by in provided.items() if not packages & set(map(_plain, by)) and module not in OWN
    )


def _required(package: str) -> Iterator[str]:
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return  # for another system
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def bare(directory: Path) -> dict[str, str]:
    """The environment of a bare process; `directory` is for a file that Python reads as it starts."""
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(_HIDING.format(hidden=set(hidden_modules())), encoding="utf-8")
    path = os.pathsep.join([str(directory), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def run_all(commands: Sequence[Sequence[str]]) -> list[Ended]:
    """Run commands one after the other, with nothing on their standard input."""
    from zab.cli.main import main

    found = []
    for words in commands:
        problem, code = "", 0
        with tempfile.TemporaryFile("w+") as output, _standard_streams(output.fileno()):
            try:
                main(list(words))
            except SystemExit as ending:
                code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
            except BaseException:  # noqa: BLE001  (it is reported, as at the end of a process)
                problem = traceback.format_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            output.seek(0)
            found.append(Ended(code, output.read(), problem))
    return found


@contextlib.contextmanager
def _standard_streams(output: int) -> Iterator[None]:
    """Standard output and standard error go to this descriptor, and standard input is empty."""
    kept = [os.dup(number) for number in (0, 1, 2)]
    with open(os.devnull) as nothing:
        for number, source in enumerate((nothing.fileno(), output, output)):
            os.dup2(source, number)
    try:
        yield
    finally:
        for number, source in enumerate(kept):
            os.dup2(source, number)
            os.close(source)


if __name__ == "__main__":
    print(json.dumps(run_all(json.load(sys.stdin))))
