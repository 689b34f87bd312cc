"""Brokers of zab beside those of Kafka 3.9.1, driven by one generator in turns.

    python -m bench.brokers [--rounds N] [--seconds S] [--cells PATTERN ...] [--quick] [--no-page]

First one broker of each kind runs, then three of each, all on loopback, with their znodes on members of zab. In each
round every cell is run on both; the side that begins changes from round to round. Then brokers are started again, and
leaders are ended. The result is written to bench/BROKERS.md.
It needs a C compiler, Java and Maven; without them it says so.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from bench.brokers import moments
from bench.brokers.cells import ONE_BROKER, THREE_BROKERS, Cell, prepare, run
from bench.brokers.page import PAGE
from bench.brokers.sides import Side, sides
from bench.rivals import Moment, Rivals, Stage, main

ONE: Sequence[Moment] = (
    ("resident memory after the load", "MiB", moments.memory_mib),
    ("start after SIGTERM, to the first write", "s", partial(moments.start_seconds, is_killed=False)),
    ("start after `kill -9`, to the first write", "s", partial(moments.start_seconds, is_killed=True)),
    ("the same with a gigabyte that was not synced", "s", moments.recovery_seconds),
)
THREE: Sequence[Moment] = (
    ("resident memory of one of three after the load", "MiB", moments.memory_mib),
    ("processor of one of three that are idle, with 1,000 partitions", "%", moments.idle_percent),
    ("SIGTERM of the leader to the next write, acks=all", "s", partial(moments.failover_seconds, is_killed=False)),
    ("`kill -9` of the leader to the next write, acks=all", "s", partial(moments.failover_seconds, is_killed=True)),
)


def _warm_up(cells: Sequence[Cell], side: Side, seconds: float) -> None:
    """Make the topics, too."""
    for cell in cells:
        prepare(cell, side)
        run(cell, side, seconds / len(cells))


RIVALS = Rivals(
    module="bench.brokers",
    description=(__doc__ or "").splitlines()[0],
    servers="brokers",
    patterns="'fetch:*' or 'produce:148:*'",
    moments="starts, memory and failovers",
    page=PAGE,
    stages=(
        Stage(partial(sides, count=1), ONE_BROKER, ONE),
        Stage(partial(sides, count=3), THREE_BROKERS, THREE),
    ),
    run=run,
    warm_up=_warm_up,
    seconds=2.0,
    warm_up_seconds=8.0,
    quick_seconds=1.0,
)

if __name__ == "__main__":
    sys.exit(main(RIVALS))
