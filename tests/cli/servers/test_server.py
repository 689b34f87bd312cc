"""`zab server` and `zab ensemble` as a user runs them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.files.damaged_files import damaged
from tests.cli.servers.journal_lines import client_port
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.processes import is_open
from zab.cli.servers.local_ensemble import EnsembleError, LocalEnsemble
from zab.client.sync import connect
from zab.host.storage.disk import RealDisk
from zab.server.config_file import load

pytestmark = pytest.mark.slow

COMMANDS = (
    "import sys, typer\n"
    "from zab.cli.servers.server import ensemble_command, server_command\n"
    "app = typer.Typer(pretty_exceptions_enable=False)\n"
    "app.command('server')(server_command)\n"
    "app.command('ensemble')(ensemble_command)\n"
    "app()\n"
)


def command(*words: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *options, "-c", COMMANDS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def members_of(directory: Path) -> list[int]:
    """The process ids of the members whose data lie below a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"zab.server" in words and any(word.startswith(bytes(directory)) for word in words):
            found.append(int(entry.parent.name))
    return found


def wait_until_gone(directory: Path) -> None:
    deadline = time.monotonic() + 60
    while members_of(directory):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("size", "number"), [(3, signal.SIGINT), (1, signal.SIGTERM)])
@pytest.mark.long
def test_ensemble_says_when_it_serves_and_ends_with_a_signal(tmp_path: Path, size: int, number: int) -> None:
    port = client_port(size)
    words = ("ensemble", "--size", str(size), "--data", str(tmp_path / "data"), "--client-port", str(port))
    process = command(*words)
    hosts = ",".join(f"127.0.0.1:{port + each}" for each in range(size))
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"serving at {hosts} ")
    assert len(members_of(tmp_path)) == size
    with kazoo_client(hosts) as client:
        client.create("/kept", b"data")
        with connect(hosts) as zk:
            zk.create("/brief", ttl_ms=60_000)
    process.send_signal(number)
    assert end(process) == (0, "", "")
    assert members_of(tmp_path) == []
    assert not is_open(port)
    again = command(*words)
    assert again.stdout is not None
    assert again.stdout.readline().startswith("serving at")
    with kazoo_client(hosts) as client:
        assert client.get("/kept")[0] == b"data"
    again.send_signal(signal.SIGTERM)
    assert end(again)[0] == 0


@pytest.mark.long
def test_members_stop_when_the_ensemble_is_killed(tmp_path: Path) -> None:
    process = command("ensemble", "--size", "1", "--data", str(tmp_path), "--client-port", str(client_port(1)))
    assert process.stdout is not None
    process.stdout.readline()
    assert members_of(tmp_path)
    process.kill()
    end(process)
    wait_until_gone(tmp_path)


@pytest.mark.long
def test_member_that_dies_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    port = client_port(3)
    process = command("ensemble", "--data", str(tmp_path), "--client-port", str(port))
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(members_of(tmp_path / "2")[0], signal.SIGKILL)
    assert process.stdout.readline().startswith("member 2 ended with exit code -9, see ")
    with kazoo_client(f"127.0.0.1:{port},127.0.0.1:{port + 2}") as client:
        client.create("/after", b"")
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 0


@pytest.mark.long
def test_a_missing_data_directory_ends_the_start_as_the_page_says(tmp_path: Path) -> None:
    """docs/how-to/troubleshoot.md, "Exit codes"."""
    config = tmp_path / "zoo.cfg"
    config.write_text(f"dataDir={tmp_path}/data\nclientPort={client_port(1)}\ndatadir.autocreate=false\n")
    code, _, err = end(command("server", str(config)))
    assert (code, f"{tmp_path}/data does not exist" in err) == (3, True), err
    lines = [f"server.{n}=127.0.0.1:{2810 + n}:{2910 + n};{2180 + n}" for n in (1, 2, 3)]
    config.write_text("\n".join([f"dataDir={tmp_path}/data", "initLimit=10", "syncLimit=5", *lines]))
    code, _, err = end(command("server", str(config)))
    assert (code, f"{tmp_path}/data/myid: the file is missing" in err) == (2, True), err


