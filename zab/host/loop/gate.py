"""The gate of a link: it guards the sending side between threads, and lets a held frame out without a turn.

    with gate:          nobody else sends meanwhile, nor changes the rest
    open(descriptor)    held frames may leave on this socket; until then, and after `shut`, they may not
    number              how many sealed frames have left; the seal of the next one has it
    is_busy             whether something waits to be sent. Set by any thread that queues; held frames never overtake
    left_bytes, take_left()
                        the rest of a held frame, which goes before anything else

`PythonGate` lets nothing out: a held message is sent by `Links.send_now`, in Python. The native one (`zab.native`, part
`durable`) does, in the system call after the write: a thread that waits for the interpreter's lock in between often
waits for a turn of the loop. Both have the same effect.

Not here: what is sent (`held_message`), and the queue (`send_queue`).
"""

from __future__ import annotations

import threading
from typing import Any

from zab.native import load

_native = load("durable")


class PythonGate:
    """See above."""

    left_bytes = 0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.number = 0
        self.is_busy = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def open(self, descriptor: int) -> None:
        """Do nothing: see above."""

    def shut(self) -> None:
        """Do nothing: see above."""

    def take_left(self) -> bytes:
        return b""


Gate: Any = PythonGate if _native is None else _native.Gate
