"""Free loopback ports for servers that tests start.

They are drawn below the range that the kernel hands to outgoing connections, so that no client socket of a test that
runs at the same time can take one between the probe and the server's bind.

A process claims what it draws, by a lock on that byte of a file which all processes of this user on this machine share:
workers of one run, and runs beside each other, never draw the same port. The claim lasts while the process does, up to
`CLAIMED_MAX` ports: a member that is down finds its port free when it comes back.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import random
import socket
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

HOST: Final = "127.0.0.1"
PORTS: Final = range(11_000, 32_000)
CLAIMED_MAX: Final = 1_500
"""How many ports a process keeps claimed; beyond that it gives back the oldest."""


class Claims:
    """The ports of this process, among `ports`."""

    def __init__(self, ports: range = PORTS) -> None:
        self._ports = ports
        start = random.SystemRandom().randrange(len(ports))
        self._next: Iterator[int] = itertools.cycle([*ports[start:], *ports[:start]])
        self._claimed: deque[int] = deque()
        self._descriptor: int | None = None

    def draw(self, count: int, offsets: Sequence[int] = (0,)) -> int:
        """The first of `count` consecutive ports that nobody listens on and no other process has claimed. So are those
        at these offsets from them. Raises OSError if there are none."""
        for _ in range(2 * len(self._ports)):
            first = next(self._next)
            wanted = [first + offset + number for offset in offsets for number in range(count)]
            if self._claim(wanted):
                return first
        raise OSError(f"all of {count} ports in a row, at offsets {offsets}, are in use")

    def _claim(self, wanted: Sequence[int]) -> bool:
        with contextlib.ExitStack() as claiming:
            for port in wanted:
                if port not in self._ports or not self._lock(port):
                    return False
                claiming.callback(self._unlock, port)
            if not all(is_free(port) for port in wanted):
                return False
            claiming.pop_all()
        self._claimed += wanted
        while len(self._claimed) > CLAIMED_MAX:
            self._unlock(self._claimed.popleft())
        return True

    def _lock(self, port: int) -> bool:
        if self._descriptor is None:
            path = os.path.join(tempfile.gettempdir(), f"zab-ports-of-tests-{os.getuid()}")
            # Never closed: closing any descriptor of the file would end the claims.
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if port in self._claimed:
            return False
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True

    def _unlock(self, port: int) -> None:
        assert self._descriptor is not None
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, port)


def is_free(port: int) -> bool:
    """Whether nobody listens on this port. Without SO_REUSEADDR a bind also fails while connections of an earlier
    server linger there."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


_claims: Final = Claims()


def free_ports(count: int) -> list[int]:
    """`count` distinct loopback ports that nobody listens on now."""
    return [_claims.draw(1) for _ in range(count)]


def free_ports_in_a_row(count: int, offsets: Sequence[int] = (0,)) -> int:
    """The first of `count` consecutive free ports; those at these offsets from them are free, too."""
    return _claims.draw(count, offsets)
