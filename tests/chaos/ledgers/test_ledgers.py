"""Real bookies and members under load to which faults happen: `run`. Nothing that clients were told is wrong then; and
of bookies with a fault of their own it is.

`make chaos` goes on for ten minutes, with a seed of the day. The suite has forty seconds, and the bookies with a fault.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.program import chaos
from tests.rigs.namespaces import can_part

pytestmark = [pytest.mark.slow, pytest.mark.long]

RUN = "tests.chaos.ledgers.run"
TRIES = 3


def test_ledgers_lose_nothing_whatever_happens_to_them(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seconds = 2 * float(pytestconfig.getoption("--chaos-seconds"))
    code, said = chaos(RUN, tmp_path, "--seconds", str(seconds), has_machines=can_part())
    print(said)
    assert code == 0, said
    found = re.search(r"^\d+ appends, (\d+) acknowledged", said, re.MULTILINE)
    assert found is not None, said
    assert int(found[1]) >= 10 * seconds, said


@pytest.mark.parametrize(
    ("fault", "happens", "rule"),
    [("forgetful", "kill_all", "lost"), ("unfenced", "pause_member", "lost")],
)
def test_bookies_that_break_a_promise_are_found(tmp_path: Path, fault: str, happens: str, rule: str) -> None:
    """Nothing may be under way when something happens: then it is tried again."""
    said = ""
    for number in range(1, TRIES + 1):
        options = ("--seconds", "3", "--seed", str(number), "--faulty", fault, "--only", happens)
        code, said = chaos(RUN, tmp_path / str(number), *options)
        if f"\n{rule}: " in said:
            assert code == 1
            return
    raise AssertionError(said)
