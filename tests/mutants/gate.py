"""The gate: each mutant is made in a copy of the sources, and its killer has to fail there, and only there.

    with bench(root) as workbench:
        workbench.passes(killers)            on the sources as they are
        workbench.verdict(mutant)            without the rule

A killer that cannot run to its end (no such test, a mutant that cannot be imported, a hang) has killed nothing. A run
that takes too long says nothing about the mutant: it is an error of its own, `Verdict.TIMED_OUT`.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tests.mutants.mutant import SIMULATED, Mutant, MutantError
from tests.native.compiling import compile_part

ROOT = Path(__file__).parents[2]
COPIED = ("zab", "datatree", "session", "tests", "bench", "docs", "pyproject.toml", "Makefile", "README.md")
"""What killers need: the sources, the tests and what some of these read."""

KILLER_SECONDS = 180.0
"""How long one run on a mutant may take. This only bounds a hang."""

FAILED = 1
"""The exit code of a pytest run in which a test failed; 2 and above: it did not come to that."""
_PASSED = re.compile(r"^\d+ passed", re.MULTILINE)
"""What pytest prints last when a test has run; "1 skipped" where what it needs is not installed."""
_SIMULATED_FAILURES = (1, 3, 4)
"""The exit codes of `zab simulate` (docs/explanation/simulator.md)."""


class Verdict(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    NOT_RUN = "NOT RUN"
    """Its killer did not run to its end, or was skipped."""
    TIMED_OUT = "TIMED OUT"
    """Its killer took too long: whether it notices is unknown."""


@attrs.frozen
class Outcome:
    """The exit code of a command, None if it timed out, and what it printed."""

    code: int | None
    output: str


@attrs.frozen
class Workbench:
    """A copy of the sources, one mutant at a time in it."""

    directory: Path
    killer_seconds: float = KILLER_SECONDS

    def passes(self, killers: Sequence[str]) -> str:
        """Run killers on the sources as they are: "", or what is wrong with them."""
        tests = [killer for killer in killers if not killer.startswith(SIMULATED)]
        commands = [pytest_command(tests)] if tests else []
        commands += [command_of(killer) for killer in killers if killer.startswith(SIMULATED)]
        for command in commands:
            outcome = self._run(command, self.killer_seconds * max(1, len(killers) // 4))
            if outcome.code != 0:
                return outcome.output
        return ""

    def verdict(self, mutant: Mutant) -> tuple[Verdict, str]:
        """Make the mutant and run its killer; with what that printed."""
        try:
            outcome = self.run(mutant, command_of(mutant.killer))
        except MutantError as error:
            return Verdict.NOT_RUN, str(error)
        failures = _SIMULATED_FAILURES if mutant.killer.startswith(SIMULATED) else (FAILED,)
        if outcome.code is None:
            return Verdict.TIMED_OUT, outcome.output
        if outcome.code == 0:
            was_run = mutant.killer.startswith(SIMULATED) or _PASSED.search(outcome.output)
            return (Verdict.SURVIVED if was_run else Verdict.NOT_RUN), outcome.output
        return (Verdict.KILLED if outcome.code in failures else Verdict.NOT_RUN), outcome.output

    def run(self, mutant: Mutant, command: Sequence[str]) -> Outcome:
        """Make the mutant and run a command on it."""
        # The Python of this package is looked at, not what is compiled with the same effect, except by tests of that.
        off = all(edit.path.startswith("datatree/") for edit in mutant.edits) and "native" not in mutant.killer
        with self._made(mutant):
            return self._run(command, self.killer_seconds, {"ZAB_NATIVE": "0"} if off else {})

    @contextlib.contextmanager
    def _made(self, mutant: Mutant) -> Iterator[None]:
        before = {
            path: (self.directory / path).read_text(encoding="utf-8") for path in {edit.path for edit in mutant.edits}
        }
        try:
            self._write(mutant.texts(self.directory))
            yield
        finally:
            self._write(before)

    def _write(self, texts: dict[str, str]) -> None:
        """Write sources, and remove what was compiled of them: files of one size and second look the same. Native parts
        are compiled again."""
        for name, text in texts.items():
            path = self.directory / name
            path.write_text(text, encoding="utf-8")
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()
            if path.suffix == ".c":
                compile_part(path)

    def _run(self, command: Sequence[str], seconds: float, further: Mapping[str, str] = {}) -> Outcome:
        environment = {**os.environ, "PYTHONPATH": str(self.directory), **further}
        # A run of the suite beside this one, or around it, has nothing to say to the killers.
        for name in [name for name in environment if name.startswith("PYTEST_")]:
            del environment[name]
        # What killers import is compiled once for all of them: that is half of what a short one takes.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                output, _ = process.communicate()
                return Outcome(None, f"{output}\ntimed out after {seconds:.0f} s")
        return Outcome(process.returncode, output)


@contextlib.contextmanager
def bench(root: Path = ROOT) -> Iterator[Workbench]:
    """A workbench with a copy of the repository at `root`; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="zab-mutants-", ignore_cleanup_errors=True) as directory:
        for name in COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, Path(directory, name), ignore=shutil.ignore_patterns("__pycache__", "build"))
            elif source.exists():
                shutil.copy2(source, Path(directory, name))
        yield Workbench(Path(directory))


def command_of(killer: str) -> list[str]:
    """What runs a killer."""
    if killer.startswith(SIMULATED):
        return simulate_command(int(killer.removeprefix(SIMULATED)))
    return pytest_command([killer])


def simulate_command(seed: int) -> list[str]:
    return [sys.executable, "-m", "zab.cli.main", "simulate", "--seed", str(seed)]


def pytest_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
