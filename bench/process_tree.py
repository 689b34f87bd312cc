"""CPU time and memory of this process and everything that it started, or of one process, from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int | None = None) -> list[int]:
    """This process (or another) and all below it."""
    found = [os.getpid() if pid is None else pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += _children(task)
    return found


def _children(path: Path) -> list[int]:
    try:
        return [int(child) for child in path.read_text().split()]
    except OSError:
        return []


def cpu_seconds() -> float:
    """User and system time of all of them, with that of children that have ended and were waited for."""
    return sum(map(_ticks, descendants())) / _TICKS


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def user_and_system_seconds(pid: int) -> tuple[float, float]:
    """Of one process, with all its threads: its time in its own code, and in the kernel's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICKS, int(fields[12]) / _TICKS


def running_ns(pid: int) -> dict[int, int]:
    """How long each thread that one process has now was on a processor: to the nanosecond, where ticks are coarse."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return found


def ran_seconds(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    """How long the threads ran that are there at the end: those that have ended take their time with them."""
    return sum(now - before.get(thread, 0) for thread, now in after.items()) / 1e9


def resident_mib(pid: int) -> float:
    """The memory of one process that is resident now, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def peak_mib(name: str) -> float:
    """The most resident memory that any of them had whose command line has `name` in it, in MiB."""
    return max((_peak(pid) for pid in descendants() if name in _command(pid)), default=0.0)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _peak(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
