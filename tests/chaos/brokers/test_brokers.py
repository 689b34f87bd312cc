"""Real brokers and members under load to which faults happen: `run`. Nothing that clients were told is wrong then; and
of brokers with a fault of their own it is.

`make chaos` goes on for ten minutes, with a seed of the day. The suite has forty seconds, and the brokers with a fault.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.namespaces import IN_A_NAMESPACE, can_part

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[3]
TRIES = 3


def chaos(directory: Path, *options: str, has_machines: bool = False) -> tuple[int, str]:
    """The exit code, and what it prints."""
    before, after = ((*IN_A_NAMESPACE,), ("--machines",)) if has_machines else ((), ())
    program = (sys.executable, "-m", "tests.chaos.brokers.run")
    command = [*before, *program, "--directory", str(directory), *after, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_brokers_lose_nothing_whatever_happens_to_them(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seconds = 2 * float(pytestconfig.getoption("--chaos-seconds"))
    code, said = chaos(tmp_path, "--seconds", str(seconds), has_machines=can_part())
    print(said)
    assert code == 0, said
    found = re.search(r"^\d+ sends, (\d+) acknowledged", said, re.MULTILINE)
    assert found is not None, said
    assert int(found[1]) >= 10 * seconds, said


@pytest.mark.parametrize(
    ("fault", "happens", "rule"),
    [("alone", "kill_leader", "lost-write"), ("aborted", "elect_preferred", "aborted-read")],
)
def test_brokers_that_break_a_promise_are_found(tmp_path: Path, fault: str, happens: str, rule: str) -> None:
    """A kill may find nothing that the leader alone has: then it is tried again."""
    said = ""
    for number in range(1, TRIES + 1):
        options = ("--seconds", "3", "--seed", str(number), "--faulty", fault, "--only", happens)
        code, said = chaos(tmp_path / str(number), *options)
        if f"\n{rule}: " in said:
            assert code == 1
            return
    raise AssertionError(said)
