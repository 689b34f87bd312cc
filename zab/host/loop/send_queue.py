"""What waits to be sent on one socket: urgent bytes before ordinary ones, each kind in its order.

    push(piece, is_urgent)  whole pieces (frames): a piece is never torn apart by another one; who has many appends to
                            `ordinary` or `urgent`, and adds to `unsent_bytes`, without a call
    flush(send)             one call of `send` with the joined pieces; what the socket did not take stays as a view
    flush(send, pieces, …)  the same with more ordinary pieces: what nothing stands before goes straight to the socket
    begin_sealing(seal)     what is pushed from here on is sealed, in the order in which it leaves

A partial send copies nothing again: the rest is a view into the joined buffer, which goes on from where it stopped.
At most `JOIN_BYTES_MAX` are joined at a time, so that a long queue is not copied for a short send, and an urgent
piece waits for no more than that and one ordinary piece.

Not here: when to flush, and what to do about a queue that grows: its owner reads `unsent_bytes`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

JOIN_BYTES_MAX = 256 << 10
SMALL_BYTES = 4 << 10
"""Pieces that wait are kept as one where they are shorter than this, on the average."""

Send: TypeAlias = Callable[[bytes | memoryview], int]
"""A socket's `send`: how many bytes it took, or BlockingIOError."""


class SendQueue:
    """The send side of one socket."""

    __slots__ = ("_seal", "_unsent", "ordinary", "unsent_bytes", "urgent")

    def __init__(self) -> None:
        self.urgent: deque[bytes] = deque()
        self.ordinary: deque[bytes] = deque()
        self._unsent: memoryview | None = None
        self._seal: Callable[[bytes], bytes] | None = None
        self.unsent_bytes = 0

    def push(self, piece: bytes, *, is_urgent: bool = False) -> None:
        (self.urgent if is_urgent else self.ordinary).append(piece)
        self.unsent_bytes += len(piece)

    def begin_sealing(self, seal: Callable[[bytes], bytes]) -> None:
        """`seal` makes of a piece what is sent in its place. What was pushed before goes first, as it is."""
        assert self._seal is None
        waiting = b"".join((self._unsent or b"", *self.urgent, *self.ordinary))
        assert len(waiting) == self.unsent_bytes
        self.urgent.clear()
        self.ordinary.clear()
        self._unsent = memoryview(waiting) if waiting else None
        self._seal = seal

    def flush(self, send: Send, pieces: Sequence[bytes] = (), total_bytes: int = 0) -> int:
        """Push the pieces, whose lengths sum up to `total_bytes`, and offer all that waits to the socket, joined, once;
        returns how many bytes it took. Errors of `send` pass through, except that a socket which would block took
        nothing."""
        data: bytes | memoryview
        if pieces:
            assert self._seal is None
            is_alone = not self.unsent_bytes and total_bytes <= JOIN_BYTES_MAX
            self.unsent_bytes += total_bytes
            if not is_alone and total_bytes < len(pieces) * SMALL_BYTES:
                # Kept as they are, small pieces take several times their bytes.
                self.ordinary.append(b"".join(pieces))
            elif not is_alone:
                self.ordinary.extend(pieces)
        else:
            is_alone = False
            if not self.unsent_bytes:
                return 0
        if is_alone:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        elif self._unsent is not None:
            data = self._unsent
        elif self._seal is None and not self.urgent and len(self.ordinary) == 1:
            data = self.ordinary.popleft()
        else:
            data = self._joined()
        try:
            sent = send(data)
        except BlockingIOError:
            sent = 0
        self._unsent = memoryview(data)[sent:] if sent < len(data) else None
        self.unsent_bytes -= sent
        assert self.unsent_bytes >= 0
        return sent

    def _joined(self) -> bytes:
        pieces: list[bytes] = []
        size_bytes = 0
        for waiting in (self.urgent, self.ordinary):
            while waiting and size_bytes < JOIN_BYTES_MAX:
                piece = waiting.popleft()
                if self._seal is not None:
                    self.unsent_bytes -= len(piece)
                    piece = self._seal(piece)
                    self.unsent_bytes += len(piece)
                pieces.append(piece)
                size_bytes += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
