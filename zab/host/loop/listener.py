"""A listening socket in the loop: notes that connections wait, which are accepted at the end of the turn.

When the process is out of file descriptors (EMFILE) or the system of buffers, an accept fails and the socket stays
readable. The listener then leaves the poller for `PAUSE_MS`, so that the loop does not spin; the connections wait in
the backlog.

Not here: which connections are accepted (`links`, `sockets`).
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from zab.host.journal.journal import Journal
from zab.host.loop.loop import Loop, PolledSocket, now_ms
from zab.host.loop.poller import READ

PAUSE_MS = 100
ACCEPTS_MAX = 64
"""A turn accepts at most this many connections."""

EVERYWHERE = frozenset({"0.0.0.0", "::"})
"""Hosts that mean all addresses of this machine, as does an empty one."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

journal = Journal("listener")


class Listener(PolledSocket):
    """A listening socket. `ready` while connections wait; `resume_at` is set while accepting is paused. `knocked` is
    called when connections wait."""

    def __init__(self, loop: Loop, sock: socket.socket, knocked: Callable[[], None]) -> None:
        super().__init__(sock)
        self._loop = loop
        self._knocked = knocked
        self.ready = False
        self.resume_at: int | None = None
        self._timer = loop.timer(self.resume_if_due)
        loop.watch(self, READ)

    def on_ready(self, mask: int) -> None:
        self.ready = True
        self._knocked()

    def accept(self) -> list[tuple[socket.socket, tuple[str, int]]]:
        """Accept waiting connections, up to `ACCEPTS_MAX`, each with its numeric address and port."""
        self.ready = False
        accepted: list[tuple[socket.socket, tuple[str, int]]] = []
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = self.socket.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause(error)
                    break
                continue  # That connection was gone before it was accepted.
            accepted.append((sock, (address[0], address[1])))
        return accepted

    def _pause(self, error: OSError) -> None:
        journal.warning("cannot accept connections -> wait", reason=error.strerror, wait_ms=PAUSE_MS)
        self._loop.watch(self, 0)
        self.resume_at = now_ms() + PAUSE_MS
        self._timer.set(self.resume_at)

    def resume_if_due(self, now: int) -> None:
        """Listen again once the pause is over."""
        if self.resume_at is not None and now >= self.resume_at:
            self.resume_at = None
            self._loop.watch(self, READ)


def open_listener(host: str, port: int, backlog_count: int = -1) -> socket.socket:
    """Open a listening socket on a numeric address (empty: all addresses, including IPv6 if available). Raises
    OSError."""
    if not host or host in EVERYWHERE:
        dual = socket.has_dualstack_ipv6()
        family, address = (socket.AF_INET6, ("::", port)) if dual else (socket.AF_INET, ("0.0.0.0", port))
    else:
        dual = False
        family, address = (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, port)
    backlog = socket.SOMAXCONN if backlog_count < 0 else backlog_count
    return socket.create_server(address, family=family, backlog=backlog, dualstack_ipv6=dual)
