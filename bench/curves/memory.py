"""What sessions and watches keep resident. All members are killed and started before each value, so that nothing of
another one is used again; and what a member has after it is compared with what it had before, over all members.

What a virtual machine has once taken for its heap it keeps, whether it is in use or not: that counts, since the machine
has it no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import trio

from bench.cells import idle_crowd
from bench.curves.field import Field, Take, restart_seconds
from bench.curves.figures import Curve, Series
from bench.process_tree import resident_mib
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client import Client, connect

ASKING = 200


def memory(field: Field) -> Curve:
    """Sessions that idle, each on a connection of its own; and watches of one session, each on a path of its own."""
    session, watch = "a session", "a watch"
    series = [Series(name, "B in all members", more_is_better=False) for name in (session, watch)]
    curve = Curve("memory", "Memory of sessions and watches", "sessions or watches", series)
    with field.ensembles(warm=False) as both:
        takes = [Take(session, count, partial(_bytes_a_session, count=count)) for count in field.crowds(500, 10_000)]
        takes += [Take(watch, count, partial(_bytes_a_watch, count=count)) for count in field.sizes(10_000, 100_000)]
        field.measure(curve, both, takes)
    return curve


def _bytes_a_session(ensemble: ZooKeeperEnsemble, count: int) -> float:
    restart_seconds(ensemble)
    before = _resident_bytes(ensemble)
    with idle_crowd(ensemble.hosts, count):
        return (_resident_bytes(ensemble) - before) / count


def _bytes_a_watch(ensemble: ZooKeeperEnsemble, count: int) -> float:
    restart_seconds(ensemble)
    return trio.run(_bytes_of_watches, ensemble, count) / count


async def _bytes_of_watches(ensemble: ZooKeeperEnsemble, count: int) -> float:
    async with connect(ensemble.hosts) as client:
        before = _resident_bytes(ensemble)
        numbers = iter(range(count))
        async with trio.open_nursery() as nursery:
            for _ in range(ASKING):
                nursery.start_soon(_watch, client, numbers)
        return _resident_bytes(ensemble) - before


async def _watch(client: Client, numbers: Iterator[int]) -> None:
    watcher = client.watcher()
    for number in numbers:
        await client.exists(f"/watched-{number:09}", watch=watcher)


def _resident_bytes(ensemble: ZooKeeperEnsemble) -> float:
    return sum(resident_mib(member.pid) for member in ensemble.members) * 2**20
