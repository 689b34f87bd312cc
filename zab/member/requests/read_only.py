"""Read-only mode: a member that finds no quorum serves clients that only read.

    looking for max(2000, tickTime) ms     it begins, if `readonlymode.enabled` is set
    the election has ended                 it is over: all connections end, and so do the sessions that it gave out,
                                           unless local sessions are enabled

Clients read what this member had applied when it lost the quorum: committed, and old. A client that has seen more is
refused, as always. A tree that may be wrong, or that was lost, is shown to nobody.

Its sessions are local (`local_sessions`). A global session stays with the ensemble: its client is refused, and gets the
session back from a quorum if it is still alive. Otherwise a client could believe that it still holds a lock by its
session, although a quorum elsewhere has ended the session.

Not here: refused requests (`apart`), and the handshake (`sessions`).
"""

from __future__ import annotations

from typing import Final

from zab.member.settings.config import Config

LOOKING_MS_MIN: Final = 2000


class ReadOnlyMode:
    """The read-only mode of one member. `is_on`: clients that ask for it are served."""

    def __init__(self, config: Config, now: int) -> None:
        self._is_enabled = config.sessions.read_only_mode_enabled and not config.is_standalone
        self._looking_ms = max(LOOKING_MS_MIN, config.timing.tick_time_ms)
        self.due: int | None = None
        """When the mode may begin (monotonic ms); None: not now."""
        self.is_on = False
        self.looks(now)

    def looks(self, now: int) -> None:
        """Note that the member looks for a leader."""
        if self._is_enabled and self.due is None and not self.is_on:
            self.due = now + self._looking_ms

    def found(self) -> None:
        """Note that the member has a leader, or is the leader."""
        self.due = None

    def begin(self) -> None:
        """Begin to serve clients that ask for read-only mode."""
        self.due = None
        self.is_on = True

    def end(self) -> None:
        """Stop serving them."""
        self.is_on = False

    def begins(self, now: int) -> bool:
        """Whether the member has looked for long enough."""
        return self.due is not None and now >= self.due