@pytest.mark.long
def test_client_port_in_use_is_said(tmp_path: Path) -> None:
    port = client_port(3)
    with socket.create_server(("127.0.0.1", port + 1)):
        code, out, err = end(command("ensemble", "--data", str(tmp_path), "--client-port", str(port)))
    assert (code, out) == (14, "")
    assert f"port {port + 1} is in use: " in err
    assert "zab ensemble --client-port P" in err
    (tmp_path / "zoo.cfg").write_text(f"dataDir={tmp_path}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    with socket.create_server(("127.0.0.1", port)):
        code, out, err = end(command("server", str(tmp_path / "zoo.cfg")))
    assert (code, out) == (14, "")
    assert f"cannot listen on 127.0.0.1:{port}: " in err


@pytest.mark.long
def test_member_that_cannot_start_ends_the_ensemble_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "version-1").write_text("a file where the directory should be")
    code, out, err = end(command("ensemble", "--data", str(tmp_path), "--client-port", str(client_port(3))))
    assert (code, out) == (3, "")
    assert "member 1 ended with exit code 3" in err
    assert members_of(tmp_path) == []


def test_directory_that_cannot_be_made_is_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = end(
        command("ensemble", "--data", str(tmp_path / "file" / "data"), "--client-port", str(client_port(3)))
    )
    assert code == 3
    assert "cannot write below" in err


@pytest.mark.parametrize("words", [("--size", "0"), ("--size", "10"), ("--client-port", "0"), ("--nonsense",)])
def test_wrong_usage_is_2(words: tuple[str, ...]) -> None:
    assert end(command("ensemble", *words))[0] == 2


@pytest.mark.long
def test_ensemble_and_server_refuse_to_run_without_assertions(tmp_path: Path) -> None:
    for words in (("ensemble", "--data", str(tmp_path)), ("server", str(tmp_path / "zoo.cfg"))):
        code, _, err = end(command(*words, options=("-O",)))
        assert code == 2
        assert "without -O" in err


def test_server_runs_one_member_until_a_signal(tmp_path: Path) -> None:
    port = client_port(1)
    (tmp_path / "zoo.cfg").write_text(
        f"dataDir={tmp_path}\nclientPort={port}\nclientPortAddress=127.0.0.1\nunknownKey=1\npreAllocSize=1024\n"
    )
    process = command("server", str(tmp_path / "zoo.cfg"))
    deadline = time.monotonic() + 60
    while not is_open(port):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    code, _, err = end(process)
    assert code == 0
    assert "unknownKey" in err


