"""Work that a session does by itself, on no task of its callers. Pure.

    zk.undertake(job)

The core asks a job for its `next` operation until it has none: when it is undertaken, when a server has the session
again, after each answer to it, and after an event for it. So what has to be done is done whatever became of the task
that wanted it: it was cancelled, or its connection was lost.

A job that waits for events is handed to the operations as their watcher: it has `deliver` and `end`, as `Watcher`.

Invariants:
- After an answer that was lost with its connection (ConnectionLossError) nothing is asked until the next connection.
- No operation is asked for while there is no room in flight.
- A job hears `ended` once, or is done before.
"""

from typing import Any, Protocol

from zab.client.core.exceptions import ZabError
from zab.client.core.operations import Operation

__all__ = ["BackgroundJob"]


class BackgroundJob(Protocol):
    """See the module."""

    @property
    def is_done(self) -> bool:
        """Nothing is left to do: the client forgets it."""

    def next(self) -> Operation[Any] | None:
        """The next operation to send; None: nothing for now."""

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        """The operation's result, or its error."""

    def ended(self, reason: ZabError) -> None:
        """The session is over, or the client was closed."""
