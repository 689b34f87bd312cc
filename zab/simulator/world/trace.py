"""The trace of a run: a hash of all events, and lines for readers.

The hash covers every turn of every member, every message, every byte between clients and servers, and every fault, each
with its time. Two runs with the same hash are the same run. Lines cost far more than the run itself, so they are made
only if there is a sink; a failed run is repeated to get them.
"""

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct

from zab.simulator.world.schedule import Schedule

_MARK = Struct(">QqQ")


class Trace:
    """The trace of one run. `sink` takes one line at a time, without its end; None: no lines are made."""

    def __init__(
        self,
        schedule: Schedule,
        sink: Callable[[str], None] | None = None,
        describe: Callable[[object], str] = repr,
    ) -> None:
        self._schedule = schedule
        self.describe = describe
        """Describes an item in a line."""
        self._hash = blake2b(digest_size=16)
        self.sink = sink

    @property
    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()

    def mark(self, who: int, what: int) -> None:
        """Hash an event that a number describes."""
        self._hash.update(_MARK.pack(self._schedule.now, who, what))

    def carried(self, who: int, data: bytes) -> None:
        """Hash bytes that were sent."""
        self._hash.update(_MARK.pack(self._schedule.now, who, len(data)) + data)

    def say(self, who: str, text: str) -> None:
        """Hash a line, and write it if there is a sink."""
        self._hash.update(text.encode())
        if self.sink is not None:
            self.line(who, text)

    def line(self, who: str, text: str) -> None:
        """Write a line without hashing it. Call only if there is a sink."""
        assert self.sink is not None
        self.sink(f"{self._schedule.now / 1000:11.3f} {who:>3} {text}")
