"""What the test kit raises beside ValueError for arguments that make no sense."""

from __future__ import annotations


class EnsembleError(Exception):
    """What was asked of an ensemble cannot be done, or did not come about in time; the text says why."""


class MemberFailedError(EnsembleError):
    """A member ended by itself. `__cause__` is what ended it."""

    def __init__(self, sid: int, reason: str) -> None:
        super().__init__(f"member {sid} ended: {reason}")
        self.sid = sid
