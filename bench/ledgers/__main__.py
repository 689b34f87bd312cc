"""Bookies of zab beside those of BookKeeper, driven by the same clients in turns.

    python -m bench.ledgers [--rounds N] [--seconds S] [--cells PATTERN ...] [--quick] [--no-page]

Three bookies of each kind run on loopback, with their metadata on members of zab. In each round every cell is run on
both; the side that begins changes from round to round. Then bookies are started again, and ledgers are taken over. The
result is written to bench/LEDGERS.md.
It needs Java and Maven; without them it says so.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from bench.ledgers import moments
from bench.ledgers.cells import CELLS, Cell, run
from bench.ledgers.page import PAGE
from bench.ledgers.sides import Side, sides
from bench.rivals import Moment, Rivals, Stage, main

MOMENTS: Sequence[Moment] = (
    ("resident memory of a bookie after the load", "MiB", moments.memory_mib),
    ("start after SIGTERM, until it is registered", "s", partial(moments.start_seconds, is_killed=False)),
    ("start after `kill -9`, until it is registered", "s", partial(moments.start_seconds, is_killed=True)),
    ("recovery of a ledger with 1,000 entries, to the first append of the next one", "s", moments.takeover_seconds),
)


def _warm_up(cells: Sequence[Cell], side: Side, seconds: float) -> None:
    """With the first one alone."""
    for cell in cells[:1]:
        run(cell, side, seconds)


RIVALS = Rivals(
    module="bench.ledgers",
    description=(__doc__ or "").splitlines()[0],
    servers="bookies",
    patterns="'java:*' or 'python:v2:1000'",
    moments="starts, memory and takeovers",
    page=PAGE,
    stages=(Stage(sides, CELLS, MOMENTS),),
    run=run,
    warm_up=_warm_up,
    seconds=5.0,
    warm_up_seconds=5.0,
    quick_seconds=8.0,
)

if __name__ == "__main__":
    sys.exit(main(RIVALS))
