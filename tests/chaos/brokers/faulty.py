"""Brokers with a fault: `python -m tests.chaos.brokers.faulty FAULT FILE`, with the file of a broker.

alone       acks=all is answered as soon as the leader has a record. Followers fetch rarely, so that a leader which
            is killed has often acknowledged what no other one has.
aborted     consumers with read_committed are not told which transactions were aborted, and show their records
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from zab.broker.__main__ import main
from zab.partition.log.log import Log
from zab.partition.replica.fetcher import Fetcher
from zab.partition.requests.produce import Written

FETCH_GAP_MS: Final = 300

_error, _request = Written.error, Fetcher.request
_asked_at: dict[int, int] = {}


def _by_the_leader(written: Written) -> Any:
    written.waits_for_all = False
    return _error(written)


def _rarely(fetcher: Fetcher, now: int) -> bytes | None:
    again_at = _asked_at.get(id(fetcher), 0) + FETCH_GAP_MS
    if now < again_at:
        fetcher._deadline = again_at
        return None
    frame = _request(fetcher, now)
    if frame is not None:
        _asked_at[id(fetcher)] = now
    return frame


def alone() -> None:
    """See the docstring of the module."""
    Written.error = _by_the_leader  # type: ignore[method-assign]
    Fetcher.request = _rarely  # type: ignore[method-assign]


def aborted() -> None:
    """See the docstring of the module."""
    Log.aborted_in = lambda *_: []  # type: ignore[method-assign]


FAULTS: Final[dict[str, Callable[[], None]]] = {"alone": alone, "aborted": aborted}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
