"""What an answer says about its request.

`v2.py` and `v3.py` know the numbers of the wire. A status whose `proves_absence` is false proves nothing about what is
stored: a recovery does not count it as "not here".
"""

from __future__ import annotations

import enum


@enum.unique
class Status(enum.Enum):
    """The status of an answer. The last two come over no wire: the host of a client says them."""

    OK = "ok"
    NO_LEDGER = "no ledger"
    """This bookie has never had anything of the ledger, or has deleted it."""
    NO_ENTRY = "no entry"
    """This bookie knows the ledger, and does not have the entry."""
    BAD_REQUEST = "bad request"
    IO_ERROR = "I/O error"
    UNAUTHORIZED = "unauthorized"
    """Another key than the ledger's; BookKeeper's writers give up for good."""
    BAD_VERSION = "bad version"
    FENCED = "fenced"
    """The ledger takes no ordinary adds any more; BookKeeper's writers give up for good."""
    READ_ONLY = "read-only"
    TOO_MANY_REQUESTS = "too many requests"
    UNKNOWN_LEDGER_STATE = "unknown ledger state"
    """This bookie may have lost entries of the ledger: it does not have this one, which proves nothing."""

    UNREACHABLE = "unreachable"
    """The connection was refused, or broke before the answer came."""
    TIMED_OUT = "timed out"

    @property
    def proves_absence(self) -> bool:
        """Whether the bookie, if it loses nothing, did not store the entry before it answered."""
        return self in _PROVE_ABSENCE

    @property
    def is_of_a_wire(self) -> bool:
        """Whether a bookie can say it."""
        return self not in _OF_A_HOST


_PROVE_ABSENCE = frozenset({Status.NO_LEDGER, Status.NO_ENTRY})
_OF_A_HOST = frozenset({Status.UNREACHABLE, Status.TIMED_OUT})
