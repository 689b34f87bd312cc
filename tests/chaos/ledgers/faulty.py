"""Bookies with a fault: `python -m tests.chaos.ledgers.faulty FAULT FILE`, with the file of a bookie.

forgetful   entries are acknowledged, and are in memory alone until the next segment is written
unfenced    a recovery is told that the ledger is fenced, and its writer's entries are taken as before
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from zab.bookie.__main__ import main
from zab.ledger.bookie.journal import Journal
from zab.ledger.bookie.ledgers import Ledger
from zab.ledger.bookie.writes import Writes

_take, _fence = Journal.take, Writes.fence


def _taken(journal: Journal) -> Any:
    journal.envelopes = []
    return _take(journal)


def _fenced(writes: Writes, ledger_id: int, key: bytes) -> Any:
    ledger = _fence(writes, ledger_id, key)
    if isinstance(ledger, Ledger):
        ledger.is_fenced = False
    return ledger


def forgetful() -> None:
    """See the docstring of the module."""
    Journal.take = _taken  # type: ignore[method-assign]


def unfenced() -> None:
    """See the docstring of the module."""
    Writes.fence = _fenced  # type: ignore[method-assign]


FAULTS: Final[dict[str, Callable[[], None]]] = {"forgetful": forgetful, "unfenced": unfenced}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
