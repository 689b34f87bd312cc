"""What a program of a client library that fails leaves: a reason, and servers that run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.rigs.client_programs import run_client
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember


class Member(ZooKeeperMember):
    """Without a process: it counts what is asked of it."""

    def __init__(self, client_port: int) -> None:
        super().__init__(1, client_port, Path(), [])
        self.serves = True
        self.kills = 0

    @property
    def running(self) -> bool:
        return self.serves

    def mode(self) -> str:
        return "leader" if self.serves else ""

    def kill(self) -> None:
        self.kills += self.serves
        self.serves = False

    def start(self) -> None:
        self.serves = True


@pytest.fixture
def ensemble() -> ZooKeeperEnsemble:
    return ZooKeeperEnsemble([Member(1), Member(2)])


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def kills(ensemble: ZooKeeperEnsemble) -> list[tuple[int, bool]]:
    return [(member.kills, member.running) for member in ensemble.members if isinstance(member, Member)]


def test_what_it_prints_without_what_it_asks_for(ensemble: ZooKeeperEnsemble) -> None:
    asking = "import sys; print('please kill 127.0.0.1:2', flush=True); print(input(), sys.argv[1])"
    assert run_client(python(asking), ensemble) == ["done 127.0.0.1:1,127.0.0.1:2"]
    assert kills(ensemble) == [(0, True), (1, True)]


def test_what_is_started_before_it_goes_on(ensemble: ZooKeeperEnsemble) -> None:
    asking = "for what in 'kill leader', 'start', 'kill leader': print('please', what, flush=True); print(input())"
    assert run_client(python(asking), ensemble) == ["done"] * 3
    assert kills(ensemble) == [(2, True), (0, True)]


def test_one_that_fails_is_told_with_its_reason(ensemble: ZooKeeperEnsemble) -> None:
    failing = "print('seen'); print('please kill leader', flush=True); input(); raise SystemExit('the reason')"
    with pytest.raises(AssertionError, match=r"exit code 1\nseen\nthe reason"):
        run_client(python(failing), ensemble)
    assert kills(ensemble) == [(1, True), (0, True)]


def test_one_that_asks_for_what_nobody_does(ensemble: ZooKeeperEnsemble) -> None:
    with pytest.raises(AssertionError, match="please go away"):
        run_client(python("print('please go away', flush=True); input()"), ensemble)


def test_one_that_does_not_end(ensemble: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.client_programs.LONG_PATIENCE_SECONDS", 0.5)
    with pytest.raises(AssertionError, match="exit code -9"):
        run_client(python("input()"), ensemble)
