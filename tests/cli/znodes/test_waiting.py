"""Commands that wait for a change, while the member that they are on dies, or their session ends."""

import signal
from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.cli.commands import Run, run, started
from tests.client.running import running_processes
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, four_letter_word

__all__ = ["run"]

WORDS = {"4lw.commands.whitelist": "*"}
# A session is looked at often enough that its end comes soon after its timeout.
SOON = {**WORDS, "tickTime": 500}
T = TypeVar("T")


@pytest.fixture(scope="module")
def three() -> Iterator[ZooKeeperEnsemble]:
    with running_processes("zab", 3, WORDS) as servers:
        yield servers


@pytest.fixture
def ensemble(three: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three members that serve, also after a test that killed one."""
    yield three
    for member in three.members:
        if not member.running:
            member.start()
    three.wait()


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
    zab = ("--wait", str(PATIENCE_SECONDS), "-s", ensemble.hosts)
    assert run(*zab, "create", path, "before") == 0
    with started(*zab, *words, path) as process:
        until(lambda: watched(ensemble)).kill()
        # Registered again, at a member that serves.
        until(lambda: watched(ensemble))
        assert run(*zab, "set", path, "after") == 0
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert ("DATA_CHANGED" if words[0] == "watch" else "NodeDataChanged") in out.splitlines()[-1]
    assert "SESSION" not in out
    assert "type:None" not in out
    assert err.endswith("zab: connecting\nzab: connected\n")


@pytest.mark.parametrize("words", [["--changes"], ["--equals", "after"]])
def test_wait_goes_on_at_another_member(ensemble: ZooKeeperEnsemble, run: Run, words: list[str]) -> None:
    path = f"/wait{words[0]}"
    zab = ("--wait", str(PATIENCE_SECONDS), "-s", ensemble.hosts)
    assert run(*zab, "create", path, "before") == 0
    with started(*zab, "wait", path, *words) as process:
        until(lambda: watched(ensemble)).kill()
        until(lambda: watched(ensemble))
        assert run(*zab, "set", path, "after") == 0
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (0, "")


@pytest.mark.parametrize("words", [["watch", "-n", "1", "/"], ["get", "-w", "/"], ["wait", "--gone", "/"]])
def test_a_session_that_is_lost_is_3(words: list[str]) -> None:
    with (
        running_processes("zab", 1, SOON) as servers,
        started("--wait", str(PATIENCE_SECONDS), "--session-timeout", "5", "-s", servers.hosts, *words) as process,
    ):
        [member] = servers.members
        # On a machine that is busy enough it may be lost without our doing.
        until(lambda: watched(servers) or process.poll())
        process.send_signal(signal.SIGSTOP)
        until(lambda: "was silent for its timeout" in member.log_text())
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert err.splitlines()[-1].startswith("zab: SESSIONEXPIRED")
