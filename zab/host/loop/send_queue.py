"""The send queue of one socket: urgent bytes before ordinary ones, each kind in order.

    push(piece, is_urgent)  queues a whole piece (frame), which no other piece interrupts; callers with many pieces
                            append to `ordinary` or `urgent` and add to `unsent_bytes` directly
    flush(send)             calls `send` once with the joined pieces; what the socket did not take stays as a view
    flush(send, pieces, …)  the same with more ordinary pieces: if nothing is queued, they go straight to the socket
    go_on_with(rest)        the rest of a frame that was begun elsewhere goes first
    begin_sealing(seal)     later pieces are sealed, in the order in which they leave

A partial send copies nothing again: the rest is a view into the joined buffer.
At most `JOIN_BYTES_MAX` are joined at a time, so that a long queue is not copied for a short send, and an urgent piece
waits at most for that and one ordinary piece.

Not here: when to flush, and what to do about a growing queue: its owner reads `unsent_bytes`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

JOIN_BYTES_MAX = 256 << 10
SMALL_BYTES = 4 << 10
"""Waiting pieces are joined if they are shorter than this on average."""

Send: TypeAlias = Callable[[bytes | memoryview], int]
"""A socket's `send`: returns how many bytes it took, or raises BlockingIOError."""


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
        """Seal later pieces with `seal`. Pieces that were pushed before go first, unchanged."""
        assert self._seal is None
        waiting = b"".join((self._unsent or b"", *self.urgent, *self.ordinary))
        assert len(waiting) == self.unsent_bytes
        self.urgent.clear()
        self.ordinary.clear()
        self._unsent = memoryview(waiting) if waiting else None
        self._seal = seal

    def go_on_with(self, rest: bytes) -> None:
        """Send this first, as it is: the rest of a frame that another thread began while nothing was queued."""
        assert self._unsent is None
        self._unsent = memoryview(rest)
        self.unsent_bytes += len(rest)

    def flush(self, send: Send, pieces: Sequence[Any] = (), total_bytes: int = 0) -> int:
        """Push the pieces of bytes, whose total length is `total_bytes`, and call `send` once with all that waits,
        joined; returns how many bytes it took. Errors of `send` pass through, except BlockingIOError, which counts as
        0 bytes."""
        data: bytes | memoryview
        if pieces:
            assert self._seal is None
            is_alone = not self.unsent_bytes and total_bytes <= JOIN_BYTES_MAX
            self.unsent_bytes += total_bytes
            if not is_alone and total_bytes < len(pieces) * SMALL_BYTES:
                # Kept separately, small pieces take several times their bytes.
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
