"""The exceptions of the test kit, besides ValueError for invalid arguments."""

from __future__ import annotations


class EnsembleError(Exception):
    """A request to an ensemble is impossible, or was not done in time; the text says why."""


class MemberFailedError(EnsembleError):
    """A member ended by itself. `__cause__` is the exception that ended it."""

    def __init__(self, sid: int, reason: str) -> None:
        super().__init__(f"member {sid} ended: {reason}")
        self.sid = sid


class BrokerFailedError(EnsembleError):
    """A broker ended by itself. `__cause__` is the exception that ended it."""

    def __init__(self, broker_id: int, reason: str) -> None:
        super().__init__(f"broker {broker_id} ended: {reason}")
        self.broker_id = broker_id


class BookieFailedError(EnsembleError):
    """A bookie ended by itself. `__cause__` is the exception that ended it."""

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} ended: {reason}")
        self.bookie = bookie
