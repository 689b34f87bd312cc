"""Whether this broker may lead: only while its session with the coordination service surely lives.

    prove(until)    the session lives until then, by this broker's clock, if no server answers again
    keep_up(now)    stop leading when that time is over, and go on when an answer says that the session has lived on
    end()           the session is over

Others take over what a broker leads once its session is over, and they need not be able to tell it so. So it counts for
itself, from when it sent the newest message that was answered: the service cannot have heard of it later than that and
have forgotten it sooner than a session timeout after. When the time is over, the broker serves nobody as a leader.

What it leads it keeps in mind: if the session turns out to have lived on, the controller has nothing to say, and the
broker goes on in the same leader epochs. If the session is over it leads nothing, until it has registered once more
and the controller of the day has told this new life what it leads. What was said to the former life is not taken.

Not here: the clock of the session (`zab.client`), the registration (`controller`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zab.partition.replica.replica import Replica
from zab.partition.requests.replicas import Replicas

NEVER: Final = 1 << 62
LOOK_MS: Final = 100
"""How often a broker that is in doubt looks whether its session has lived on: answers alone do not wake it."""


class SessionRule:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(self, replicas: Replicas, touched: Callable[[Replica], None]) -> None:
        """`touched` is given replicas that are led no longer, or again."""
        self._replicas = replicas
        self._touched = touched
        self._lives_until = -NEVER
        self._now = 0
        self.is_in_doubt = True
        """Whether the session may be over."""

    def prove(self, until: int) -> None:
        """The session lives until then; a time that is past: it may be over."""
        self._lives_until = until

    def keep_up(self, now: int) -> bool:
        """Stop leading, or go on. True: that has changed."""
        self._now = now
        before, self.is_in_doubt = self.is_in_doubt, now >= self._lives_until
        if before is self.is_in_doubt:
            return False
        for replica in self._replicas:
            if replica.led is not None:
                self.apply(replica)
                self._touched(replica)
        return True

    def apply(self, replica: Replica) -> None:
        """Let the replica lead, or not, as the session says."""
        if self.is_in_doubt:
            replica.suspend()
        else:
            replica.resume(self._now)

    def end(self) -> None:
        """The session is over: lead nothing until the controller says so once more. What it has said before must not be
        followed again (`ClusterImage.without_leader`)."""
        for replica in self._replicas:
            if replica.led is not None:
                replica.abdicate()
                self._touched(replica)

    def next_deadline(self) -> int:
        """When `keep_up` has something to do although nothing happens."""
        if not self.is_in_doubt:
            return self._lives_until
        return self._now + LOOK_MS if len(self._replicas) else NEVER
