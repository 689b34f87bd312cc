"""Real brokers, or bookies, and members under load to which faults happen. Nothing that clients were told is wrong, and
of nodes with a fault of their own it is.

`make chaos` goes on for ten minutes, with a seed of the day. The suite has forty seconds, and the nodes with a fault.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.program import chaos
from tests.rigs.namespaces import can_part

pytestmark = [pytest.mark.slow, pytest.mark.long]

TRIES = 3


def program_of(kind: str) -> str:
    return f"tests.chaos.{kind}.run"


@pytest.mark.parametrize(("kind", "writes"), [("brokers", "sends"), ("ledgers", "appends")])
@pytest.mark.longest
def test_nothing_is_lost_whatever_happens(tmp_path: Path, pytestconfig: pytest.Config, kind: str, writes: str) -> None:
    seconds = 2 * float(pytestconfig.getoption("--chaos-seconds"))
    code, said = chaos(program_of(kind), tmp_path, "--seconds", str(seconds), has_machines=can_part())
    print(said)
    assert code == 0, said
    found = re.search(rf"^\d+ {writes}, (\d+) acknowledged", said, re.MULTILINE)
    assert found is not None, said
    assert int(found[1]) >= 10 * seconds, said


@pytest.mark.parametrize(
    ("kind", "fault", "happens", "rule"),
    [
        ("brokers", "alone", "kill_leader", "lost-write"),
        ("brokers", "aborted", "elect_preferred", "aborted-read"),
        ("ledgers", "forgetful", "kill_all", "lost"),
        ("ledgers", "unfenced", "pause_member", "lost"),
    ],
)
@pytest.mark.longest
def test_nodes_that_break_a_promise_are_found(tmp_path: Path, kind: str, fault: str, happens: str, rule: str) -> None:
    """Nothing may be under way when something happens, or all have what the leader has: then it is tried again."""
    said = ""
    for number in range(1, TRIES + 1):
        options = ("--seconds", "3", "--seed", str(number), "--faulty", fault, "--only", happens)
        code, said = chaos(program_of(kind), tmp_path / str(number), *options)
        if f"\n{rule}: " in said:
            assert code == 1
            return
    raise AssertionError(said)
