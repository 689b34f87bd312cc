"""A machine for each member, as far as the network goes: a namespace of its own, all of them on one bridge.

    python -m ... under `IN_A_NAMESPACE`       the network is made inside of a namespace, and ends with it
        with namespaces(3) as net:
            net.address(1)                     "10.77.0.1", as it is reached from here and from the others
            net.command(1, ["python", …])      the same, run on that machine
            net.cut(1, 2)                      the kernel drops every packet from 1 to 2; those from 2 to 1 arrive
            net.part(1, 2)                     both ways
        net.cut_outside(1)                 what 1 says to this process
            net.disturb(1, 200, 10)            what 1 says is 200 ms late, more or less, and one packet in ten is lost
            net.heal()

What is cut is cut as a network is: by a neighbour that does not exist. So dials wait, nothing is refused, and of what
goes one way TCP hears no acknowledgement on the other.

Needs `ip`, `unshare` and `nsenter`, and to be allowed to (`can_part`); and `tc`, and netem in the kernel, to disturb
(`can_disturb`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from tests.rigs.waiting import until

IN_A_NAMESPACE = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--net", "--")
_OUTSIDE = "10.77.0.254"
_NOBODY = "02:00:00:00:00:ff"


def can_part() -> bool:
    """Whether there are namespaces here, and bridges in them."""
    if not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        return False
    bridge = "ip link set lo up && ip link add probe type bridge && ip link add one type veth peer name other"
    return subprocess.run([*IN_A_NAMESPACE, "sh", "-c", bridge], capture_output=True, check=False).returncode == 0


def can_disturb() -> bool:
    """Whether the kernel delays and loses packets, too."""
    if not (can_part() and shutil.which("tc")):
        return False
    probe = ("tc", "qdisc", "add", "dev", "lo", "root", *_netem(1, 1))
    return subprocess.run([*IN_A_NAMESPACE, *probe], capture_output=True, check=False).returncode == 0


def _netem(delay_ms: float, lost_percent: float) -> tuple[str, ...]:
    """Delays differ by up to a quarter, so packets overtake each other."""
    return "netem", "delay", f"{delay_ms:.1f}ms", f"{delay_ms / 4:.1f}ms", "loss", f"{lost_percent:.1f}%"


class Namespaces:
    """Network namespaces with links between them."""

    def __init__(self, size: int, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._disturbed: set[int] = set()
        self._holders = {sid: self._held() for sid in range(1, size + 1)}
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "type", "bridge")
        _run("ip", "address", "add", f"{_OUTSIDE}/24", "dev", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        for sid, holder in self._holders.items():
            port = f"port{sid}"
            _run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
            _run("ip", "link", "set", port, "master", "bridge", "up")
            self._on(sid, "ip", "link", "set", "lo", "up")
            self._on(sid, "ip", "address", "add", f"{self.address(sid)}/24", "dev", "eth0")
            self._on(sid, "ip", "link", "set", "eth0", "up")

    def _held(self) -> subprocess.Popen[bytes]:
        """A process that is the namespace, until this one closes its input, or ends."""
        holder = subprocess.Popen(["unshare", "--net", "--", "cat"], stdin=subprocess.PIPE)
        self._stack.callback(holder.wait)
        assert holder.stdin is not None
        self._stack.callback(holder.stdin.close)
        own = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, "a namespace")
        return holder

    def address(self, sid: int) -> str:
        return f"10.77.0.{sid}"

    def command(self, sid: int, command: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[sid].pid}/ns/net", "--", *command]

    def _on(self, sid: int, *command: str) -> None:
        _run(*self.command(sid, command))

    def cut(self, source: int, sink: int) -> None:
        self._cut(source, self.address(sink))

    def _cut(self, source: int, address: str) -> None:
        nobody = ("lladdr", _NOBODY, "nud", "permanent", "dev", "eth0")
        self._on(source, "ip", "neighbour", "replace", address, *nobody)

    def cut_outside(self, source: int) -> None:
        """What this machine says to those that are not among them, such as this process, is dropped."""
        self._cut(source, _OUTSIDE)

    def part(self, one: int, other: int) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def disturb(self, sid: int, delay_ms: float, lost_percent: float) -> None:
        self._on(sid, "tc", "qdisc", "replace", "dev", "eth0", "root", *_netem(delay_ms, lost_percent))
        self._disturbed.add(sid)

    def heal(self) -> None:
        while self._disturbed:
            self._on(self._disturbed.pop(), "tc", "qdisc", "del", "dev", "eth0", "root")
        for sid in self._holders:
            self._on(sid, "ip", "neighbour", "flush", "dev", "eth0", "nud", "permanent")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@contextlib.contextmanager
def namespaces(size: int) -> Iterator[Namespaces]:
    """So many machines, with nothing on them."""
    with contextlib.ExitStack() as stack:
        yield Namespaces(size, stack)
