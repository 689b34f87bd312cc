"""Curves of the load generator: what grows is the number of connections, members, znodes, bytes, names or parts.

Each is a function from the field to its curve. Ensembles have three members where nothing else is said, and -Xmx512m.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bench.cells import Cell, hosts_of, run_load, run_operations
from bench.curves.field import Field, Take, restart_seconds, right
from bench.curves.figures import SIDES, ZAB, Curve, Series
from bench.failover import measure_failover
from bench.process_tree import resident_mib
from tests.rigs.zookeeper_server import ZooKeeperEnsemble

RATE = "operations a second"
LARGE_HEAP_MB = 2048
FILLERS, FILLING_FLIGHT = 10, 100
MEMORY_ZNODES_MIN = 100_000
MAXBUFFER_BYTES = 4 << 20
SINGLE_GETS = Cell("get", 3, 1, "all")
BESIDE_SECONDS_MIN = 6.0


def connections(field: Field) -> Curve:
    """One request in flight on each, over all members."""
    series = [Series("set", RATE), Series("get", RATE)]
    curve = Curve("connections", "Connections", "connections, with one request in flight on each", series)
    with field.ensembles() as both:
        takes = [
            field.rate(operation, count, Cell(operation, count, 1, "all"))
            for count in field.crowds(1, 10, 100, 1_000, 10_000)
            for operation in ("set", "get")
        ]
        field.measure(curve, both, takes)
    return curve


def members(field: Field) -> Curve:
    """A single write, and as many writes and reads as there may be."""
    cells = (Cell("set", 1, 1, "leader"), Cell("set", 30, 100, "all"), Cell("get", 30, 100, "all"))
    curve = Curve("members", "Members", "members of the ensemble", [Series(cell.title, RATE) for cell in cells])
    for size in field.sizes(3, 5, 7):
        with field.ensembles(size) as both:
            field.measure(curve, both, [field.rate(cell.title, size, cell) for cell in cells])
    return curve


def znodes(field: Field) -> Curve:
    """Sets and gets all over the tree; how long single gets wait, beside sets and snapshots and while the tree grows;
    `kill -9` of the leader, and of all members, and how long they take to serve again."""
    start, memory = "start until all serve", "resident memory of a member a znode"
    beside, growing = "longest wait of a get beside sets", "longest wait of a get while znodes are made"
    failover = "kill -9 of the leader to the next write"
    load = f"{FILLERS} x {FILLING_FLIGHT}"
    series = [Series(growing, "ms", more_is_better=False)]
    series += [Series(f"{operation}, {load}", RATE) for operation in ("set", "get")]
    series.append(Series(beside, "ms", more_is_better=False))
    series += [Series(name, "s", more_is_better=False) for name in (failover, start)]
    series.append(Series(memory, "B", more_is_better=False))
    curve = Curve("znodes", "Znodes", "znodes", series)
    filled = 0
    with field.ensembles(heap_mb=LARGE_HEAP_MB, warm=False) as both:
        empty_mib = {both[side].hosts: _resident_mib(both[side]) for side in SIDES}
        for count in field.sizes(1_000, 10_000, 100_000, 1_000_000):
            each, root = (count - filled) // FILLERS, f"/tree{count}"
            for side in SIDES:
                fill = partial(_fill, both[side], FILLERS, each, root)
                curve.add(growing, count, side, _longest_wait_ms(both[side], fill, field))
            field.warm_up(both)
            spread = ("--keep", "--root", root, "--among", str(each))
            cells = [Cell(operation, FILLERS, FILLING_FLIGHT, "all") for operation in ("set", "get")]
            field.measure(curve, both, [field.rate(cell.title, count, cell, spread) for cell in cells])
            takes = [Take(beside, count, partial(_longest_wait_beside_ms, cell=cells[0], spread=spread, field=field))]
            if len(both[ZAB].members) > 1:
                takes.append(Take(failover, count, measure_failover))
            takes.append(Take(start, count, restart_seconds))
            if count >= MEMORY_ZNODES_MIN:
                takes.append(Take(memory, count, partial(_bytes_a_znode, empty_mib=empty_mib, count=count)))
            field.measure(curve, both, takes)
            filled = count
    return curve


def data(field: Field) -> Curve:
    """Values of so many bytes. jute.maxbuffer is 4 MiB on both sides."""
    operations = ("set", "get")
    series = [Series(f"{operation}, 10 x 1", RATE) for operation in operations]
    curve = Curve("data", "Data", "bytes of data", series)
    with field.ensembles(heap_mb=LARGE_HEAP_MB, limits={"jute.maxbuffer": MAXBUFFER_BYTES}) as both:
        takes = [
            field.rate(f"{operation}, 10 x 1", size, Cell(operation, 10, 1, "all", size))
            for size in field.sizes(100, 1 << 10, 16 << 10, 128 << 10, 1 << 20)
            for operation in operations
        ]
        field.measure(curve, both, takes)
    return curve


def children(field: Field) -> Curve:
    """The names of all children, in one reply."""
    cell = Cell("children", 3, 1, "all")
    curve = Curve("children", "Children", "names in a reply", [Series(cell.title, RATE)])
    with field.ensembles() as both:
        for count in field.sizes(1_000, 10_000, 100_000):
            root = f"/names{count}"
            for side in SIDES:
                _fill(both[side], 1, count, root)
            field.measure(curve, both, [field.rate(cell.title, count, cell, ("--keep", "--root", root))])
    return curve


def multi(field: Field) -> Curve:
    """Sets of one znode in one transaction."""
    cells = (Cell("multi", 10, 1, "all"), Cell("multi", 30, 10, "all"))
    curve = Curve(
        "multi", "Parts of a multi", "parts of a multi", [Series(cell.title, "multis a second") for cell in cells]
    )
    with field.ensembles() as both:
        takes = [
            field.rate(cell.title, parts, cell, ("--parts", str(parts)))
            for parts in field.sizes(1, 10, 100)
            for cell in cells
        ]
        field.measure(curve, both, takes)
    return curve


def _fill(ensemble: ZooKeeperEnsemble, parents: int, each: int, root: str) -> None:
    """Children of 100 B that stay: so many of each of so many parents, below `root`."""
    cell = Cell("create", parents, FILLING_FLIGHT, "all")
    right(run_operations(ensemble.hosts, cell, each, options=("--keep", "--root", root)))


def _longest_wait_beside_ms(ensemble: ZooKeeperEnsemble, cell: Cell, spread: Sequence[str], field: Field) -> float:
    """Beside load that lasts long enough for snapshots: both sides take one after some 100,000 transactions."""
    seconds = max(field.seconds, BESIDE_SECONDS_MIN)
    hosts = hosts_of(cell, ensemble)
    load = partial(run_load, hosts, cell, seconds=seconds, warmup_seconds=0, options=spread)
    return _longest_wait_ms(ensemble, lambda: right(load()), field)


def _longest_wait_ms(ensemble: ZooKeeperEnsemble, work: Callable[[], object], field: Field) -> float:
    """Of single gets at every member, asked for as long as this work lasts."""
    hosts, waits, is_done = hosts_of(SINGLE_GETS, ensemble), list[float](), threading.Event()

    def ask() -> None:
        while not is_done.is_set():
            asked = run_load(hosts, SINGLE_GETS, seconds=field.seconds, warmup_seconds=0)
            waits.append(right(asked).max_us / 1000)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            work()
        finally:
            is_done.set()
        asking.result()
    return max(waits)


def _resident_mib(ensemble: ZooKeeperEnsemble) -> float:
    return statistics.mean(resident_mib(member.pid) for member in ensemble.members)


def _bytes_a_znode(ensemble: ZooKeeperEnsemble, empty_mib: Mapping[str, float], count: int) -> float:
    return (_resident_mib(ensemble) - empty_mib[ensemble.hosts]) * 2**20 / count
