"""Commands that wait for a change, while the member that they are on dies, or their session ends."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cli.commands import PATIENCE_SECONDS, Run, run, started
from tests.client.running import running
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, four_letter_word

__all__ = ["run"]

WORDS = {"4lw.commands.whitelist": "*"}
# Small enough that a session ends while the test waits, large enough for a machine that is busy.
SOON = {**WORDS, "tickTime": 500, "minSessionTimeout": 2000}


@pytest.fixture(scope="module")
def three() -> Iterator[ZooKeeperEnsemble]:
    with running("zab", 3, WORDS) as servers:
        yield servers


@pytest.fixture
def ensemble(three: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three members that serve, also after a test that killed one."""
    yield three
    for member in three.members:
        if not member.running:
            member.start()
    three.wait()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def watched(servers: ZooKeeperEnsemble) -> ZooKeeperMember | None:
    """The member that somebody's watch of data is on."""
    for member in servers.members:
        if member.running and "\nTotal watches:1\n" in four_letter_word(member.client_port, "wchs"):
            return member
    return None


@pytest.mark.parametrize("words", [["watch", "-n", "1"], ["get", "-w"], ["stat", "-w"]])
def test_a_change_is_waited_for_when_the_member_is_killed(
    ensemble: ZooKeeperEnsemble, run: Run, words: list[str]
) -> None:
    path = f"/{words[0]}"
    assert run("-s", ensemble.hosts, "create", path, "before") == 0
    with started("-s", ensemble.hosts, *words, path) as process:
        until(lambda: watched(ensemble))
        member = watched(ensemble)
        assert member is not None
        member.kill()
        # Registered again, at a member that serves.
        until(lambda: watched(ensemble))
        assert run("-s", ensemble.hosts, "set", path, "after") == 0
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert ("DATA_CHANGED" if words[0] == "watch" else "NodeDataChanged") in out.splitlines()[-1]
    assert "SESSION" not in out
    assert "type:None" not in out
    assert err.endswith("zab: connecting\nzab: connected\n")


@pytest.mark.parametrize("words", [["watch", "-n", "1", "/"], ["get", "-w", "/"]])
def test_a_session_that_is_lost_is_3(words: list[str]) -> None:
    with (
        running("zab", 1, SOON) as servers,
        started("--timeout", "2", "-s", servers.hosts, *words) as process,
    ):
        [member] = servers.members
        until(lambda: watched(servers))
        process.send_signal(signal.SIGSTOP)
        until(lambda: "was silent for its timeout" in member.log_text())
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert err.splitlines()[-1].startswith("zab: SESSIONEXPIRED")
