"""What happened in a run: a hash of everything, and lines for whoever wants to read them.

The hash covers every turn of every member, every message and every byte between clients and servers, and every fault,
each with its time. Two runs with the same hash are the same run. Lines cost many times what the run itself costs, so
they are made only when somebody takes them; a failed run is run again for them.
"""

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct

from zab.simulator.world.schedule import Schedule

_MARK = Struct(">QqQ")


class Trace:
    """`sink` takes one line at a time, without its end; None: nobody reads."""

    def __init__(
        self,
        schedule: Schedule,
        sink: Callable[[str], None] | None = None,
        describe: Callable[[object], str] = repr,
    ) -> None:
        self._schedule = schedule
        self.describe = describe
        """How a line shows an item."""
        self._hash = blake2b(digest_size=16)
        self.sink = sink

    @property
    def digest(self) -> str:
        """The hash of all that happened so far."""
        return self._hash.hexdigest()

    def mark(self, who: int, what: int) -> None:
        """Something happened that a number says."""
        self._hash.update(_MARK.pack(self._schedule.now, who, what))

    def carried(self, who: int, data: bytes) -> None:
        """Bytes went from somebody to somebody."""
        self._hash.update(_MARK.pack(self._schedule.now, who, len(data)) + data)

    def say(self, who: str, text: str) -> None:
        """Something worth a line happened, whether there is a reader or not."""
        self._hash.update(text.encode())
        if self.sink is not None:
            self.line(who, text)

    def line(self, who: str, text: str) -> None:
        """A line for the reader alone; to be called only when there is one."""
        assert self.sink is not None
        self.sink(f"{self._schedule.now / 1000:11.3f} {who:>3} {text}")
