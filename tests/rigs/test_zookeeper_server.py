"""The runner of the real ZooKeeper: it serves, it fails over, and it leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.rigs.zookeeper_server import ZooKeeperError, four_letter_word, zookeeper, zookeeper_main

pytestmark = [pytest.mark.java, pytest.mark.slow]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ensemble_serves_survives_its_leader_and_is_gone_afterwards() -> None:
    with zookeeper(3, heap_mb=128) as ensemble:
        pids = [member.pid for member in ensemble.members]
        assert len(ensemble.followers()) == 2
        made = zookeeper_main(ensemble.hosts, "create /a x")
        assert made.returncode == 0, made.stderr
        first = ensemble.leader()
        first.kill()
        assert ensemble.leader() is not first
        assert zookeeper_main(ensemble.leader().host, "get /b").returncode == 1
    assert not any(map(is_running, pids))


def test_failure_inside_the_block_ends_the_server() -> None:
    pids = []

    def fail() -> None:
        with zookeeper() as ensemble:
            pids.append(ensemble.members[0].pid)
            assert four_letter_word(ensemble.members[0].client_port, "ruok") == "imok"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not is_running(pids[0])


def test_server_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(ZooKeeperError, match=r"(?s)ended:.*NumberFormatException"),
        zookeeper(configuration={"maxClientCnxns": "soon"}),
    ):
        pytest.fail("it serves")


def test_server_ends_with_a_killed_test_run() -> None:
    code = (
        "from tests.rigs.zookeeper_server import zookeeper\n"
        "with zookeeper() as ensemble:\n    print(ensemble.members[0].pid, flush=True)\n    input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert is_running(pid)
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
