"""Ports for servers: free ones, which no other process draws meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT
from zab.testing.kit.ports import CLAIMED_MAX, HOST, PORTS, Claims, free_ports, free_ports_in_a_row

RANGE = range(PORTS.start - 200, PORTS.start)
"""Below those that servers of other tests listen on."""

PROGRAM = f"""
import sys
from zab.testing.kit.ports import Claims
claims = Claims(range({RANGE.start}, {RANGE.stop}))
print(*[claims.draw(1) for _ in range(int(sys.argv[1]))], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of claims for this test alone: a claim lasts as long as its process, and other tests draw from RANGE."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@contextmanager
def another_process(count: int) -> Iterator[set[int]]:
    """It has drawn so many ports, and lives."""
    command = [sys.executable, "-c", PROGRAM, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield set(map(int, process.stdout.readline().split()))
        finally:
            process.communicate("", timeout=60)


def drawn_until_none_is_left(claims: Claims) -> list[int]:
    found: list[int] = []

    def draw_all() -> None:
        while True:
            found.append(claims.draw(1))

    with pytest.raises(OSError, match="in use"):
        draw_all()
    return found


@pytest.mark.process
@pytest.mark.usefixtures("own_claims")
def test_processes_draw_different_ports_and_leave_theirs_when_they_end() -> None:
    with another_process(60) as theirs:
        ours = drawn_until_none_is_left(Claims(RANGE))
        assert len(theirs) == 60
        assert len(ours) == len(set(ours))
        assert not theirs & set(ours)
        assert theirs | set(ours) <= set(RANGE)
    assert theirs & set(drawn_until_none_is_left(Claims(RANGE)))


@pytest.mark.usefixtures("own_claims")
def test_a_port_on_which_somebody_listens_is_not_drawn() -> None:
    claims = Claims(RANGE)
    with socket.create_server((HOST, claims.draw(1))) as listening:
        assert listening.getsockname()[1] not in drawn_until_none_is_left(Claims(RANGE))


@pytest.mark.usefixtures("own_claims")
def test_ports_in_a_row_are_free_at_each_offset_and_nobody_draws_them_again() -> None:
    claims = Claims(RANGE)
    taken = set()
    for _ in range(5):
        first = claims.draw(3, (0, 10, 50))
        row = {first + offset + number for offset in (0, 10, 50) for number in range(3)}
        assert not row & taken
        assert row <= set(RANGE)
        taken |= row
    assert not taken & set(drawn_until_none_is_left(claims))


@pytest.mark.usefixtures("own_claims")
def test_the_oldest_ports_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.testing.kit.ports.CLAIMED_MAX", 10)
    claims = Claims(RANGE)
    drawn = [claims.draw(1) for _ in range(500)]
    assert len(set(drawn)) > 10
    assert all(len(set(drawn[at : at + 10])) == 10 for at in range(490))
    assert len(PORTS) > 10 * CLAIMED_MAX, "runs beside each other find ports"


def test_the_functions_draw_for_this_process() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert free_ports_in_a_row(3) not in ports
