"""Whole servers as real processes, with kazoo as the client."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from kazoo.exceptions import KazooException

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.processes import is_open
from tests.rigs.zab_server import member_of_lines, servers, unstarted
from tests.server.snapshot_fetching import SMALL_LOGS, check_that_a_snapshot_is_fetched, create
from zab.host.process.descriptors import LIMIT_MIN
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.slow


def write_until_acknowledged(client, path, data, patience_seconds=60):
    """The seconds until a write succeeds."""
    started = time.monotonic()
    while True:
        try:
            client.set(path, data)
            return time.monotonic() - started
        except (KazooException, OSError):
            assert time.monotonic() - started < patience_seconds
            time.sleep(0.01)


def create_until_lost(client, count_max):
    """How many large znodes were acknowledged before the connection was lost."""
    for number in range(count_max):
        try:
            client.create(f"/n{number:03d}", bytes(50_000))
        except (KazooException, OSError):
            return number
    return count_max


# ----------------------------------------------------------------------------------------------------------- one server


def test_one_server_serves_and_keeps_what_it_acknowledged(tmp_path):
    with servers(tmp_path) as ensemble:
        [server] = ensemble.members
        with kazoo_client(ensemble.hosts) as client:
            client.create("/kept", b"before")
            client.set("/kept", b"after")
        assert server.mode() == "standalone"
        server.kill()
        server.start()
        ensemble.wait()
        with kazoo_client(ensemble.hosts) as client:
            assert client.get("/kept")[0] == b"after"
        assert server.stop() == 0
        assert not is_open(server.client_port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_a_server_with_exit_code_0(tmp_path, number):
    """Also where SIGINT was ignored at the start, as a shell does for jobs in the background."""
    with servers(tmp_path) as ensemble:
        [server] = ensemble.members
        server.stop()
        ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            server.start()
        finally:
            signal.signal(signal.SIGINT, ignored)
        ensemble.wait()
        server.process.send_signal(number)
        assert server.wait() == 0


def test_server_stops_with_its_parent(tmp_path):
    with unstarted(tmp_path, 1) as ensemble:
        [server] = ensemble.members
        server.command.insert(-1, "--stop-with-parent")
        server.start(stdin=subprocess.PIPE)
        ensemble.wait()
        server.process.stdin.close()
        assert server.wait() == 0


def test_sessionless_connection_is_closed(tmp_path):
    with servers(tmp_path, 1, "nio.sessionlessCnxnTimeout=400") as ensemble:
        started = time.monotonic()
        with socket.create_connection(("127.0.0.1", ensemble.members[0].client_port)) as connection:
            connection.settimeout(30)
            assert connection.recv(1) == b""
        # Without the setting it is ten seconds.
        assert 0.35 <= time.monotonic() - started < 10


def test_connections_beyond_the_limit_of_an_address_are_closed_at_once(tmp_path):
    with servers(tmp_path, 1, "maxClientCnxns=3") as ensemble, contextlib.ExitStack() as stack:
        port = ensemble.members[0].client_port
        time.sleep(0.1)
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(4)]
        connections[3].settimeout(60)
        assert connections[3].recv(1) == b""
        connections[0].settimeout(0.1)
        with pytest.raises(TimeoutError):
            connections[0].recv(1)


def test_second_server_on_a_directory_is_refused_with_3(tmp_path):
    with servers(tmp_path) as ensemble:
        [server] = ensemble.members
        second = member_of_lines(1, server.directory, server.client_port, server.config.read_text().splitlines())
        assert second.start().wait() == 3
        assert "another process uses this data directory" in server.log_text()


def test_wrong_usage_and_configuration_are_2(tmp_path):
    (tmp_path / "zoo.cfg").write_text("tickTime=never\n")
    for arguments in ([], [str(tmp_path / "zoo.cfg")], [str(tmp_path / "absent.cfg")], ["a", "b"]):
        done = subprocess.run([sys.executable, "-m", "zab.server", *arguments], capture_output=True, check=False)
        assert done.returncode == 2, arguments
        assert done.stderr


def test_server_refuses_to_run_without_assertions(tmp_path):
    done = subprocess.run(
        [sys.executable, "-O", "-m", "zab.server", str(tmp_path / "zoo.cfg")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "without -O" in done.stderr


def test_a_port_in_use_is_14(tmp_path):
    ports = free_ports(4)
    with socket.create_server(("127.0.0.1", ports[0])), socket.create_server(("127.0.0.1", ports[1])):
        lines = [
            f"dataDir={tmp_path}",
            "clientPortAddress=127.0.0.1",
            "initLimit=5",
            "syncLimit=5",
            "electionPortBindRetry=1",
        ]
        alone = member_of_lines(1, tmp_path, ports[0], [*lines, f"clientPort={ports[0]}"])
        assert alone.start().wait() == 14
        members = [f"server.1=127.0.0.1:{ports[2]}:{ports[1]}", f"server.2=127.0.0.1:{ports[3]}:{ports[3] + 1}"]
        member = member_of_lines(1, tmp_path, ports[2], [*lines, "clientPort=1", *members])
        assert member.start().wait() == 14
        assert "cannot listen" in member.log_text()


def test_connections_up_to_the_last_descriptor_cost_a_leader_nothing(tmp_path):
    """Its links, its log and its snapshots have descriptors that clients do not get."""

    def with_few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT_MIN, LIMIT_MIN))

    with unstarted(tmp_path, 3, "snapCount=20") as ensemble, contextlib.ExitStack() as stack:
        for member in ensemble.members:
            member.start(preexec_fn=with_few_descriptors)
        ensemble.wait()
        [leader] = ensemble.with_mode("leader")
        others = [member for member in ensemble.members if member is not leader]
        for _ in range(LIMIT_MIN + 100):
            stack.enter_context(socket.create_connection(("127.0.0.1", leader.client_port), 60))
        with kazoo_client(f"127.0.0.1:{others[0].client_port}") as client:
            create(client, range(100))
            leader.wait_until_it_says("snapshot is written")
            assert len(os.listdir(f"/proc/{leader.pid}/fd")) < LIMIT_MIN
        others[1].kill()
        shutil.rmtree(others[1].directory / "version-1")
        others[1].start(preexec_fn=with_few_descriptors)
        ensemble.wait(members=others)
        stack.close()
        ensemble.wait()
        assert leader.mode() == "leader"
        assert "-> elect" not in leader.log_text().rpartition("won by")[2]


def test_a_server_with_too_few_descriptors_does_not_start(tmp_path):
    def with_too_few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT_MIN - 1, LIMIT_MIN - 1))

    with unstarted(tmp_path, 1) as ensemble:
        [server] = ensemble.members
        assert server.start(preexec_fn=with_too_few).wait() == 2
        assert f"a process may have {LIMIT_MIN - 1} file descriptors" in server.log_text()


def test_log_that_cannot_be_written_ends_the_process_with_1(tmp_path):
    """C1: a failed write is final; nothing is acknowledged after it."""
    with servers(tmp_path, 1, "preAllocSize=1024") as ensemble:
        [server] = ensemble.members
        server.stop()

        def limit_file_size():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

        server.start(preexec_fn=limit_file_size)
        ensemble.wait()
        with kazoo_client(ensemble.hosts) as client:
            acknowledged = create_until_lost(client, 100)
            assert acknowledged < 100
            assert server.wait() == 1
            assert "the disk has failed -> stop: [Errno 27] File too large" in server.log_text()
        server.start()
        ensemble.wait()
        with kazoo_client(ensemble.hosts) as client:
            assert len([name for name in client.get_children("/") if name.startswith("n")]) >= acknowledged > 0


# -------------------------------------------------------------------------------------------------------- three servers


def test_three_servers_elect_a_leader_serve_and_survive_its_death(tmp_path):
    with servers(tmp_path, 3) as ensemble:
        [leader] = ensemble.with_mode("leader")
        followers = ensemble.with_mode("follower")
        assert len(followers) == 2
        with kazoo_client(ensemble.hosts) as client:
            client.create("/a", b"0")
            for number in range(50):
                client.set("/a", b"%d" % number)
            client.create("/lock-", b"", ephemeral=True, sequence=True)
            leader.kill()
            outage_seconds = write_until_acknowledged(client, "/a", b"after")
            assert outage_seconds < 10
            assert any(name.startswith("lock-") for name in client.get_children("/")), "the session survived"
            leader.start()
            ensemble.wait()
            with kazoo_client(f"127.0.0.1:{leader.client_port}") as returned:
                returned.sync("/")
                assert returned.get("/a")[0] == b"after"
        assert [member.stop() for member in ensemble.members] == [0, 0, 0]


def test_all_servers_killed_at_once_lose_nothing(tmp_path):
    with servers(tmp_path, 3) as ensemble:
        with kazoo_client(ensemble.hosts) as client:
            client.create("/a", b"0")
            for number in range(100):
                client.set("/a", b"%d" % number)
        for member in ensemble.members:
            member.process.kill()
        for member in ensemble.members:
            member.wait()
            member.start()
        ensemble.wait()
        with kazoo_client(ensemble.hosts) as client:
            data, stat = client.get("/a")
            assert (data, stat.version) == (b"99", 100)


def test_without_a_quorum_nobody_is_served_and_with_one_again_everybody_is(tmp_path):
    with servers(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        second.kill()
        third.kill()
        deadline = time.monotonic() + 60
        while first.mode():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        second.start()
        ensemble.wait(members=[first, second])
        with kazoo_client(f"127.0.0.1:{first.client_port}") as client:
            client.create("/back", b"")


def test_member_that_lost_its_data_is_given_a_snapshot_over_a_connection_of_its_own(tmp_path):
    with servers(tmp_path, 3, *SMALL_LOGS) as ensemble:
        check_that_a_snapshot_is_fetched(ensemble)
