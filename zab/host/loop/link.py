"""One connection between two servers of a service: its socket, with or without TLS, and its send queue.

Not here: opening, reading, flushing and closing links, and their handshake (`zab.host.loop.links`).
"""

from __future__ import annotations

import socket
from typing import NamedTuple, Protocol

from zab.host.loop.gate import Gate
from zab.host.loop.loop import PolledSocket
from zab.host.loop.poller import READ, WRITE
from zab.host.loop.send_queue import SendQueue
from zab.host.tls.engine import TlsError, TlsSide
from zab.host.tls.tls_socket import SealedSocket
from zab.wire.frames import GREETING_BYTES_MAX, FrameReader, frame
from zab.wire.handshake import Agreed, Dialling, Listening

RECEIVE_BYTES = 64 << 10
RECEIVE_CALLS_MAX = 8
"""A turn reads at most 512 KiB from one link, which take some milliseconds to handle."""
RECEIVE_FEW_BYTES = 4096
SHAKE_BYTES = 8192
"""A turn reads at most this from a peer that has not proven its identity, and from a link that is being closed."""
HUNG_UP = "closed by the other side"


class Marks(Protocol):
    """Where a link notes what the next turn has to do with it."""

    readable: list[Link]
    unflushed: dict[Link, None]
    has_news: bool
    has_unsent: bool


class Prepared(NamedTuple):
    """A frame as it would leave next, sealed if its link is, with the number of its seal."""

    link: Link
    number: int
    frame: bytes


class Link(PolledSocket):
    """One connection; `up` once the handshake is over. Until then the peer of an inbound one is unknown: its `sid` is
    None."""

    def __init__(
        self,
        links: Marks,
        sock: socket.socket,
        link: int,
        sid: int | None,
        handshake: Dialling | Listening,
        side: TlsSide | None,
    ) -> None:
        super().__init__(sock)
        self.tls = None if side is None else SealedSocket(sock, side)
        self._receive = sock.recv if self.tls is None else self.tls.receive
        self.send = sock.send if self.tls is None else self.tls.send
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self.host = ""
        """The host of an inbound connection."""
        self.sid = sid
        self.inbound = sid is None
        self.handshake = handshake
        self.agreed: Agreed | None = None
        self.up = False
        self.closing = False
        self.queue = SendQueue()
        self.frames = FrameReader(GREETING_BYTES_MAX)
        self.at_end = False
        """Whether the peer has sent its last byte."""
        self.why_ended = HUNG_UP
        self._links = links
        self.gate = Gate()
        """Guards the queue, and the socket except for reading, once the link is up: other threads send, too."""
        self.send_error: OSError | None = None
        """The error that another thread ran into."""

    def on_ready(self, mask: int) -> None:
        links = self._links
        if mask & READ:
            links.readable.append(self)
            links.has_news = True
        if mask & WRITE:
            links.unflushed[self] = None
            links.has_unsent = True

    def receive(self) -> bytes:
        """Read from the socket.

        A short read has usually emptied it; if not, the poller reports it again. A further call would cost more than
        the turn that it sometimes saves.
        """
        is_in_use = self.up and not self.closing
        calls_max, wanted_bytes = (RECEIVE_CALLS_MAX, RECEIVE_BYTES) if is_in_use else (1, SHAKE_BYTES)
        pieces: list[bytes] = []
        for _ in range(calls_max):
            try:
                data = self._receive(wanted_bytes)
            except BlockingIOError:
                break
            except TlsError as error:
                self.why_ended = str(error)
                data = b""
            except OSError:
                data = b""
            if not data:
                self.at_end = True
                break
            pieces.append(data)
            if len(data) < RECEIVE_FEW_BYTES:
                break
        if self.tls is not None:
            self._ask_for_another_turn(self.tls)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _ask_for_another_turn(self, tls: SealedSocket) -> None:
        """Ask for another turn if TLS has more to read or to send, which no socket announces."""
        links = self._links
        if tls.has_more and not self.at_end:
            links.readable.append(self)
            links.has_news = True
        if tls.sealed_bytes:
            links.unflushed[self] = None
            links.has_unsent = True

    def let_held_out(self) -> None:
        """Let held frames out without a turn from now on, unless they have to go through TLS."""
        if self.tls is None:
            self.gate.is_busy = self.queue.unsent_bytes > 0
            self.gate.open(self.descriptor)

    def prepared(self, payload: bytes) -> Prepared | None:
        """The frame of a held message; None if it cannot leave on its own now. Called from any thread."""
        with self.gate:
            agreed = self.agreed
            if agreed is None or self.gate.is_busy or self.tls is not None or self.closing or self.gone:
                return None
            data, seal = frame(payload), agreed.sending
            return Prepared(self, self.gate.number, data if seal is None else seal.preview(data))

    def flush(self) -> None:
        """Send what is queued, after the rest of a held frame. Call it inside the gate. Raises OSError."""
        gate, queue = self.gate, self.queue
        if gate.left_bytes:
            queue.go_on_with(gate.take_left())
        if self.send_error is not None:
            raise self.send_error
        queue.flush(self.send)
        gate.is_busy = queue.unsent_bytes > 0

    def push_tls(self, tls: SealedSocket) -> int:
        """Send what TLS has sealed; returns how many bytes are left in all. Raises OSError."""
        tls.push()
        return self.queue.unsent_bytes or tls.sealed_bytes

    def close(self) -> None:
        # A descriptor that is closed while another thread is about to send may name another connection by then.
        with self.gate:
            self.gate.shut()
            super().close()

    @property
    def has_goodbye_left(self) -> bool:
        """Whether a part of the TLS goodbye is still to be sent."""
        return self.tls is not None and self.tls.sealed_bytes > 0

    def finish(self) -> None:
        """Tell the peer that nothing follows; call again while `has_goodbye_left`. Raises OSError."""
        if self.tls is None:
            self.socket.shutdown(socket.SHUT_WR)
        else:
            self.tls.finish()
