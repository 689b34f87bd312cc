"""Clients in a process that was forked off the one that made them: they refuse, and never touch the connection.

    origin = Origin()                       # of one client
    origin.socket = opened                  # what carries its connection; None: nothing does
    origin.check()                          # ForkedError in a fork

Both processes would write to one connection and read each other's answers; closing the client in one would end the
session of the other. So in the fork the descriptor of the connection is given to a socket whose other end is closed:
whatever still uses it reads the end and cannot write, no selector that both processes share is changed, and the
connection is not held open by a fork that outlives the first process.

What is closed in a fork is closed quietly, and its session lives on with the process that made it.
"""

import os
import socket
from typing import Protocol
from weakref import WeakSet

from zab.client.core.exceptions import ForkedError

__all__ = ["Descriptor", "Origin"]


class Descriptor(Protocol):
    def fileno(self) -> int: ...


class Origin:
    """See the module. is_elsewhere: this process is a fork of the one that made the client."""

    def __init__(self) -> None:
        self.is_elsewhere = False
        self.socket: Descriptor | None = None
        _ORIGINS.add(self)

    def check(self) -> None:
        """Raises ForkedError."""
        if self.is_elsewhere:
            raise ForkedError("the client was made before this process was forked: make one in each process")

    def cut_off(self) -> None:
        """This process was forked."""
        self.is_elsewhere = True
        descriptor = -1 if self.socket is None else self.socket.fileno()
        if descriptor >= 0:
            ours, theirs = socket.socketpair()
            theirs.close()
            os.dup2(ours.fileno(), descriptor, inheritable=False)
            ours.close()


_ORIGINS: "WeakSet[Origin]" = WeakSet()


def _cut_off() -> None:
    for origin in list(_ORIGINS):
        origin.cut_off()


# There is no fork on Windows.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cut_off)
