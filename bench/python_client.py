"""What the Python client itself costs: operations per second of 1, 10 and 100 callers, beside kazoo's, on one server.

    python -m bench.python_client                 # `make bench-python-client`
    python -m bench.python_client --rounds 9 --seconds 2 --no-readme

Callers are tasks on trio and asyncio, and threads for `zab.client.sync` and kazoo; each asks, waits for its answer, and
asks again. kazoo's own way to have much under way is `get_async`; it is measured, too, with as many under way.

Each round measures every client once, in another order; what is told is the median of the rounds, and the median of the
ratios to kazoo's threads in the same round. Processor time is this process's, so without the server's.

The result is written to bench/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import trio
from kazoo.client import KazooClient

from bench.machine import commit, system
from bench.table import write_readme
from tests.rigs.zab_server import zab_servers
from zab.client import aio, connect, sync

ROUNDS = 7
SECONDS = 2.0
TARGET = "make bench-python-client"
CALLERS = (1, 10, 100)
PATH = "/measured"
DATA = b"x" * 100

Measured = tuple[float, float]
"""Operations per second, and microseconds of processor time of this process for one."""


class Clock:
    """Counts what is done until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self._until = time.perf_counter() + seconds
        self._since = time.perf_counter(), time.process_time()

    def goes_on(self) -> bool:
        self.count += 1
        return time.perf_counter() < self._until

    def measured(self) -> Measured:
        elapsed, used = time.perf_counter() - self._since[0], time.process_time() - self._since[1]
        return self.count / elapsed, used / self.count * 1e6


def on_trio(hosts: str, callers: int, seconds: float) -> Measured:
    async def main() -> Measured:
        async with connect(hosts) as zk:
            clock = Clock(seconds)

            async def work() -> None:
                while clock.goes_on():
                    await zk.get(PATH)

            async with trio.open_nursery() as nursery:
                for _ in range(callers):
                    nursery.start_soon(work)
            return clock.measured()

    return trio.run(main)


def on_asyncio(hosts: str, callers: int, seconds: float) -> Measured:
    async def main() -> Measured:
        async with aio.connect(hosts) as zk:
            clock = Clock(seconds)

            async def work() -> None:
                while clock.goes_on():
                    await zk.get(PATH)

            await asyncio.gather(*(work() for _ in range(callers)))
            return clock.measured()

    return asyncio.run(main())


def in_threads(get: Callable[[str], object], callers: int, seconds: float) -> Measured:
    clock = Clock(seconds)

    def work() -> None:
        while clock.goes_on():
            get(PATH)

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock.measured()


def on_threads(hosts: str, callers: int, seconds: float) -> Measured:
    with sync.connect(hosts) as zk:
        return in_threads(zk.get, callers, seconds)


@contextmanager
def kazoo(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def kazoo_threads(hosts: str, callers: int, seconds: float) -> Measured:
    with kazoo(hosts) as zk:
        return in_threads(zk.get, callers, seconds)


def kazoo_async(hosts: str, callers: int, seconds: float) -> Measured:
    """As many under way as there are callers: each answer is followed by the next request."""
    with kazoo(hosts) as zk:
        clock = Clock(seconds)
        under_way = [zk.get_async(PATH) for _ in range(callers)]
        while clock.goes_on():
            under_way.pop(0).get()
            under_way.append(zk.get_async(PATH))
        for asked in under_way:
            asked.get()
        return clock.measured()


CLIENTS: dict[str, Callable[[str, int, float], Measured]] = {
    "trio": on_trio,
    "asyncio": on_asyncio,
    "threads": on_threads,
    "kazoo, threads": kazoo_threads,
    "kazoo, get_async": kazoo_async,
}


def measure(hosts: str, rounds: int, seconds: float) -> dict[tuple[str, int], list[Measured]]:
    found: dict[tuple[str, int], list[Measured]] = {(name, callers): [] for name in CLIENTS for callers in CALLERS}
    order = random.Random(0)
    for _ in range(rounds):
        for callers in CALLERS:
            for name in order.sample(sorted(CLIENTS), len(CLIENTS)):
                found[name, callers].append(CLIENTS[name](hosts, callers, seconds))
    return found


def table(found: dict[tuple[str, int], list[Measured]]) -> list[str]:
    """Rows of Markdown: gets a second, the ratio to kazoo's threads in the same round, µs of processor time for one."""
    lines = ["| client | " + " | ".join(f"{callers} under way" for callers in CALLERS) + " |", "|---" * 4 + "|"]
    for name in CLIENTS:
        cells = []
        for callers in CALLERS:
            own, theirs = found[name, callers], found["kazoo, threads", callers]
            rate = statistics.median(rate for rate, _ in own)
            ratio = statistics.median(one / other for (one, _), (other, _) in zip(own, theirs, strict=True))
            used = statistics.median(used for _, used in own)
            cells.append(f"{rate:,.0f} ({ratio:.1f}; {used:.0f} µs)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.python_client", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of all clients ({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each measurement ({SECONDS})")
    parser.add_argument("--no-readme", dest="readme", action="store_false", help="leave bench/README.md alone")
    options = parser.parse_args()
    with zab_servers(1) as ensemble:
        with sync.connect(ensemble.hosts) as zk:
            zk.create(PATH, DATA)
        found = measure(ensemble.hosts, options.rounds, options.seconds)
    lines = [system(), f"Python {platform.python_version()}, kazoo {version('kazoo')}", commit()]
    lines.append(f"`python -m bench.python_client`: medians of {options.rounds} rounds of {options.seconds:g} s")
    text = "\n".join([*(f"- {line}" for line in lines), "", *table(found)]) + "\n"
    print(text)
    if options.readme:
        write_readme(text, TARGET)


if __name__ == "__main__":
    main()
