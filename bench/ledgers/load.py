"""One run of load by our own client of ledgers, as a process of its own: `python -m bench.ledgers.load …`.

It prints one line of JSON: entries, seconds, entries a second, latencies from the call to the acknowledgement in
microseconds, and the processor time of this process in seconds.

    --window N      so many appends are under way
    --rate R        instead so many appends are begun each second, whatever is acknowledged
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import deque

import trio

from zab.client import connect
from zab.ledgers import LedgerWriter, Protocol, StoreSettings, Ticket, open_store

_WARMUP_SHARE = 0.2


async def _windowed(ledger: LedgerWriter, payload: bytes, window: int, until: float, latencies: list[float]) -> None:
    under_way: deque[tuple[float, Ticket]] = deque()
    while time.perf_counter() < until:
        while len(under_way) < window:
            under_way.append((time.perf_counter(), ledger.append_nowait(payload)))
        begun, ticket = under_way.popleft()
        await ticket.done()
        latencies.append(time.perf_counter() - begun)
    for begun, ticket in under_way:
        await ticket.done()
        latencies.append(time.perf_counter() - begun)


async def _at_a_rate(ledger: LedgerWriter, payload: bytes, rate: float, until: float, latencies: list[float]) -> None:
    async def wait(due: float, ticket: Ticket) -> None:
        await ticket.done()
        latencies.append(time.perf_counter() - due)

    due = time.perf_counter()
    async with trio.open_nursery() as nursery:
        while due < until:
            while due <= time.perf_counter():
                # Counted from when it was due, not from when this process came to it.
                nursery.start_soon(wait, due, ledger.append_nowait(payload))
                due += 1 / rate
            await trio.sleep(max(0.0, due - time.perf_counter()))


async def run(options: argparse.Namespace) -> dict[str, float]:
    """One ledger, one writer."""
    settings = StoreSettings(protocol=Protocol(options.protocol))
    payload = b"x" * options.size
    async with connect(options.hosts) as zk, open_store(zk, settings=settings) as store:
        ensemble, write, ack = options.quorums
        async with store.create(ensemble, write, ack) as ledger:
            for seconds in (options.seconds * _WARMUP_SHARE, options.seconds):
                latencies: list[float] = []
                begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
                if options.rate:
                    await _at_a_rate(ledger, payload, options.rate, begin + seconds, latencies)
                else:
                    await _windowed(ledger, payload, options.window, begin + seconds, latencies)
                took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    latencies.sort()
    p50, p99 = (latencies[int(share * (len(latencies) - 1))] for share in (0.5, 0.99))
    return {
        "entries": len(latencies),
        "seconds": took,
        "per_second": len(latencies) / took,
        "p50_us": 1e6 * p50,
        "p99_us": 1e6 * p99,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ledgers.load")
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--window", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--protocol", choices=["v2", "v3"], default="v2")
    parser.add_argument("--quorums", type=int, nargs=3, default=[3, 3, 2])
    print(json.dumps(trio.run(run, parser.parse_args())))


if __name__ == "__main__":
    main()
