"""Free loopback ports for servers that tests start.

They are drawn below the range that the kernel hands to outgoing connections, so that no client socket of a test that
runs at the same time can take one between the probe and the server's bind. Each worker of a parallel run draws from a
part of its own, and goes round in it: a member that is down finds its port free when it comes back.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
_PORTS: Final = range(11_000, 32_000)


def _own_ports() -> range:
    """The part of this worker; all of them, where there is one process. One that takes the place of a worker that ended
    has a number beyond their count, and begins elsewhere in one of their parts."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = len(_PORTS) // count
    return _PORTS[number % count * size :][:size]


def _round_of(ports: range) -> itertools.cycle[int]:
    """All of them, over and over, from a random one on: another run on this machine is likely elsewhere."""
    start = random.randrange(len(ports))
    return itertools.cycle([*ports[start:], *ports[:start]])


_next_ports = _round_of(_own_ports())


def free_ports(count: int) -> list[int]:
    """`count` distinct loopback ports that nobody listens on now."""
    ports: list[int] = []
    with contextlib.ExitStack() as probes:
        while len(ports) < count:
            port = next(_next_ports)
            probe = probes.enter_context(socket.socket())
            # Without SO_REUSEADDR a bind also fails while connections of an earlier server linger there.
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                ports.append(port)
    return ports


def free_ports_in_a_row(count: int, *, span: int) -> int:
    """The first of `count` consecutive free ports; all within `span` after it belong to this worker."""
    while True:
        ports = free_ports(count)
        if ports[-1] == ports[0] + count - 1 and ports[0] + span in _own_ports():
            return ports[0]
