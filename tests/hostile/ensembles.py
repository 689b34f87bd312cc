"""The ensembles that are attacked, three members each, and what nobody may bring about in them.

    by_command      `zab ensemble`, as the README starts it: it makes the secret
    by_hand         a zoo.cfg written by hand, with a secret

`Target.attacked()` is around an attack. Before it notes who leads in which epoch, and what each process has.
Afterwards:

    no process ended, nobody's role or epoch changed, no journal has a traceback
    no innocent client lost its connection or its session (`innocent`); the longest wait of one is reported
    no turn took more of the processor than `TURN_US_MAX`, as far as the machine was quiet meanwhile
    descriptors and threads come back to what there was; memory never rose by more than the attack is allowed
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.hostile.raw import HOST, SECURED, shown, word
from tests.rigs.certificates import Certificates, client_store_lines, quorum_store_lines
from tests.rigs.quiet_core import slowness_of_machine
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import servers, unstarted
from zab.cli.servers.local_ensemble import OFFSETS
from zab.host.files.secret_file import make_secret_file
from zab.testing.kit.ports import free_ports_in_a_row

TURN_US_MAX = 50_000
"""What a turn takes at most of a quiet core. A slice is 20 ms at most, and a turn may have a little of several. Work
without bound takes hundreds."""
MEMORY_MB_MAX = 96
"""So much more than before an attack a member may have while it lasts, unless the attack says otherwise."""
DESCRIPTORS_MORE_MAX = 2
"""A log file that was rolled meanwhile, and the one that is made ready for after it."""
THREADS_MORE_MAX = 6
"""Worker threads that wait for more work: trio keeps them for a while."""


@attrs.define
class Attacked:
    """One member."""

    server_id: int
    pid: int
    client_port: int
    quorum_port: int
    election_port: int
    journal: Path
    secret: Path

    def numbers(self) -> dict[str, str]:
        """What `mntr` says."""
        return dict(line.split("\t", 1) for line in word(self.client_port, "mntr").splitlines() if "\t" in line)

    @property
    def role(self) -> tuple[str, int]:
        """Its role, and the epoch."""
        said = word(self.client_port, "srvr")
        mode, zxid = re.search(r"Mode: (\w+)", said), re.search(r"Zxid: (\w+)", said)
        assert mode, said
        assert zxid, said
        return mode[1], int(zxid[1], 16) >> 32

    @property
    def is_serving(self) -> bool:
        try:
            return "Mode: " in word(self.client_port, "srvr")
        except OSError:
            return False

    @property
    def descriptors(self) -> list[str]:
        """What is open: sockets by the number that the system gives them."""
        found = []
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(path))
        return found

    def status(self, name: str) -> int:
        """A number of /proc/PID/status."""
        found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.M)
        assert found, name
        return int(found[1])

    def forget_peak(self) -> None:
        """From here on VmHWM is the peak."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@attrs.define
class Target:
    """An ensemble that can be attacked."""

    members: list[Attacked]
    innocents: subprocess.Popen[str]
    longest: list[tuple[float, float]] = attrs.field(factory=list)
    """For each attack that was withstood: the longest wait of an innocent client, and the longest turn;
    milliseconds."""
    is_broken: bool = False

    @property
    def leader(self) -> Attacked:
        [leader] = [member for member in self.members if member.role[0] == "leader"]
        return leader

    @property
    def follower(self) -> Attacked:
        return next(member for member in self.members if member.role[0] == "follower")

    def ask_innocents(self) -> dict[str, int]:
        assert self.innocents.stdin
        assert self.innocents.stdout
        self.innocents.stdin.write("\n")
        self.innocents.stdin.flush()
        report: dict[str, int] = json.loads(self.innocents.stdout.readline())
        return report

    @contextlib.contextmanager
    def attacked(self, memory_mb: int = MEMORY_MB_MAX) -> Iterator[None]:
        """An attack happens inside; its sockets are closed when this is left."""
        until(lambda: self.ask_innocents()["answered"] > 0, "that innocent clients are served")
        roles = [member.role for member in self.members]
        before = [(len(member.descriptors), member.status("Threads")) for member in self.members]
        journals = [member.journal.stat().st_size for member in self.members]
        for member in self.members:
            word(member.client_port, "srst")
            member.forget_peak()
        memory = [member.status("VmRSS") for member in self.members]
        self.ask_innocents()
        self.is_broken = True
        with slowness_of_machine() as machine:
            yield
            # Who was made to wait is answered in the end.
            until(lambda: self.ask_innocents_and_add() > 0, "that innocent clients are served")
        found = self._sum
        self._sum = {}
        assert [member.role for member in self.members] == roles
        for member, size in zip(self.members, journals, strict=True):
            said = member.journal.read_text()[size:]
            assert "Traceback" not in said, said
        assert found["broken"] == 0, "no innocent client loses its connection"
        assert found["expired"] == 0, "no innocent session expires"
        turns_us = [int(member.numbers()["zk_max_turn_us"]) for member in self.members]
        self.longest.append((found["longest_us"] / 1000, max(turns_us) / 1000))
        assert max(turns_us) <= machine.allowed_us(TURN_US_MAX), turns_us
        for member, (descriptors, threads), rss in zip(self.members, before, memory, strict=True):
            more_mb = (member.status("VmHWM") - rss) // 1024
            assert more_mb <= memory_mb, f"member {member.server_id} took {more_mb} MB more"
            most = descriptors + DESCRIPTORS_MORE_MAX
            until(
                lambda m=member, most=most: len(m.descriptors) <= most,
                lambda m=member, most=most: f"{most} descriptors at most: {m.descriptors}",
            )
            assert member.status("Threads") <= threads + THREADS_MORE_MAX
        self.is_broken = False

    _sum: dict[str, int] = attrs.field(factory=dict)

    def ask_innocents_and_add(self) -> int:
        """How many were answered since the last time. The sum is kept for the end of the attack."""
        report = self.ask_innocents()
        for name, value in report.items():
            so_far = self._sum.get(name, 0)
            self._sum[name] = max(so_far, value) if name == "longest_us" else so_far + value
        return report["answered"]

    def wait_for_innocents(self, count: int) -> None:
        """Until so many requests of each were answered since the attack began."""

        def are_answered() -> bool:
            self.ask_innocents_and_add()
            return self._sum["answered"] >= count

        until(are_answered, "that innocent clients are served")


