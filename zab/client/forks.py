"""Clients in a fork of the process that made them: they raise ForkedError, and never touch the connection.

    origin = Origin()                       # of one client
    origin.socket = opened                  # its connection's socket; None: there is none
    origin.check()                          # ForkedError in a fork

Both processes would write to one connection and read each other's answers; closing the client in one would end the
session of the other. So in the fork the connection's descriptor is replaced by a socket whose other end is closed:
code that still uses it reads the end of the stream and cannot write, no selector that both processes share is changed,
and a fork that outlives the first process does not hold the connection open.

Closing a client in a fork does nothing: its session lives on with the process that made it.
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
    """The process that made a client. is_forked: this process is a fork of it."""

    def __init__(self) -> None:
        self.is_forked = False
        self.socket: Descriptor | None = None
        _ORIGINS.add(self)

    def check(self) -> None:
        """Raises ForkedError."""
        if self.is_forked:
            raise ForkedError("the client was made before this process was forked: make one in each process")

    def cut_off(self) -> None:
        """This process was forked."""
        self.is_forked = True
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
