"""Real server processes for tests: one or several members, each `python -m zab.server` on free ports."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.rigs.zookeeper_server import four_letter_word
from zab.testing.kit.ports import free_ports

START_SECONDS = 120
STOP_SECONDS = 60


class ServerProcess:
    """One member: its file, ports and process."""

    module = "zab.server"
    """What runs; another one has a fault."""

    def __init__(self, server_id, directory, client_port, lines):
        self.server_id = server_id
        self.directory = Path(directory)
        self.client_port = client_port
        self.config = self.directory / "zoo.cfg"
        self.journal = self.directory / "server.log"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text("\n".join(lines) + "\n")
        (self.directory / "myid").write_text(f"{server_id}\n")
        self.process = None

    def start(self, *options, **popen):
        with self.journal.open("ab") as journal:
            self.process = subprocess.Popen(
                [sys.executable, *options, "-m", self.module, "--stop-with-parent", str(self.config)],
                stdin=subprocess.PIPE,
                stdout=journal,
                stderr=journal,
                env={**os.environ, "PYTHONDEVMODE": ""},
                **popen,
            )
        return self

    def wait(self, seconds=STOP_SECONDS):
        code = self.process.wait(seconds)
        self.process.stdin.close()
        return code

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.wait()

    @property
    def mode(self):
        for line in four_letter_word(self.client_port, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def log(self):
        return self.journal.read_text()

    def wait_until_it_says(self, text, times=1):
        self.wait_until(lambda: self.log().count(text) >= times)

    def wait_until(self, is_so):
        deadline = time.monotonic() + START_SECONDS
        while not is_so():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)


class Ensemble:
    def __init__(self, members):
        self.members = members

    @property
    def hosts(self):
        return ",".join(f"127.0.0.1:{member.client_port}" for member in self.members)

    def with_mode(self, mode):
        return [member for member in self.members if member.process.poll() is None and member.mode == mode]

    def wait_until_serving(self, members=None):
        deadline = time.monotonic() + START_SECONDS
        waiting = list(members or self.members)
        while waiting:
            assert time.monotonic() < deadline, "\n".join(member.log() for member in waiting)
            ended = [member for member in waiting if member.process.poll() is not None]
            assert not ended, ended[0].log()
            waiting = [member for member in waiting if member.mode is None]
            time.sleep(0.02)


@contextlib.contextmanager
def servers(directory, count=1, *extra):
    """`count` running members (1: standalone) that serve; whatever is left of them is killed at the end."""
    with unstarted(directory, count, *extra) as ensemble:
        for member in ensemble.members:
            member.start()
        ensemble.wait_until_serving()
        yield ensemble


@contextlib.contextmanager
def unstarted(directory, count, *extra):
    """`count` members with their files, to be started by the test; whatever is left of them is killed at the end."""
    ports = free_ports(3 * count)
    addresses = [
        f"server.{number + 1}=127.0.0.1:{ports[3 * number + 1]}:{ports[3 * number + 2]}" for number in range(count)
    ]
    members = []
    for number in range(count):
        home = Path(directory) / str(number + 1)
        lines = [
            f"dataDir={home}",
            f"clientPort={ports[3 * number]}",
            "clientPortAddress=127.0.0.1",
            "tickTime=200",
            # Ten seconds: what the machine lets wait is not lost.
            "initLimit=50",
            "syncLimit=50",
            "minSessionTimeout=400",
            "maxSessionTimeout=40000",
            "maxClientCnxns=0",
            "preAllocSize=1024",
            "4lw.commands.whitelist=*",
            *extra,
            *(addresses if count > 1 else []),
        ]
        members.append(ServerProcess(number + 1, home, ports[3 * number], lines))
    with ended(members):
        yield Ensemble(members)


@contextlib.contextmanager
def ended(members):
    """Whatever is left of these is killed at the end."""
    try:
        yield
    finally:
        for member in members:
            if member.process is not None:
                if member.process.poll() is None:
                    member.process.kill()
                member.process.wait()
                with contextlib.suppress(OSError):
                    member.process.stdin.close()


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
