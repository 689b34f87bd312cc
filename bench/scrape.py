"""What a scrape of the metrics, and a command of the admin server, cost a member in processor time.

    python -m bench.scrape [--scrapes N] [--znodes N] [--ephemerals N] [--watches N]

One member on loopback, with so many znodes, ephemerals and watches in it. Its processor time, all threads, user and
system, is read before and after each run of requests, one after the other; what it spends in as much time without them
is taken off. The bound is 10 ms a scrape.
"""

from __future__ import annotations

import argparse
import time
import urllib.request
from pathlib import Path

from kazoo.client import KazooClient

from bench.machine import commit, system
from tests.rigs.zab_server import zab_servers
from zab.member.settings.commands import PROMETHEUS
from zab.testing.kit.ports import free_ports

BOUND_MS = 10.0
_TICKS_MS = 10.0
"""Of /proc."""
_AT_ONCE = 500


def processor_ms(pid: int) -> float:
    """Of all threads of a process, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICKS_MS


def cost_ms(pid: int, url: str, count: int) -> tuple[float, float, int]:
    """Of one request: processor time of the member, time until the answer was there, bytes of it."""
    began, began_ms = time.monotonic(), processor_ms(pid)
    size = 0
    for _ in range(count):
        with urllib.request.urlopen(url, timeout=60) as answer:
            size = len(answer.read())
    took, spent_ms = time.monotonic() - began, processor_ms(pid) - began_ms
    idle_ms = processor_ms(pid)
    time.sleep(took)
    idle_ms = processor_ms(pid) - idle_ms
    return (spent_ms - idle_ms) / count, took * 1000 / count, size


def fill(hosts: str, znodes: int, ephemerals: int, watches: int) -> KazooClient:
    """The client whose session has the ephemerals and watches."""
    client = KazooClient(hosts)
    client.start()
    client.ensure_path("/bench")
    todo = [("create_async", (f"/bench/{number:07}", b"x" * 100)) for number in range(znodes)]
    todo += [("create_async", (f"/bench/e{number:07}", b"", None, True)) for number in range(ephemerals)]
    todo += [("exists_async", (f"/nowhere/{number:07}", len)) for number in range(watches)]
    for first in range(0, len(todo), _AT_ONCE):
        for answer in [getattr(client, name)(*words) for name, words in todo[first : first + _AT_ONCE]]:
            answer.get(60)
    return client


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scrapes", type=int, default=300)
    parser.add_argument("--znodes", type=int, default=20_000)
    parser.add_argument("--ephemerals", type=int, default=2_000)
    parser.add_argument("--watches", type=int, default=5_000)
    options = parser.parse_args()
    admin, metrics = free_ports(2)
    lines: dict[str, str | int] = {
        "admin.enableServer": "true",
        "admin.serverPort": admin,
        "metricsProvider.className": PROMETHEUS,
        "metricsProvider.httpHost": "127.0.0.1",
        "metricsProvider.httpPort": metrics,
    }
    with zab_servers(1, configuration=lines) as servers:
        [member] = servers.members
        client = fill(servers.hosts, options.znodes, options.ephemerals, options.watches)
        print(f"{system()}, {commit()}")
        worst = 0.0
        for name, url in (
            ("/metrics", f"http://127.0.0.1:{metrics}/metrics"),
            ("/commands/monitor", f"http://127.0.0.1:{admin}/commands/monitor"),
            ("/health/ready", f"http://127.0.0.1:{admin}/health/ready"),
        ):
            spent_ms, took_ms, size = cost_ms(member.pid, url, options.scrapes)
            worst = max(worst, spent_ms)
            print(f"{name}: {spent_ms:.2f} ms of processor time, {took_ms:.2f} ms until answered, {size} bytes")
        client.stop()
        client.close()
    return 0 if worst <= BOUND_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
