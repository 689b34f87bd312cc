"""Read-only mode: a member that has looked for a quorum in vain serves clients that ask for no more than reads.

    looking for max(2000, tickTime) ms     it begins, where `readonlymode.enabled` is set
    the election has ended                 it is over: all connections end, and so do the sessions that it gave out,
                                           unless there are local ones at all times

What clients read is what this member had applied when it lost the others: committed, and old. A client that has seen
more is sent away, as everywhere. A tree that may be wrong, or that was lost, is shown to nobody.

Sessions are of this member alone (`local_sessions`). One that the ensemble began stays with the ensemble: its client is
sent away, and has it again from a quorum, if it lives. Otherwise whoever holds something by such a session would be
connected and believe that it does, while a quorum elsewhere has ended it.

Not here: what is refused (`apart`), and the handshake (`sessions`).
"""

from __future__ import annotations

from typing import Final

from zab.member.settings.config import Config

LOOKING_MS_MIN: Final = 2000


class ReadOnlyMode:
    """Of one member. `is_on`: clients that ask for it are served."""

    def __init__(self, config: Config, now: int) -> None:
        self._is_enabled = config.sessions.read_only_mode_enabled and not config.is_standalone
        self._looking_ms = max(LOOKING_MS_MIN, config.timing.tick_time_ms)
        self.due: int | None = None
        """When it may begin (monotonic ms); None: not now."""
        self.is_on = False
        self.looks(now)

    def looks(self, now: int) -> None:
        """The member looks for a leader."""
        if self._is_enabled and self.due is None and not self.is_on:
            self.due = now + self._looking_ms

    def found(self) -> None:
        """It has one, or is it."""
        self.due = None

    def begin(self) -> None:
        """Clients that ask for it are served from now on."""
        self.due = None
        self.is_on = True

    def end(self) -> None:
        """They are served no longer."""
        self.is_on = False

    def begins(self, now: int) -> bool:
        """Whether it has looked for long enough."""
        return self.due is not None and now >= self.due
