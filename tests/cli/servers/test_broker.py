"""`zab broker run` and `zab ensemble --brokers` as a user runs them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, run, started
from tests.cli.servers.journal_lines import client_port
from tests.rigs.processes import is_open
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.servers.local_broker import LocalBroker
from zab.cli.servers.local_ensemble import EnsembleError, LocalEnsemble
from zab.partition.settings.broker_config import read_config
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.process, pytest.mark.slow]
__all__ = ["run"]

NO_FILE = "No such file or directory"
FEW = "listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={directory}/logs\nzookeeper.connect=127.0.0.1:1\n"


def pids_of(module: bytes, directory: Path) -> list[int]:
    """The processes of this module whose settings are below a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if module in words and any(word.startswith(bytes(directory)) for word in words):
                found.append(int(entry.parent.name))
    return found


@contextlib.contextmanager
def ensemble(directory: Path, port: int, broker_port: int) -> Iterator[subprocess.Popen[str]]:
    """One member and one broker, which has been said to serve."""
    words = ("ensemble", "--size", "1", "--data", str(directory), "--client-port", str(port))
    with started(*words, "--brokers", "1", "--broker-port", str(broker_port)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"serving at 127.0.0.1:{port} ")
        assert process.stdout.readline() == f"brokers at 127.0.0.1:{broker_port}\n"
        yield process


def test_a_broker_beside_an_ensemble_serves_when_it_is_said_and_ends_before_the_members(tmp_path: Path) -> None:
    port, [broker_port] = client_port(1), free_ports(1)
    with ensemble(tmp_path, port, broker_port) as process:
        assert LocalBroker(1, tmp_path / "broker-1", broker_port).is_serving()
        assert len(pids_of(b"zab.broker", tmp_path)) == 1
        assert (tmp_path / "broker-1" / "logs" / "meta.properties").exists()
        assert "listens" in (tmp_path / "broker-1" / "broker.log").read_text()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")
    assert not pids_of(b"zab.broker", tmp_path)
    assert not is_open(broker_port)
    # Its last sign is written while the members can still be told that it goes.
    assert (tmp_path / "broker-1" / "logs" / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_a_broker_that_dies_is_reported_and_the_members_go_on_and_it_comes_back_with_the_next_start(
    tmp_path: Path,
) -> None:
    port, [broker_port] = client_port(1), free_ports(1)
    with ensemble(tmp_path, port, broker_port) as process:
        [pid] = pids_of(b"zab.broker", tmp_path)
        os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("broker 1 ended with exit code -9, see ")
        assert is_open(port)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
    with ensemble(tmp_path, port, broker_port) as process:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
    # Without their parent they end, too, and the port is free again.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while pids_of(b"zab.broker", tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_port_of_a_broker_that_is_in_use_is_said(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(EnsembleError) as failed:
        LocalEnsemble(1, tmp_path, client_port(1), 1, port)
    assert failed.value.exit_code == 14
    told = f"port {port} is in use: stop what listens there, or have others: zab ensemble --broker-port P"
    assert str(failed.value) == told
    port = client_port(1)
    with pytest.raises(EnsembleError, match=f"ports of brokers from {port} on are those of members"):
        LocalEnsemble(1, tmp_path, port, 1, port)


def test_the_file_of_a_broker_survives_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "dätä \\ with=signs #1 中 🐘"
    broker = LocalBroker(1, directory, 9092)
    broker.write_file("127.0.0.1:2181,127.0.0.1:2182")
    config = read_config(broker.config_path.read_text())
    assert config.broker.log_directory == str(directory / "logs")
    assert config.broker.broker_id == 1
    assert config.broker.servers == "127.0.0.1:2181,127.0.0.1:2182"
    assert config.groups.offsets_replication_factor == 1
    assert not config.warnings


def test_too_many_brokers_are_refused(run: Run) -> None:
    assert run("ensemble", "--brokers", "10") == 2
    assert "less than or equal to 9" in run.err


def test_a_check_says_what_a_start_would_say(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{FEW.format(port=9092, directory=tmp_path)}num.io.threads=8\n")
    assert run("broker", "run", "--check", file) == 0
    assert f"warning: {file}: line 4: num.io.threads: one loop serves all connections\n" in run.out
    good, rest = run.out.splitlines()[-2:]
    assert good == f"{file}: its settings are good: PLAINTEXT://127.0.0.1:9092"
    assert rest.startswith("not checked: the ports, the directory, the members ")
    assert not (tmp_path / "logs").exists()
    for line, why in {
        "ssl.provider=X": "it is not supported here",
        "authorizer.class.name=X": "only kafka.security.authorizer.AclAuthorizer is supported",
        "num.partitions=0": "0 is not between 1 and 10000",
    }.items():
        file.write_text(f"{line}\n")
        assert run("broker", "run", "--check", file) == 2
        assert run.out.startswith(f"error: {file}: line 1: {line.partition('=')[0]}: {why}"), run.out
        assert run("broker", "run", file) == 2
        assert run.err.startswith(f"{file}: line 1: "), run.err
    file.write_text(f"listeners=SSL://127.0.0.1:9093\nssl.keystore.location={tmp_path}/key.pem\n")
    assert run("broker", "run", "--check", file) == 2
    assert run.out == f"error: {file}: ssl.keystore.location: {tmp_path}/key.pem: it cannot be read: {NO_FILE}\n"
    assert run("broker", "run", "--check", tmp_path / "none") == 2
    assert run.out == f"error: {tmp_path / 'none'} cannot be read: No such file or directory\n"


def test_a_start_without_a_port_or_a_directory_ends_with_the_codes_of_a_server(run: Run, tmp_path: Path) -> None:
    file, [port] = tmp_path / "server.properties", free_ports(1)
    file.write_text(FEW.format(port=port, directory=tmp_path))
    with socket.create_server(("127.0.0.1", port)), started("broker", "run", str(file)) as process:
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 14
    assert f"cannot listen on 127.0.0.1:{port}: " in err
    (tmp_path / "file").write_text("")
    file.write_text(FEW.format(port=port, directory=tmp_path / "file"))
    with started("broker", "run", str(file)) as process:
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert "cannot be used: Not a directory" in err