def test_a_damaged_history_that_nobody_else_has_is_3_and_says_what_to_do(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    damaged(data)
    (data / "myid").write_text("3\n")
    (tmp_path / "zoo.cfg").write_text(f"dataDir={data}\nclientPort=1\n")
    code, _, err = end(command("server", str(tmp_path / "zoo.cfg")))
    assert code == 3
    assert "the history is damaged: version-1/log.200000001 at offset" in err
    assert f"zab restore {data} --to DIR" in err


def test_configuration_that_cannot_be_meant_is_2(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text("clientPort=2181\n")
    code, _, err = end(command("server", str(tmp_path / "zoo.cfg")))
    assert code == 2
    assert "dataDir" in err


@pytest.mark.process
def test_of_two_ensembles_that_start_in_one_directory_at_once_one_writes_its_files(tmp_path: Path) -> None:
    """Both have free ports, so nothing but the directory tells them of each other."""
    ports = client_port(1), client_port(1)
    words = ("ensemble", "--size", "1", "--data", str(tmp_path / "data"), "--client-port")
    both = [command(*words, str(port)) for port in ports]
    ends, served = [], []
    for process in both:
        assert process.stdout is not None
        if process.stdout.readline().startswith("serving at "):
            served.append(process)
        else:
            ends.append(end(process))
    assert len(served) == 1
    [(code, _, err)] = ends
    assert code == 3
    assert f"process {served[0].pid} runs an ensemble there: stop it, or have another directory and other ports" in err
    port = ports[both.index(served[0])]
    assert f";127.0.0.1:{port}\n" in (tmp_path / "data" / "1" / "zoo.cfg").read_text()
    served[0].send_signal(signal.SIGINT)
    assert end(served[0])[0] == 0
    again = command(*words, str(port))
    assert again.stdout is not None
    assert again.stdout.readline().startswith("serving at ")
    again.send_signal(signal.SIGINT)
    assert end(again)[0] == 0


def test_a_second_ensemble_leaves_the_files_of_a_running_one_alone(tmp_path: Path) -> None:
    first = LocalEnsemble(3, tmp_path, client_port(3))
    for member in first.members:
        first._write_files(member, "super:x")
    before = first.members[0].config_path.read_text()
    disk = RealDisk(str(first.members[2].directory))
    try:
        told = r"3: another process uses this data directory: .* --data DIRECTORY --client-port P"
        with pytest.raises(EnsembleError, match=told):
            LocalEnsemble(3, tmp_path, client_port(3)).start()
    finally:
        disk.close()
    assert first.members[0].config_path.read_text() == before


def test_files_of_a_member_survive_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "dätä \\ with=signs #1 中 🐘"
    ensemble = LocalEnsemble(3, directory, client_port(3))
    for member in ensemble.members:
        ensemble._write_files(member, "super:x")
    config = load(ensemble.members[1].config_path)
    assert config.storage.data_dir == str(directory / "2")
    assert config.server_id == 2
    assert config.tree.extended_types_enabled, "containers and TTLs"
    assert config.client_address == ("127.0.0.1", ensemble.members[1].client_port)
    assert not config.warnings
    assert len({port for m in ensemble.members for port in (m.client_port, m.quorum_port, m.election_port)}) == 9


@pytest.mark.long
def test_the_journal_is_written_as_the_options_say_and_else_as_the_keys_say(tmp_path: Path) -> None:
    port, by_key, by_option = client_port(1), tmp_path / "key.log", tmp_path / "option.log"
    (tmp_path / "zoo.cfg").write_text(
        f"dataDir={tmp_path}\nclientPort={port}\nclientPortAddress=127.0.0.1\nunknownKey=1\npreAllocSize=1024\n"
        f"log.file={by_key}\nlog.format=Json\nlog.level=WARNING\n"
    )

    def run(*options: str) -> str:
        with socket.create_server(("127.0.0.1", port)):
            code, out, err = end(command("server", *options, str(tmp_path / "zoo.cfg")))
        assert (code, out) == (14, "")
        return err

    assert run() == f"{_cannot_listen(port)}\n"
    lines = [json.loads(line) for line in by_key.read_text().splitlines()]
    assert [line["level"] for line in lines] == ["WARNING", "WARNING", "ERROR"]
    assert lines[-1]["sentence"] == _cannot_listen(port)
    assert lines[-1]["values"] == {"exit_code": 14}
    assert by_key.stat().st_mode & 0o777 == 0o600
    run("--log-file", str(by_option), "--log-format", "text", "--log-level", "info")
    assert " INFO  zab.server recovered " in by_option.read_text()
    in_capitals = tmp_path / "capitals.log"
    run("--log-file", str(in_capitals), "--log-format", "JSON", "--log-level", "WARNING")
    levels = [json.loads(line)["level"] for line in in_capitals.read_text().splitlines()]
    assert levels == ["WARNING", "WARNING", "ERROR"]
    assert len(by_key.read_text().splitlines()) == len(lines)
    directly = [sys.executable, "-m", "zab.server", "--log-level", "Error", "--log-format", "TEXT"]
    with socket.create_server(("127.0.0.1", port)):
        done = subprocess.run([*directly, tmp_path / "zoo.cfg"], check=False, capture_output=True, timeout=60)
    assert done.returncode == 14
    assert by_key.read_text().splitlines()[len(lines) :] == [by_key.read_text().splitlines()[-1]]
    assert end(command("server", "--log-format", "xml", str(tmp_path / "zoo.cfg")))[0] == 2
    code, _, err = end(command("server", "--log-file", str(tmp_path / "none" / "x"), str(tmp_path / "zoo.cfg")))
    assert code == 2
    assert err == f"log.file: {tmp_path / 'none' / 'x'} cannot be opened: No such file or directory\n"


def _cannot_listen(port: int) -> str:
    return f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize(
    ("library", "brokers", "bookies", "extra"), [("crc32c", 1, 0, "broker"), ("google", 0, 1, "ledgers")]
)
def test_what_brokers_and_bookies_need_is_asked_for_before_anything_is_written(
    tmp_path: Path, library: str, brokers: int, bookies: int, extra: str
) -> None:
    program = f"import sys; sys.modules[{library!r}] = None\n{COMMANDS}"
    counts = ("--brokers", str(brokers), "--bookies", str(bookies))
    words = ("ensemble", "--size", "1", "--data", str(tmp_path / "data"), "--client-port", str(client_port(1)))
    ports = ("--broker-port", str(client_port(1)), "--bookie-port", str(client_port(1)))
    done = subprocess.run(
        [sys.executable, "-c", program, *words, *counts, *ports],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("zab: ")
    assert done.stderr.endswith(f"pip install 'zab[{extra}]'\n")
    assert not (tmp_path / "data").exists()
