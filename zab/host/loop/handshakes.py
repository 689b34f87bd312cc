"""TLS handshakes of new connections to a port; the service gets the connections after that.

    add(sock, …)    adds a connection that was accepted for a port with a `TlsPolicy`
    step()          once a turn while some wait: takes one step of one handshake, the one that has waited longest

A policy accepts TLS, or also plain connections (port unification): then the first byte decides, which stays unread.

Limits: a step costs up to 2 ms with an RSA key of 2048 bits, 1 ms with one of P-256, 9 ms with RSA of 4096 bits (its
private key, or the client's certificate); so a turn takes one, however many wait. At most `count_max` newcomers are
here at a time: a further one replaces another (`zab.wire.pending_connections`). So a flood of handshakes costs
established connections one step a turn, and no places.

A peer whose handshake fails is told why, in TLS, and its connection is closed when the peer has closed it, or at the
deadline.

Not here: TLS itself (`engine`), accepting, and established connections (`sockets`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final, TypeAlias

from zab.host.journal.journal import Journal
from zab.host.loop.loop import Loop, PolledSocket
from zab.host.loop.poller import READ, WRITE
from zab.host.tls.engine import FIRST_BYTE, TlsError, TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.wire.pending_connections import PendingConnections

HANDSHAKE_MS: Final = 10_000
HANDSHAKES_MAX: Final = 250
_RECEIVE_BYTES: Final = 16 << 10

of_strangers = Journal("tls", is_of_strangers=True)


class Newcomer(PolledSocket):
    """A connection whose handshake is not done."""

    def __init__(
        self, handshakes: Handshakes, sock: socket.socket, address: tuple[str, int], policy: TlsPolicy
    ) -> None:
        super().__init__(sock)
        self.address = address
        self.policy = policy
        self.side: TlsSide | None = None
        """None: it has sent nothing yet, and may be plain."""
        self.unsent = b""
        self.is_leaving = False
        """Whether the handshake has failed: further bytes are dropped."""
        self._handshakes = handshakes

    def on_ready(self, mask: int) -> None:
        self._handshakes.waits(self)


def _say_failed(host: str, reason: str) -> None:
    of_strangers.warning("TLS handshake failed -> connection is closed", client=host, reason=reason)


Admit: TypeAlias = Callable[[socket.socket, tuple[str, int], TlsSide | None], None]
"""Takes over the socket of a newcomer, and its TLS; None for a plain one."""


class Handshakes:
    """All newcomers of one server."""

    def __init__(
        self,
        loop: Loop,
        admit: Admit,
        wanted: Callable[[], None],
        count_max: int = HANDSHAKES_MAX,
        *,
        handshake_ms: int = HANDSHAKE_MS,
        failed: Callable[[str, str], None] = _say_failed,
    ) -> None:
        """`wanted` is called when a newcomer waits for a step. `failed` is called with the host of each failed
        handshake, and the reason. A handshake ends after `handshake_ms`."""
        self._loop = loop
        self._admit = admit
        self._wanted = wanted
        self._timer = loop.timer(self._close_overdue)
        self._handshake_ms = handshake_ms
        self._failed = failed
        self._strangers: PendingConnections[Newcomer] = PendingConnections(count_max)
        self.deadlines: dict[Newcomer, int] = {}
        """All newcomers in the order of arrival, which is the order of their deadlines."""
        self.waiting: dict[Newcomer, None] = {}
        """Newcomers with something to read or to send, longest wait first."""
        self.exceeded_count = 0
        """How many were replaced because there were too many."""
        self.failed_count = 0
        """How many have failed, in whatever way; those that were replaced, too."""

    @property
    def count(self) -> int:
        return len(self.deadlines)

    def add(self, sock: socket.socket, address: tuple[str, int], policy: TlsPolicy, now: int) -> None:
        """Take over an accepted socket. `address`: the numeric one, and the port."""
        newcomer = Newcomer(self, sock, address, policy)
        crowded_out = self._strangers.admit(newcomer, address[0])
        if crowded_out is not None:
            self.exceeded_count += 1
            self._fail(crowded_out, "replaced by a newer connection: too many handshakes are under way")
        self.deadlines[newcomer] = now + self._handshake_ms
        self._timer.set(now + self._handshake_ms)
        self._loop.watch(newcomer, READ)

    def waits(self, newcomer: Newcomer) -> None:
        """Note that this newcomer has something to read, or can be sent more."""
        self.waiting[newcomer] = None
        self._wanted()

    def step(self) -> None:
        """Recognize plain connections, and take one step of one handshake."""
        for newcomer in [each for each in self.waiting if each.side is None]:
            self._tell_apart(newcomer)
        if self.waiting:
            newcomer = next(iter(self.waiting))
            del self.waiting[newcomer]
            try:
                self._go_on(newcomer)
            except BlockingIOError:
                pass
            except TlsError as error:
                self._refuse(newcomer, error)
            except OSError as error:
                self._fail(newcomer, error.strerror or str(error))

    def _tell_apart(self, newcomer: Newcomer) -> None:
        try:
            first = newcomer.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            del self.waiting[newcomer]
        except OSError:
            self._forget(newcomer)
        else:
            if not first:
                self._forget(newcomer)
            elif newcomer.policy.takes_plain and first != FIRST_BYTE:
                self._let_in(newcomer)
            else:
                newcomer.side = TlsSide(newcomer.policy.context)

    def _go_on(self, newcomer: Newcomer) -> None:
        """Take one step of a handshake. Raises TlsError and OSError."""
        if newcomer.unsent:
            self._send(newcomer, b"")
            return
        data = newcomer.socket.recv(_RECEIVE_BYTES)
        if not data:
            # It only checked whether the port is open, as health checks do.
            self._forget(newcomer)
        elif not newcomer.is_leaving:
            assert newcomer.side is not None
            _, out = newcomer.side.feed(data, 0)
            self._send(newcomer, out)

    def _send(self, newcomer: Newcomer, data: bytes) -> None:
        """Send bytes. While the kernel does not take all, nothing is read."""
        unsent = newcomer.unsent + data
        try:
            newcomer.unsent = unsent[newcomer.socket.send(unsent) :] if unsent else b""
        except BlockingIOError:
            newcomer.unsent = unsent
        if newcomer.unsent:
            self._loop.watch(newcomer, WRITE)
        elif newcomer.side is not None and newcomer.side.is_ready:
            self._let_in(newcomer)
        else:
            self._loop.watch(newcomer, READ)

    def _let_in(self, newcomer: Newcomer) -> None:
        self._leave(newcomer)
        self._loop.release(newcomer)
        self._admit(newcomer.socket, newcomer.address, newcomer.side)

    # -------------------------------------------------------------------------------------------------------- failing

    def _refuse(self, newcomer: Newcomer, error: TlsError) -> None:
        """Tell the peer why, and wait until it closes: closing with unread bytes would reset the connection, and lose
        the reason."""
        if not error.farewell:
            self._fail(newcomer, str(error))
            return
        self._count(newcomer, str(error))
        newcomer.is_leaving = True
        try:
            newcomer.socket.send(error.farewell)
            newcomer.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._forget(newcomer)
        else:
            self._loop.watch(newcomer, READ)

    def _fail(self, newcomer: Newcomer, reason: str) -> None:
        if not newcomer.is_leaving:
            self._count(newcomer, reason)
        self._forget(newcomer)

    def _count(self, newcomer: Newcomer, reason: str) -> None:
        self.failed_count += 1
        self._failed(newcomer.address[0], reason)

    def _forget(self, newcomer: Newcomer) -> None:
        self._leave(newcomer)
        self._loop.discard(newcomer)

    def _leave(self, newcomer: Newcomer) -> None:
        self._strangers.leave(newcomer)
        self.deadlines.pop(newcomer, None)
        self.waiting.pop(newcomer, None)

    # ----------------------------------------------------------------------------------------------------- deadlines

    def _close_overdue(self, now: int) -> None:
        """Close the newcomers whose time is over."""
        for newcomer in [newcomer for newcomer, deadline in self.deadlines.items() if now >= deadline]:
            self._fail(newcomer, "the handshake took too long")
        if self.deadlines:
            self._timer.set(next(iter(self.deadlines.values())))
