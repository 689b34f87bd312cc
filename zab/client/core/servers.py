"""Which server the client is connected to, and when it tries which. Pure.

    RESTING --the pause is over--> DIALLING --a stream is open--> LINKED --it ended--> RESTING
    any --the session is over, or the client closed--> OVER

Each stream is an attempt with a number, which `is_at` compares: what is told about an attempt that is over is ignored.

The hosts are tried in their shuffled order, and so are the addresses of their names (`hosts`). After a
round without success, and after a server that dropped the session within a second, comes a random pause, doubled from
50 ms up to 1 s, so that clients do not come back to a struggling ensemble all at once. While a server without a quorum
has the session, the others are asked for one that takes writes.

Out: `wishes`, which the backend carries out: Dial, HangUp, Probe.

Times are milliseconds of the backend's clock. How long a server may take is handed in (`patience_ms`).

Deliberately not here: the session and the bytes of the connection (`runtime`), what failed (`failures`).
"""

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Final, TypeAlias

from attrs import frozen

from zab.client.core.hosts import Host, HostOrder, Place

__all__ = ["PROBE_WAIT_S", "Dial", "HangUp", "Phase", "Probe", "Servers", "Wish"]

PAUSE_MS_MIN: Final = 50
PAUSE_MS_MAX: Final = 1_000
# A server that kept the session this long did not refuse it.
STABLE_MS: Final = 1_000
# ZooKeeper's client probes from 100 ms on, with the pause doubled up to a minute.
PROBE_PAUSE_MS_MIN: Final = 100
PROBE_PAUSE_MS_MAX: Final = 60_000
PROBE_WAIT_S: Final = 1.0


@frozen
class Dial:
    """Open a stream to `host`; then call `dialled` or `not_dialled`.

    address: which one, as returned by `found`. None: `host` may be a name with several addresses: report them with
    `found` before dialling one.
    """

    attempt: int
    host: Host
    address: str | None = None


@frozen
class HangUp:
    """The attempt is over: close its stream, or stop dialling."""

    attempt: int


@frozen
class Probe:
    """Ask the server with `isro` whether it takes writes, for at most `PROBE_WAIT_S`; then call `probed`. Where names
    are resolved, resolve its name first: `found_other` says which address to ask."""

    attempt: int
    place: Place


Wish: TypeAlias = Dial | HangUp | Probe


class Phase(Enum):
    RESTING = "resting"
    DIALLING = "dialling"
    LINKED = "linked"
    OVER = "over"


class Servers:
    """The attempts of one client to reach a server."""

    def __init__(self, order: HostOrder, random: Random) -> None:
        self.phase = Phase.RESTING
        self.place: Place | None = None
        self.deadline = 0
        """By then the server has to accept the connection, and to take the session."""
        self.rest_until = 0
        self.wishes: list[Wish] = []
        self._order = order
        self._random = random
        self._attempt = 0
        self._pause_ms = PAUSE_MS_MIN
        self._taken_at: int | None = None
        self._probe_at: int | None = None
        self._probe_pause_ms = PROBE_PAUSE_MS_MIN

    def __len__(self) -> int:
        return len(self._order)

    def is_at(self, attempt: int, phase: Phase) -> bool:
        return attempt == self._attempt and self.phase is phase

    @property
    def next_time(self) -> int | None:
        """When there is something to do; None: never. While LINKED, the connection has times of its own."""
        match self.phase:
            case Phase.RESTING:
                return self.rest_until
            case Phase.DIALLING:
                return self.deadline
            case Phase.LINKED if self._taken_at is None:
                return self.deadline
            case Phase.LINKED:
                return self._probe_at
        return None

    # One attempt.

    def dial(self, now: int, patience_ms: int) -> Place:
        """Begins the next attempt."""
        self._attempt += 1
        self.wait(now, patience_ms)
        self.place = self._order.next()
        self._taken_at = None
        self.phase = Phase.DIALLING
        self.wishes.append(Dial(self._attempt, *self.place))
        return self.place

    def wait(self, now: int, patience_ms: int) -> None:
        """The server being dialled has this time."""
        self.deadline = now + patience_ms

    def found(self, addresses: Sequence[str]) -> str:
        """The name being dialled has these addresses. Returns the one to dial."""
        self.place = self._order.found(addresses)
        return self.place.address or addresses[0]

    def link(self) -> None:
        """The stream is open."""
        self.phase = Phase.LINKED

    @property
    def has_taken(self) -> bool:
        """The server took the session."""
        return self._taken_at is not None

    def take(self, now: int) -> None:
        self._taken_at = now
        self._order.settle()

    def hang_up(self) -> None:
        self.wishes.append(HangUp(self._attempt))
        self._probe_at = None

    def rest(self, now: int) -> None:
        """No stream is open now: the next attempt begins at once, or after a pause."""
        kept_ms = 0 if self._taken_at is None else max(now - self._taken_at, 1)
        self.phase = Phase.RESTING
        self.rest_until = now
        if kept_ms >= STABLE_MS:
            self._pause_ms = PAUSE_MS_MIN
        elif kept_ms > 0 or self._order.tried_all:
            self.rest_until = now + round(self._random.uniform(0.5, 1.0) * self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)

    def end(self) -> None:
        self.phase = Phase.OVER

    # Probes: the server that has the session takes no writes.

    def begin_to_probe(self, now: int) -> None:
        if self._probe_at is None:
            self._probe_pause_ms = PROBE_PAUSE_MS_MIN
            self._probe_at = now + self._probe_pause_ms

    def probe_in_time(self, now: int) -> None:
        if self._probe_at is not None and now >= self._probe_at:
            self._probe_pause_ms = min(2 * self._probe_pause_ms, PROBE_PAUSE_MS_MAX)
            self._probe_at = now + self._probe_pause_ms
            self.wishes.append(Probe(self._attempt, self._order.other()))

    def found_other(self, place: Place, addresses: Sequence[str]) -> Place:
        """The name of a place to probe has these addresses now. Returns the one to ask."""
        return self._order.found_other(place, addresses)

    def prefer(self, place: Place) -> None:
        """The next attempt goes to `place`."""
        self._order.prefer(place)
