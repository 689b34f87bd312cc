"""Faults of the network between machines, for any service.

    partition, one_way        groups of machines cannot reach each other; one direction carries nothing
    bridge                    two groups cannot reach each other, but one machine reaches both
    slow_link                 a slow link, up to the timeouts and beyond

`faults` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zab.simulator.world.cluster import FaultContext
from zab.simulator.world.faults import Cause
from zab.simulator.world.network import Pair
from zab.simulator.world.schedule import MS

GIVE_UP_TICKS: Final = 10
"""After this time without traffic a connection may be given up."""


def partition(context: FaultContext) -> bool:
    """Cut the network into two groups; or, rarely, let each machine reach only some others."""
    numbers = context.numbers
    if context.rng.random() < 0.25:
        pairs = [(one, two) for one in numbers for two in numbers if one < two and context.rng.random() < 0.4]
    else:
        group = set(context.rng.sample(numbers, context.rng.randrange(1, len(numbers))))
        pairs = [(one, two) for one in numbers for two in numbers if one in group and two not in group]
    block(context, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def one_way(context: FaultContext) -> bool:
    block(context, [context.two_numbers()])
    return True


def bridge(context: FaultContext) -> bool:
    numbers = context.rng.sample(context.numbers, len(context.numbers))
    place = context.rng.randrange(2, len(numbers))
    pairs = [(one, two) for one in numbers[1:place] for two in numbers[place:]]
    block(context, [*pairs, *((two, one) for one, two in pairs)])
    return bool(pairs)


def block(context: FaultContext, pairs: Sequence[Pair], ticks_min: int = 0) -> None:
    """Cut these directions, and mend them later; connections may be given up if that takes long."""
    cluster = context.cluster
    for pair in pairs:
        cluster.network.block(*pair)

    def heal() -> None:
        for pair in pairs:
            cluster.network.unblock(*pair)

    context.mend_after(cluster.tick_us * ticks_min + context.ticks(20), heal)
    cluster.schedule.after(cluster.tick_us * GIVE_UP_TICKS, cluster.cut_for_long, pairs)


def slow_link(context: FaultContext) -> bool:
    one, two = context.two_numbers()
    condition = (
        context.ticks(context.cluster.patience_ticks / 2),
        context.rng.choice((0, 1, 10, 100)) * MS * MS // context.cluster.tick_us,
    )
    slow_down(
        context, [(one, two)] if context.rng.random() < 0.5 else [(one, two), (two, one)], condition, context.ticks(20)
    )
    return True


def slow_down(context: FaultContext, pairs: Sequence[Pair], condition: tuple[int, int], duration: int) -> None:
    """Give these directions an additional delay and a limit of bytes per millisecond, for a duration."""
    slow = context.cluster.network.slow
    for pair in pairs:
        slow[pair] = condition

    def mend() -> None:
        for pair in pairs:
            slow.pop(pair, None)

    context.mend_after(duration, mend)


NETWORK_FAULTS: Final[Mapping[str, Cause[FaultContext]]] = {
    "partition": partition,
    "one_way": one_way,
    "bridge": bridge,
    "slow_link": slow_link,
}
