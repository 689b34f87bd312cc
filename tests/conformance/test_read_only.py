"""Read-only mode: what clients of a member without a quorum are told, by ours and by the real ZooKeeper.

Scenarios of ZooKeeper's ReadOnlyModeTest, and of kazoo's test of it, each against both.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.protocol.states import KeeperState

from tests.conformance.wire import ConnectionClosedError, Wire, connect_request
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word, zookeeper
from zab.client import NotReadOnlyError, State
from zab.client.sync import connect

pytestmark = [pytest.mark.java, pytest.mark.slow]

LINES: dict[str, str | int] = {"tickTime": 500, "initLimit": 20, "syncLimit": 4, "localSessionsEnabled": "true"}
"""ZooKeeper's mode needs local sessions."""


@contextmanager
def servers(kind: str) -> Iterator[ZooKeeperEnsemble]:
    words = {"4lw.commands.whitelist": "*"}
    if kind == "ours":
        with zab_servers(3, configuration={**LINES, **words, "readonlymode.enabled": "true"}) as ensemble:
            yield ensemble
    else:
        with zookeeper(3, configuration=LINES, properties=words, options=["-Dreadonlymode.enabled=true"]) as ensemble:
            yield ensemble


@pytest.fixture(scope="module", params=["ours", pytest.param("theirs", marks=pytest.mark.longest)])
def ensemble(request: pytest.FixtureRequest) -> Iterator[ZooKeeperEnsemble]:
    """Three members with a znode /a; the first one may lose the others, and gets them back."""
    with servers(request.param) as running:
        with connect(running.hosts) as zk:
            zk.create("/a", b"kept")
            zk.sync("/a")
        yield running


@contextmanager
def left_alone(ensemble: ZooKeeperEnsemble) -> Iterator[int]:
    """The first member without the others; its port."""
    first, *others = ensemble.members
    with connect(first.host) as zk:
        zk.sync("/a")
    for member in others:
        member.kill()
    until(lambda: four_letter_word(first.client_port, "isro") == "ro")
    try:
        yield first.client_port
    finally:
        for member in others:
            member.start()
        ensemble.wait()
        until(lambda: four_letter_word(first.client_port, "isro") == "rw")


@pytest.mark.long
def test_kazoo_reads_is_refused_writes_and_goes_on_when_there_is_a_quorum(ensemble: ZooKeeperEnsemble) -> None:
    with kazoo_client(ensemble.hosts, timeout=10, read_only=True, connection_retry={"max_tries": -1}) as client:
        with left_alone(ensemble):
            until(lambda: client.client_state == KeeperState.CONNECTED_RO)
            assert client.get("/a")[0] == b"kept"
            assert "a" in client.get_children("/")
            with pytest.raises(NotReadOnlyCallError):
                client.create("/fred")
            with pytest.raises(NotReadOnlyCallError):
                client.sync("/a")
        until(lambda: client.client_state == KeeperState.CONNECTED)
        assert client.exists("/fred") is None
        client.ensure_path("/written")


@pytest.mark.long
def test_our_client_moves_to_a_quorum_with_another_session(ensemble: ZooKeeperEnsemble) -> None:
    with ExitStack() as stack:
        with left_alone(ensemble):
            zk = stack.enter_context(connect(ensemble.hosts, read_only=True))
            assert zk.state is State.CONNECTED_READ_ONLY
            read_only_session = zk.session_id
            assert zk.get("/a")[0] == b"kept"
            with pytest.raises(NotReadOnlyError):
                zk.set("/a", b"new")
        until(lambda: zk.state is State.CONNECTED)
        assert zk.session_id != read_only_session
        zk.ensure_path("/moved")


@pytest.mark.long
def test_our_client_finds_a_quorum_elsewhere_while_its_server_stands_still(ensemble: ZooKeeperEnsemble) -> None:
    first, *others = ensemble.members
    assert first.process is not None
    for member in others:
        member.kill()
    until(lambda: four_letter_word(first.client_port, "isro") == "ro")
    with connect(ensemble.hosts, read_only=True) as zk:
        assert zk.state is State.CONNECTED_READ_ONLY
        first.process.send_signal(signal.SIGSTOP)
        try:
            for member in others:
                member.start()
            until(lambda: zk.state is State.CONNECTED)
            zk.ensure_path("/elsewhere")
        finally:
            first.process.send_signal(signal.SIGCONT)
    ensemble.wait()
    until(lambda: four_letter_word(first.client_port, "isro") == "rw")


@pytest.mark.long
def test_the_command_line_reads_with_read_only_and_not_without(ensemble: ZooKeeperEnsemble) -> None:
    def zab(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "zab", "-s", ensemble.members[0].host, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    with left_alone(ensemble):
        assert zab("--read-only", "get", "/a") == (0, "kept\n")
        code, said = zab("--read-only", "set", "/a", "new")
        assert code != 0
        assert "NOTREADONLY /a" in said
        code, said = zab("--wait", "2", "get", "/a")
        assert code != 0
        [_, reason] = said.splitlines()
        assert reason.startswith(f"{ensemble.members[0].host}: no service but to readers")
        assert reason.endswith("; it is in read-only mode, and zab --read-only reads from it")


@pytest.mark.long
def test_who_does_not_ask_for_it_and_who_has_seen_more_is_hung_up_on(ensemble: ZooKeeperEnsemble) -> None:
    with left_alone(ensemble) as port:
        for request in (
            connect_request(read_only=False),
            connect_request(read_only=None),
            connect_request(read_only=True, last_zxid=1 << 60),
        ):
            with Wire(port, greet=False) as wire, pytest.raises(ConnectionClosedError):
                wire.greet(request)
        words = [four_letter_word(port, word) for word in ("srvr", "stat")]
        assert words[0].split("\n")[1] == words[1].split("\n")[1] == "READ-ONLY mode; serving only read-only clients"
        assert "\nMode: read-only\n" in words[0]
        assert "zk_server_state\tread-only\n" in four_letter_word(port, "mntr")