@contextlib.contextmanager
def innocents(timeout_ms: int, ports: list[int], holder: str = "-") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.hostile.innocent", holder, str(timeout_ms), *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def by_hand(directory: Path) -> Iterator[Target]:
    """Ticks of 200 ms, sessions of 2 s; the secret is required."""
    secret = directory / "secret"
    make_secret_file(str(secret))
    with servers(directory, 3, f"quorum.secretFile={secret}", "snapCount=20000") as ensemble:
        members = []
        for member in ensemble.members:
            assert member.process is not None
            members.append(attacked_member(member.server_id, member.pid, member.directory, secret))
        with innocents(10_000, [member.client_port for member in members]) as process:
            yield Target(members, process)


@contextlib.contextmanager
def by_command(directory: Path) -> Iterator[Target]:
    """Ticks of 2 s, sessions of 4 s, which is the least there."""
    port = free_ports_in_a_row(3, OFFSETS)
    command = [sys.executable, "-m", "zab.cli.main", "ensemble", "--data", str(directory), "--client-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            line = parent.stdout.readline()
            assert "serving at" in line, line
            pids = _children(parent.pid)
            members = [
                attacked_member(number, pids[number], directory / str(number), directory / "secret")
                for number in (1, 2, 3)
            ]
            with innocents(20_000, [member.client_port for member in members]) as process:
                yield Target(members, process)
        finally:
            parent.send_signal(signal.SIGTERM)
            parent.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def secure(directory: Path) -> Iterator[Target]:
    """As by hand; and clients and members speak TLS alone, and show certificates. The attacker has one of each."""
    secret = directory / "secret"
    make_secret_file(str(secret))
    certificates = Certificates(directory / "certificates")
    own, client = certificates.member(HOST), certificates.client("mallory")
    lines = [
        f"quorum.secretFile={secret}",
        "snapCount=20000",
        "ssl.clientAuth=need",
        "sslQuorum=true",
        *(f"{key}={value}" for key, value in {**client_store_lines(own), **quorum_store_lines(own)}.items()),
    ]
    with unstarted(directory, 3, *lines) as ensemble, contextlib.ExitStack() as stack:
        members = []
        for member in ensemble.members:
            member.config.write_text(re.sub(r"^clientPort", "secureClientPort", member.config.read_text(), flags=re.M))
            member.start()
            assert member.process is not None
            members.append(attacked_member(member.server_id, member.pid, member.directory, secret))
        for attacked in members:
            SECURED[attacked.client_port] = shown(client)
            SECURED[attacked.quorum_port] = SECURED[attacked.election_port] = shown(own, "quorum.truststore.pem")
            for port in (attacked.client_port, attacked.quorum_port, attacked.election_port):
                stack.callback(SECURED.pop, port)
        for attacked in members:
            until(lambda it=attacked: it.is_serving, "that members serve")
        with innocents(10_000, [attacked.client_port for attacked in members], str(client)) as process:
            yield Target(members, process)


QUICKEST, SECURE = "by_hand", "secure"
KINDS = {"by_command": by_command, QUICKEST: by_hand, SECURE: secure}


def attacked_member(server_id: int, pid: int, directory: Path, secret: Path) -> Attacked:
    """The one with this directory."""
    config = (directory / "zoo.cfg").read_text()
    own = re.search(rf"^server\.{server_id}=[^:]+:(\d+):(\d+)(?:;[^:]+:(\d+))?", config, re.M)
    assert own
    client = own[3] or re.findall(r"^(?:secureC|c)lientPort=(\d+)", config, re.M)[0]
    journal = directory / "server.log"
    return Attacked(server_id, pid, int(client), int(own[1]), int(own[2]), journal, secret)


def _children(parent: int) -> dict[int, int]:
    """Server id to process: the members that a process has started."""
    found = {}
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int(re.search(r"^PPid:\s+(\d+)", (path / "status").read_text(), re.M)[1]) == parent:  # type: ignore[index]
                config = (path / "cmdline").read_bytes().split(b"\0")[-2].decode()
                found[int(Path(config).parent.name)] = int(path.name)
    return found
